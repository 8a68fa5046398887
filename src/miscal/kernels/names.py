"""Names in a hash table: where each of many byte strings is among known ones."""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import inlined, kernel

UPPER_MASK = np.uint64((1 << 32) - 1)


@kernel
def hash_names(offsets, content, hashes):
    """A hash of each name i, content[offsets[i] : offsets[i + 1]]."""
    for i in range(offsets.size - 1):
        start = np.uint64(offsets[i])
        stop = np.uint64(offsets[i + 1])
        state = np.uint64(0xCBF29CE484222325) ^ (stop - start)
        while stop - start >= np.uint64(8):
            word = np.uint64(0)
            for k in range(8):
                word |= np.uint64(content[start + np.uint64(k)]) << np.uint64(8 * k)
            state = (state ^ word) * np.uint64(0x9E3779B97F4A7C15)
            state ^= state >> np.uint64(32)
            start += np.uint64(8)
        while start < stop:
            state = (state ^ np.uint64(content[start])) * np.uint64(0x100000001B3)
            start += np.uint64(1)
        state *= np.uint64(0x9E3779B97F4A7C15)
        hashes[i] = state ^ (state >> np.uint64(32))


@kernel
def find_names(hashes, offsets, content, slots, known_offsets, known_content, found):
    """The place of each name among known ones, -1 if it is not known.

    slots : hash table (a power of 2) of uint64, 0 where empty, otherwise 1 + place and, above 32 bits, a part of the
    hash. First the hashes are looked up, then all names compared: two short loops wait for memory less than a long one.
    """
    mask = np.uint64(slots.size - 1)
    for i in range(hashes.size):
        slot = hashes[i] & mask
        tag = hashes[i] >> np.uint64(32)
        while slots[slot] != np.uint64(0) and slots[slot] >> np.uint64(32) != tag:
            slot = (slot + np.uint64(1)) & mask
        found[i] = np.int32(slots[slot] & UPPER_MASK) - np.int32(1)
    for i in range(hashes.size):
        if found[i] >= 0 and not _same(offsets, content, i, known_offsets, known_content, found[i]):
            found[i] = _search(hashes[i], offsets, content, i, slots, known_offsets, known_content)


@kernel
def _search(hashed, offsets, content, i, slots, known_offsets, known_content):
    """The place of a name whose hash another one shares."""
    mask = np.uint64(slots.size - 1)
    slot = hashed & mask
    while slots[slot] != np.uint64(0):
        place = np.int32(slots[slot] & UPPER_MASK) - np.int32(1)
        if _same(offsets, content, i, known_offsets, known_content, place):
            return place
        slot = (slot + np.uint64(1)) & mask
    return np.int32(-1)


@inlined
def _same(offsets, content, i, known_offsets, known_content, place):
    start = np.uint64(offsets[i])
    size = np.uint64(offsets[i + 1]) - start
    other = np.uint64(known_offsets[np.uint64(place)])
    if np.uint64(known_offsets[np.uint64(place + 1)]) - other != size:
        return False
    different = False
    for k in range(size):
        different |= content[start + np.uint64(k)] != known_content[other + np.uint64(k)]
    return not different


@kernel
def keep_names(hashes, first, slots):
    """Put names `first`, first + 1, ... into the hash table; they must differ."""
    mask = np.uint64(slots.size - 1)
    for i in range(hashes.size):
        slot = hashes[i] & mask
        while slots[slot] != np.uint64(0):
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = np.uint64(first + i + 1) | ((hashes[i] >> np.uint64(32)) << np.uint64(32))
