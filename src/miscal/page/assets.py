"""The files that travel with the page: style, script, glossary."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def asset(file: str) -> str:
    """A file of the page as it will stand inside it, with plain line ends, which the hashes depend on."""
    text = resources.files("miscal.page").joinpath(file).read_text(encoding="utf-8")
    return "\n".join(text.splitlines()).strip()
