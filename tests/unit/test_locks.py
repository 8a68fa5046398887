"""What is installed is named with its version and a hash, and with no address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "requirements"
LOCKS = sorted(FOLDER.glob("*.lock"))
PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def pins(path: Path) -> dict[str, str]:
    return {name.lower().replace("_", "-"): version for name, version in PIN.findall(path.read_text())}


def test_there_is_a_lock_for_each_set() -> None:
    assert [path.stem for path in LOCKS] == ["demo", "dev", "peers", "torch"]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_line_has_hashes_and_no_address(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"://|find-links|index-url|@ ", text)
    entries = re.split(r"\n(?=\S)", text.split("make lock\n", 1)[1])
    assert entries
    assert all(PIN.match(entry) and "--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize("name", ["torch", "peers"])
def test_a_lock_holds_what_its_list_names(name: str) -> None:
    asked, locked = pins(FOLDER / f"{name}.txt"), pins(FOLDER / f"{name}.lock")
    assert asked
    assert {key: locked[key].split("+")[0] for key in asked} == asked


def test_the_locks_agree() -> None:
    torch, dev, peers = (pins(FOLDER / f"{name}.lock") for name in ("torch", "dev", "peers"))
    assert {name: dev[name] for name in torch.keys() & dev.keys()} == {n: torch[n] for n in torch.keys() & dev.keys()}
    assert peers["torch"] == torch["torch"]
