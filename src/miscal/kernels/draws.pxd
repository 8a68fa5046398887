# Random numbers by counter: the same seed and counter give the same number in any thread and any order.
from libc.math cimport ceil, cos, log, sqrt
from libc.stdint cimport int64_t, uint64_t

from miscal.kernels.arithmetic cimport bits_of, number_of


cdef inline uint64_t mixed(uint64_t seed, uint64_t counter) noexcept nogil:
    """Give 64 random bits (splitmix64)."""
    cdef uint64_t z = seed + (counter + 1) * <uint64_t>0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline double uniform(uint64_t seed, uint64_t counter) noexcept nogil:
    """Give a uniform number in [0, 1)."""
    return <double><int64_t>(mixed(seed, counter) >> 11) * 1.1102230246251565e-16


cdef inline int64_t limit_of(double probability) noexcept nogil:
    """Give the integer above the first 53 bits of a random number where the uniform number is below a probability."""
    return <int64_t>ceil(probability * 9007199254740992.0)


cdef inline double drawn(uint64_t bits, int64_t limit, double event, double none) noexcept nogil:
    """Give `event` where a random number is below the limit of a probability, else `none`; without a branch."""
    cdef int64_t below = -<int64_t>((<uint64_t>(<int64_t>(bits >> 11) - limit)) >> 63)  # all bits, or none of them
    return number_of(bits_of(none) ^ ((bits_of(none) ^ bits_of(event)) & below))


cdef inline double gaussian(uint64_t seed, uint64_t counter) noexcept nogil:
    """Give a standard normal number (Box-Muller on two of the counter's uniforms)."""
    cdef double first = 1.0 - uniform(seed, 2 * counter)
    cdef double second = uniform(seed, 2 * counter + 1)
    return sqrt(-2.0 * log(first)) * cos(6.283185307179586 * second)


cdef inline double flipped(double value, uint64_t bits) noexcept nogil:
    """Give the value where the first bit is 1, minus the value where it is 0; without a branch."""
    return number_of(bits_of(value) ^ <int64_t>(~bits & <uint64_t>0x8000000000000000))
