"""Every call that a paper's page names for a printed number gives that number, and the page shows the same table."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies import as_printed

# Published data have ties; that they leave fewer bins than asked changes no printed number.
pytestmark = pytest.mark.filterwarnings("ignore:.*bins were asked for:miscal.MiscalWarning")
CASES = [
    pytest.param(name, value, id=f"{name}: {value.source}")
    for name in as_printed.papers()
    for value in as_printed.module_of(name).VALUES
]


@pytest.mark.parametrize(("name", "value"), CASES)
def test_the_call_gives_the_number(name: str, value: as_printed.PrintedValue, shared_data: Path) -> None:
    assert as_printed.computed(name, value, shared_data.resolve()) == value.expected


@pytest.mark.parametrize("name", as_printed.papers())
def test_the_page_shows_the_calls_that_are_run(name: str) -> None:
    page = as_printed.PAGES / as_printed.module_of(name).PAGE
    assert as_printed.marked(name, page.read_text(encoding="utf-8")).group(2) == as_printed.table(name)


@pytest.mark.parametrize("name", as_printed.papers())
def test_a_number_that_differs_from_the_printed_one_says_why(name: str) -> None:
    values = as_printed.module_of(name).VALUES
    assert values
    assert all(value.note for value in values if value.ours)
