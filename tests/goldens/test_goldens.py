"""No answer has changed: every case is computed again and compared with what is frozen.

A failure says where the answers differ, with both values. Where only a name or a word was changed, it is entered in
`normalise.py`. Where an answer changes on purpose, `python -m tests.goldens.freeze NAME` writes it again, in a commit
of its own that says why.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.goldens import store
from tests.goldens.cases import GROUPS, compute, processor, tolerance
from tests.goldens.normalise import Plain, difference, empty

ALL_SMOOTH_DRAWS = True
SHOWN = 12  # differences of one case that are printed

frozen_group = cache(store.read)


def differences(name: str, frozen: Plain, now: Plain) -> list[str]:
    """Where an answer differs from the frozen one; last bits of some depend on the processor, and on that alone."""
    return difference(name, frozen, now, tolerance(name, store.read_processor(), processor()))


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, cases in GROUPS.items() for name in cases])
def test_the_answer_is_the_frozen_one(group: str, name: str) -> None:
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
