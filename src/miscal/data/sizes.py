"""Amounts of memory as people write them."""

from __future__ import annotations

import math
import re
from typing import Any

from miscal.data.errors import refusal

LEAST = 400 * 10**6  # bytes: the interpreter and the libraries need nearly as much
STEPS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
SIZE = re.compile(r"(\d+(?:\.\d*)?(?:E\d+)?|\.\d+)([KMGT]?)(I?)B?")


def memory_bytes(text: Any) -> int:
    """A ceiling such as "600MB", "1G" or "1GiB" in bytes; units with an i are powers of 1024, the others of 1000.

    >>> memory_bytes("600MB"), memory_bytes("1G"), memory_bytes("1 GiB")
    (600000000, 1000000000, 1073741824)
    """
    found = SIZE.fullmatch(str(text).upper().replace(" ", ""))
    number, unit, binary = found.groups() if found else ("nan", "", "")
    size = float(number) * (1024 if binary else 1000) ** STEPS[unit]
    if not math.isfinite(size) or (binary and not unit):
        raise refusal("must be a size such as 600MB or 1GB", where="'memory'", got=f"it is {text!r}")
    if size < LEAST:
        raise refusal("must be at least 400MB", where="'memory'", got=f"it is {text!r}")
    return int(size)
