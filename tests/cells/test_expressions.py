"""The words of subpopulations, read back."""

from __future__ import annotations

import numpy as np
import pytest

from miscal import MiscalError
from miscal.cells.condition import number_text
from miscal.cells.parse import parse, rows_where
from miscal.cells.subpopulations import _between
from miscal.data.columns import Columns

COLUMNS = Columns(
    {
        "age": np.array([20.0, 30.0, np.nan, 50.0]),
        "state": np.array(["CA", "New York", None, "a, b"], dtype=object),
        "two words": np.array([1, 2, 3, 4]),
        "member": np.array([True, False, True, False]),
        "day": np.array(["2026-01-01", "2026-02-01", "2026-03-01", "NaT"], dtype="M8[D]"),
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("age < 30", [0]),
        ("age <= 30", [0, 1]),
        ("30 <= age < 50", [1]),
        ("20 < age", [1, 3]),
        ("(age >= 50 or missing)", [2, 3]),
        ("(30 <= age < 50 or missing)", [1, 2]),
        ("age is missing", [2]),
        ("age is not missing and age != 20", [1, 3]),
        ("age = 30", [1]),
        ("age in {20, 50}", [0, 3]),
        ("state = New York", [1]),
        ('state in {CA, "a, b"}', [0, 3]),
        ("state not in {CA}", [1, 2, 3]),
        ("(state in {CA, New York} or missing)", [0, 1, 2]),
        ("state != CA and state is not missing", [1, 3]),
        ("`two words` >= 3 and member = True", [2]),
        ("day >= 2026-02-01", [1, 2]),
        ("2026-01-15 <= day < 2026-03-01", [1]),
    ],
)
def test_meaning(text, rows):
    assert np.flatnonzero(rows_where(text, COLUMNS)).tolist() == rows


@pytest.mark.parametrize(
    "text",
    [
        "",
        "age",
        "age <",
        "age < 3 or age > 5",
        "state < 3",
        "age in {20",
        "age ~ 3",
        "state = ZZ",
        "(age < 3",
        "is missing",
    ],
)
def test_nonsense_is_refused(text):
    with pytest.raises(MiscalError):
        rows_where(text, COLUMNS)


def test_unknown_levels_match_nothing_where_not_strict():
    assert not parse("state = ZZ", {"state": "category"}).rows(COLUMNS).any()


@pytest.mark.parametrize(
    ("value", "above", "word"),
    [(31.0, 30.0, "31"), (0.4987, 0.4979, "0.4987"), (0.5001, 0.48, "0.5"), (1e9, 5.0, "1000000000")],
)
def test_numbers_are_short_and_cut_between(value, above, word):
    text = number_text(_between(value, above, "numeric"), "numeric")
    assert above < float(text) <= value
    assert len(text) <= len(word)
