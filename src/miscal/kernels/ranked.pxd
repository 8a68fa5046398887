# Tiles of rows whose columns are classes, and how the variation of a row is measured; see `variation.py`.
cdef enum:
    ROWS = 64  # of a tile
    PITCH = 72  # numbers between the columns of a tile: were it a power of two, columns would share their cache lines

cdef enum:
    AS_GIVEN = -1
    BY_ENTROPY = 0
    BY_CONFIDENCE = 1
    BY_VARIATION_RATIO = 2
    BY_QUALITATIVE = 3
