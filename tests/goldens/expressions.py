"""Expressions with numbers in them, such as SQL, taken apart so that the numbers can be compared as numbers."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(?<![A-Za-z_\"`])\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def numbers_apart(text: str) -> tuple[str, list[float]]:
    """The text with its numbers blanked, and the numbers.

    >>> numbers_apart("EXP(1.5e0 * p1)")
    ('EXP(# * p1)', [1.5])
    """
    return _NUMBER.sub("#", text), [float(number) for number in _NUMBER.findall(text)]
