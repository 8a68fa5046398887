"""Files of frozen answers: one a group, compressed so that the same answers are the same bytes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.goldens.normalise import Plain

HERE = Path(__file__).parent / "frozen"


def write(group: str, answers: dict[str, Plain]) -> int:
    """Write the answers of a group; returns the size of the file."""
    text = json.dumps(answers, indent=None, separators=(",", ":"), sort_keys=True)
    path = HERE / f"{group}.json.gz"
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    return path.stat().st_size


def read(group: str) -> dict[str, Plain]:
    """The frozen answers of a group."""
    answers: dict[str, Plain] = json.loads(gzip.decompress((HERE / f"{group}.json.gz").read_bytes()))
    return answers


def read_processor() -> dict[str, str]:
    """The processor on which the answers were frozen."""
    described: dict[str, str] = json.loads((HERE / "processor.json").read_text())
    return described


def write_processor(described: dict[str, str]) -> None:
    """Keep what the processor is."""
    (HERE / "processor.json").write_text(json.dumps(described, indent=1) + "\n")
