"""Names of levels that were seen, and where each of a batch's names is among them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


class Names:
    """Text in order of appearance, found again by a hash table that grows with it."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.list: list[str] = []
        self.offsets = np.zeros(1, np.int32)
        self.content = np.zeros(0, np.uint8)
        self.hashes = np.zeros(0, np.uint64)
        self.slots = np.zeros(256, np.uint64)
        self.extend(list(names))

    def __len__(self) -> int:
        return len(self.list)

    def extend(self, names: list[str]) -> None:
        """Add names; all of them must be new and differ."""
        from miscal.kernels.names import keep_names

        if not names:
            return
        offsets, content, hashes = _hashed(text_of(names))
        first = len(self.list)
        self.list += names
        self.offsets = np.concatenate([self.offsets[:-1], offsets - offsets[0] + self.offsets[-1]])
        self.content = np.concatenate([self.content, content[offsets[0] : offsets[-1]]])
        self.hashes = np.concatenate([self.hashes, hashes])
        if 3 * len(self.list) > self.slots.size:
            self.slots = np.zeros(1 << (4 * len(self.list)).bit_length(), np.uint64)
            first, hashes = 0, self.hashes
        keep_names(hashes, first, self.slots)

    def find(self, names: Any) -> np.ndarray:
        """The place of each of an Arrow array of text, -1 where it is not known or null."""
        from miscal.kernels.names import find_names

        found = np.full(len(names), -1, np.int32)
        if len(names) == 0 or len(self.list) == 0:
            return found
        offsets, content, hashes = _hashed(names)
        find_names(hashes, offsets, content, self.slots, self.offsets, self.content, found)
        if names.null_count:
            found[names.is_null().to_numpy(zero_copy_only=False)] = -1
        return found


def text_of(names: list[str]) -> Any:
    """Names as an Arrow array of text (Arrow's own conversion would load pandas)."""
    import pyarrow as pa

    content, pieces = "".join(names), names
    if not content.isascii():  # the bytes of a name are not as many as its letters
        pieces = [name.encode() for name in names]  # type: ignore[misc]
    offsets = np.zeros(len(names) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, pieces), np.int64, len(names)), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content.encode())]
    return pa.Array.from_buffers(pa.string(), len(names), buffers)


def _hashed(names: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offsets, bytes and hashes of an Arrow array of text."""
    from miscal.kernels.names import hash_names

    _, offsets, content = names.buffers()
    places = np.array(np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names) + 1])
    letters = np.frombuffer(content if content is not None and content.size else b"\0", np.uint8)
    hashes = np.empty(len(names), np.uint64)
    hash_names(places, letters, hashes)
    return places, letters, hashes
