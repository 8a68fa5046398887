"""Text to people: what cannot be printed is lost without harm to the work, its files and its exit status."""

from __future__ import annotations

import codecs
import os
import sys
from contextlib import suppress
from typing import Any

# What the command prints beyond ASCII, for streams that know no more than that.
PLAIN = {
    "\N{LESS-THAN OR EQUAL TO}": "<=", "\N{MINUS SIGN}": "-", "\N{EM DASH}": "-", "\N{MULTIPLICATION SIGN}": "x",
    "\N{MIDDLE DOT}": "-", "\N{HORIZONTAL ELLIPSIS}": "...",
}  # fmt: skip


def _spelled(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lost = error.object[error.start : error.end]
    return "".join(PLAIN.get(sign, f"\\u{ord(sign):04x}") for sign in lost), error.end


WRITTEN: list[str] = []  # what the command says it wrote, for an interrupt that comes after


def steady() -> None:
    """Have both streams spell out what their encoding lacks."""
    WRITTEN.clear()
    codecs.register_error("spelled", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="spelled")


def knows_lines() -> bool:
    """Whether the terminal can draw the lines of a table."""
    return str(getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")


def is_terminal(stream: Any) -> bool:
    """Whether a person looks at a stream; one that is closed is none."""
    try:
        return bool(stream is not None and stream.isatty())
    except ValueError:
        return False


def say(text: str = "") -> None:
    """Print a line or more, or go on without."""
    lost = _printed(sys.stdout, text)
    if lost is not None:
        unprinted(lost)


def unprinted(error: OSError) -> None:
    """Go on without printing; a reader who has gone away has seen enough, any other reason is said."""
    _drop(1)
    if not isinstance(error, BrokenPipeError):
        complain(f"the text could not be printed ({error.strerror or error}); all else was done")


def complain(text: str) -> None:
    """Say one line to whoever looks after the command, if anyone does."""
    if _printed(sys.stderr, f"miscal: {text}") is not None:
        _drop(2)


def _printed(stream: Any, text: str) -> OSError | None:
    try:
        if stream is not None:
            stream.write(text + "\n")
            stream.flush()
    except ValueError:  # closed from within
        return None
    except OSError as error:
        return error
    return None


def _drop(number: int) -> None:
    """Point a stream to nowhere: what it still holds would fail again when the interpreter closes it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
