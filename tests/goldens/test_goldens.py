"""No answer has changed: every case is computed again and compared with what is frozen.

A failure says where the answers differ, with both values. Where only a name or a word was changed, it is entered in
`normalise.py`. Where an answer changes on purpose, `python -m tests.goldens.freeze NAME` writes it again, in a commit
of its own that says why.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.goldens import normalise, store
from tests.goldens.cases import GROUPS, compute, processor, tolerance
from tests.goldens.normalise import Plain, difference, empty, number, plain

ALL_SMOOTH_DRAWS = True
SHOWN = 12  # differences of one case that are printed

frozen_group = cache(store.read)
# What a case needs beside the library, by the beginning of its name.
EXTRAS = {"recalibrator_NeuralCalibration": "torch", "recalibrator_MulticalibrationBoost": "lightgbm"}


def differences(name: str, frozen: Plain, now: Plain) -> list[str]:
    """Where an answer differs from the frozen one; last bits of some depend on the processor, and on that alone."""
    return difference(name, frozen, now, tolerance(name, store.read_processor(), processor()))


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, cases in GROUPS.items() for name in cases])
def test_the_answer_is_the_frozen_one(group: str, name: str) -> None:
    for start, library in EXTRAS.items():
        if name.startswith(start):
            pytest.importorskip(library)
    frozen = frozen_group(group)
    assert name in frozen, f"no answer of {name} is frozen: python -m tests.goldens.freeze {name}"
    lines = differences(name, frozen[name], compute(GROUPS[group][name]))
    more = f"\n... and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    assert not lines, "\n" + "\n".join(lines[:SHOWN]) + more


@pytest.mark.parametrize("group", GROUPS)
def test_every_frozen_answer_has_a_case(group: str) -> None:
    assert set(frozen_group(group)) == set(GROUPS[group])


@pytest.mark.parametrize("group", GROUPS)
def test_no_frozen_answer_is_empty(group: str) -> None:
    assert [name for name, answer in frozen_group(group).items() if not answer or empty("", answer) == [""]] == []
    if group == "metrics":  # whose records are taken apart field by field
        assert [line for name, answer in frozen_group(group).items() for line in empty(name, answer)] == []


# That the comparison sees what it is for: each fault is planted in a frozen answer.
FAULTS: dict[str, Callable[[Any], None]] = {
    "findings[1].p_value": lambda audit: audit["findings"][1].update(p_value=number(value_of(audit) * 1.0000001)),
    "findings[0].gap": lambda audit: audit["findings"][0].update(gap=last_bit(audit["findings"][0]["gap"])),
    "findings[0].columns": lambda audit: audit["findings"].reverse(),
    "findings[0].form": lambda audit: audit["findings"][0].update(form="uneven"),
    "findings[0].explained": lambda audit: audit["findings"][0]["explained"].pop(),
    "findings[0].condition": lambda audit: audit["findings"][0].pop("condition"),
    "sections.score[0].table.rows[1]": lambda audit: swap(audit["sections"]["score"][0]["table"]["rows"]),
}


def value_of(audit: Any) -> float:
    return float.fromhex(audit["findings"][1]["p_value"][1:])


def last_bit(text: str) -> str:
    return number(math.nextafter(float.fromhex(text[1:]), math.inf))


def swap(rows: list[Any]) -> None:
    rows[0] += 1
    rows[1] -= 1


@pytest.mark.parametrize("path", FAULTS)
def test_a_planted_fault_is_told_by_its_path(path: str) -> None:
    frozen = frozen_group("audits")["audit_beyond_memory"]
    changed = copy.deepcopy(frozen)
    assert len(frozen["findings"]) > 1
    assert difference("", frozen, changed, 0.0) == []
    FAULTS[path](changed)
    assert any(line.startswith(f".{path}") for line in difference("", frozen, changed, 0.0))


def test_a_tolerance_allows_last_bits_and_no_more() -> None:
    frozen = {"a": number(0.1), "sql": "EXP(1.5e0 * p)"}
    close = {"a": last_bit(number(0.1)), "sql": "EXP(1.5000000000000002e0 * p)"}
    off = {"a": number(0.1000001), "sql": "EXP(1.6e0 * p)"}
    assert difference("", frozen, close, 1e-9) == []
    assert len(difference("", frozen, close, 0.0)) == len(difference("", frozen, off, 1e-9)) == 2
    assert difference("", frozen, {**frozen, "sql": "LN(1.5e0 * p)"}, 1e-9)


def test_what_is_renamed_is_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(normalise.RENAMED_KEYS, "shape", "form")
    monkeypatch.setitem(normalise.RENAMED_VALUES, "too moderate", "too timid")
    assert plain({"shape": "too moderate", "note": "New words."}) == plain({"form": "too timid", "note": "Words."})
