# Weights that fall with the distance, and sums of them: what kernels over pairs of points share.
#
# Sums are kept in sixteen lanes, so that they become vector code with the same bits on every processor.
from libc.math cimport fabs

from miscal.kernels.arithmetic cimport exponential


cdef enum:
    LANES = 16


cdef inline double far() noexcept nogil:
    """The distance of what is not there: finite, so that far() - far() is 0 and not NaN."""
    return 1e300


cdef inline void decay(const double* distance, Py_ssize_t size, double scale, double* weight) noexcept nogil:
    """Fill weight = exp(-distance * scale); distances may be negative down to -700 / scale."""
    cdef Py_ssize_t j
    for j in range(size):
        weight[j] = exponential(-distance[j] * scale)


cdef inline void add_four(
    const double* a, const double* b, const double* c, const double* d, const double* x, Py_ssize_t size,
    bint square, double* distance,
) noexcept nogil:
    cdef double x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3]
    cdef Py_ssize_t j
    if square:
        for j in range(size):
            distance[j] += ((a[j] - x0) * (a[j] - x0) + (b[j] - x1) * (b[j] - x1)) + (
                (c[j] - x2) * (c[j] - x2) + (d[j] - x3) * (d[j] - x3))
        return
    for j in range(size):
        distance[j] += (fabs(a[j] - x0) + fabs(b[j] - x1)) + (fabs(c[j] - x2) + fabs(d[j] - x3))


cdef inline void distances(
    const double* points, Py_ssize_t pitch, Py_ssize_t dimensions, const double* point, Py_ssize_t size, bint square,
    double* distance,
) noexcept nogil:
    """Fill the L1 distances (squared Euclidean ones if `square`) of a point to `size` points; row k begins at k pitch."""
    cdef Py_ssize_t j, k = 0
    cdef const double* a
    cdef double x
    for j in range(size):
        distance[j] = 0.0
    while k + 4 <= dimensions:  # four features a pass: fewer loads and stores of the running distance
        add_four(
            points + k * pitch, points + (k + 1) * pitch, points + (k + 2) * pitch, points + (k + 3) * pitch, point + k,
            size, square, distance,
        )
        k += 4
    while k < dimensions:
        a = points + k * pitch
        x = point[k]
        for j in range(size):
            distance[j] += (a[j] - x) * (a[j] - x) if square else fabs(a[j] - x)
        k += 1


cdef inline double weighted_sum(const double* weight, const double* values, Py_ssize_t size) noexcept nogil:
    """The sum of weight * values."""
    cdef double lane[LANES]
    cdef double half[8]
    cdef Py_ssize_t j = 0, k
    for k in range(LANES):
        lane[k] = 0.0
    while j + LANES <= size:
        for k in range(LANES):
            lane[k] += weight[j + k] * values[j + k]
        j += LANES
    for k in range(size - j):
        lane[k] += weight[j + k] * values[j + k]
    for k in range(8):
        half[k] = lane[k] + lane[k + 8]
    return ((half[0] + half[4]) + (half[2] + half[6])) + ((half[1] + half[5]) + (half[3] + half[7]))
