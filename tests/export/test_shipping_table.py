"""The table of the docs names every recalibrator."""

from __future__ import annotations

import re
from pathlib import Path

from miscal import recalibrate
from miscal.export.dialects import DIALECTS
from scripts.run_table import PAGE as RUN
from scripts.run_table import fitted

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


def test_every_dialect_and_every_map_was_run_or_is_said_not_to_be() -> None:
    text = RUN.read_text(encoding="utf-8")
    assert all(dialect in text.lower() for dialect in DIALECTS), "run scripts/run_table.py --write"
    counts = [int(count) for count in re.findall(r"^\| .* \| (\d+) \| [\d.e-]+ \|$", text, re.MULTILINE)]
    models = fitted()
    networks = sum(type(model).__name__ == "NeuralCalibration" for model in models)  # those have no SQL
    assert sorted(counts) == [len(models) - networks] * 4 + [len(models)] * 2, "run scripts/run_table.py --write"
