# Cache lines: eight words added at once, and memory that is asked for before it is needed.
from libc.stdint cimport uint64_t

cdef enum:  # of a packed row or cell, see `sums.py`
    FULL = 4095  # rows of a cell: as many numbers of 52 bits fit one word
    UPPER = 32  # where a word is cut in two
    EVENTS = 52  # where the fifth word is
    LOSS = 40  # bits of a loss in the fifth word, the others are in the upper half of the first

cdef extern from *:
    """
    #define MISCAL_UPPER_MASK ((uint64_t)0xFFFFFFFF)
    #define MISCAL_LOSS_MASK (((uint64_t)1 << 40) - 1)
    #if defined(__GNUC__)
    #define MISCAL_RESTRICT __restrict__
    #define miscal_fetch(place) __builtin_prefetch(place, 1, 3)
    #else
    #define MISCAL_RESTRICT __restrict
    #define miscal_fetch(place) ((void)0)
    #endif
    static inline uint64_t miscal_add_line(uint64_t *MISCAL_RESTRICT to, const uint64_t *MISCAL_RESTRICT of) {
        int k;
        for (k = 0; k < 8; ++k) to[k] += of[k];
        return to[0];
    }
    """
    const uint64_t UPPER_MASK "MISCAL_UPPER_MASK"
    const uint64_t LOSS_MASK "MISCAL_LOSS_MASK"
    uint64_t add_line "miscal_add_line"(uint64_t *to, const uint64_t *of) noexcept nogil  # the first word of the sum
    void fetch "miscal_fetch"(const void *place) noexcept nogil
