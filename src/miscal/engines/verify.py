"""Checksums of files: whether what is read is what was written.

A fifth to a quarter of damaged Parquet files decode without complaint to wrong values, in every reader. Page checksums,
which few writers store, are always checked; beyond them only a checksum made when the file was written can tell.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from miscal.data.errors import refusal
from miscal.engines.readers import paths_of

BLOCK = 1 << 22
SUMS = "SHA256SUMS"


def verify(source: Any) -> list[str]:
    """Compare every file with its recorded SHA-256; return the digests.

    The record is ``FILE.sha256`` beside the file, or a line of ``SHA256SUMS`` in its folder, both as `sha256sum`
    writes them.
    """
    return [_verified(path) for path in paths_of(str(source))]


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise refusal("cannot be read", where=f"file '{path}'", got=str(error.strerror or error)) from error
    return digest.hexdigest()


def _verified(path: Path) -> str:
    wanted = _recorded(path)
    found = digest_of(path)
    if found != wanted:
        raise refusal(
            "is not what was recorded",
            where=f"file '{path}'",
            got=f"its SHA-256 is {found[:16]}..., recorded is {wanted[:16]}...",
            hint="fetch or write the file again; its numbers cannot be trusted",
        )
    return found


def _recorded(path: Path) -> str:
    own = path.with_name(path.name + ".sha256")
    for record, names in ((own, None), (path.with_name(SUMS), path.name)):
        try:
            lines = record.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            digest, _, name = line.strip().partition(" ")
            matches = names is None or name.lstrip(" *").removeprefix("./") == names
            if len(digest) == 64 and matches and all(c in "0123456789abcdef" for c in digest.lower()):
                return digest.lower()
    raise refusal(
        "has no recorded checksum",
        where=f"file '{path}'",
        got=f"there is neither '{own.name}' nor a line for it in '{SUMS}'",
        hint=f"when it is written: sha256sum {path.name} > {own.name}",
    )
