"""The table of the docs names every recalibrator."""

from __future__ import annotations

from pathlib import Path

from miscal import recalibrate

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "shipping.md"


def test_every_recalibrator_has_a_line() -> None:
    kinds = [getattr(recalibrate, name) for name in recalibrate.__all__]
    expected = {
        kind.__name__ for kind in kinds if isinstance(kind, type) and issubclass(kind, recalibrate.Recalibrator)
    }
    lines = PAGE.read_text(encoding="utf-8").splitlines()[2:]
    assert {line.split("`")[1] for line in lines} == expected - {"Recalibrator"}, (
        "run scripts/shipping_table.py --write"
    )
