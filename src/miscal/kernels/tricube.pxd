# Sums of the tricube weight (1 - |t|^3)^3, t = (x - point) / bandwidth, times powers of t, over a range of places.
from libc.math cimport fabs

from miscal.kernels.nearness cimport weighted_sum


cdef enum:
    BLOCK = 256  # rows summed at once: the buffers stay in the first cache and blocks make the sums two-level

cdef struct Line:
    # Sorted places and `count` rows of sums that belong to them, each row `pitch` numbers.
    double* x
    double* values
    Py_ssize_t pitch
    Py_ssize_t count


cdef inline void moments(
    Line* line, Py_ssize_t begin, Py_ssize_t end, double point, double inverse, double* sums
) noexcept nogil:
    """Weighted sums of t^0..t^4 to the first five of `sums`, of t^0..t^2 times each response to the next fives."""
    cdef double k0[BLOCK]
    cdef double k1[BLOCK]
    cdef double k2[BLOCK]
    cdef double k3[BLOCK]
    cdef double k4[BLOCK]
    cdef double t, r, u, k
    cdef const double* x
    cdef const double* row
    cdef Py_ssize_t start = begin, length, j, v
    for j in range(5 * line.count):
        sums[j] = 0.0
    while start < end:
        length = min(<Py_ssize_t>BLOCK, end - start)
        x = line.x + start
        for j in range(length):
            t = (x[j] - point) * inverse
            r = fabs(t)
            u = 1.0 - r * r * r
            k = u * u * u
            k0[j] = k
            k1[j] = k * t
            k2[j] = k * t * t
            k3[j] = k * t * t * t
            k4[j] = k * t * t * t * t
        for v in range(line.count):
            row = line.values + v * line.pitch + start
            sums[5 * v] += weighted_sum(k0, row, length)
            sums[5 * v + 1] += weighted_sum(k1, row, length)
            sums[5 * v + 2] += weighted_sum(k2, row, length)
        sums[3] += weighted_sum(k3, line.values + start, length)
        sums[4] += weighted_sum(k4, line.values + start, length)
        start += BLOCK


cdef inline void add_powers(
    Line* line, Py_ssize_t begin, Py_ssize_t end, double point, double inverse, const double* solution,
    Py_ssize_t power, double* out,
) noexcept nogil:
    """Add the sums of operator weights to the power (1, 2 or 4) times each row of values.

    The operator weight of a place is tricube(t) * (a + b (t - centre) + c (t - centre)^2), a, b, c, centre = solution.
    """
    cdef double a = solution[0], b = solution[1], c = solution[2], centre = solution[3]
    cdef double weight[BLOCK]
    cdef double t, r, u
    cdef const double* x
    cdef Py_ssize_t start = begin, length, j, v, turn
    while start < end:
        length = min(<Py_ssize_t>BLOCK, end - start)
        x = line.x + start
        for j in range(length):
            t = (x[j] - point) * inverse
            r = fabs(t)
            u = 1.0 - r * r * r
            t -= centre
            weight[j] = u * u * u * (a + t * (b + t * c))
        for turn in range(power // 2):
            for j in range(length):
                weight[j] *= weight[j]
        for v in range(line.count):
            out[v] += weighted_sum(weight, line.values + v * line.pitch + start, length)
        start += BLOCK
