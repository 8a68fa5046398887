"""Guy and others, Measuring multi-calibration: the closed forms of Appendix F, and the units of section 3.3."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miscal import Predictions, by_subpopulation
from miscal.metrics import kuiper_calibration_error, multicalibration_error
from studies.as_printed import PrintedValue
from studies.constructions import nested_subpopulations

PAGE = "subpopulation.md"
ROUNDED = "From numbers that the paper prints with four digits, which is what the last digit can show."


def _closed_forms(q: int, kuiper: str, error: str, largest: str, deviation: str) -> list[PrintedValue]:
    """Equations 17, 29, 30 and 26 for one q."""
    given = f"q{q}.y_true, q{q}.y_prob"
    masks = f"subpopulations=q{q}.masks()"
    searched = f"by_subpopulation(Predictions({given}), {masks}, min_information=0, simulations=0)"
    return [
        PrintedValue(f"Eq. 17, q = {q}: Kuiper", f"kuiper_calibration_error({given})", kuiper),
        PrintedValue(f"Eq. 29, q = {q}: M", f"multicalibration_error({given}, {masks})", error),
        PrintedValue(
            f"Eq. 30, q = {q}: multi-ablate",
            f"multicalibration_error({given}, {masks}, normalise=False)",
            largest,
            note="D without the scale, `normalise=False`.",
        ),
        PrintedValue(
            f"Eq. 26, q = {q}, k = 0: standard deviation",
            f'{searched}.extra["deviation"]',
            deviation,
            note="Eq. 5 of the full population. `min_information=0` tests every subpopulation.",
        ),
    ]


VALUES = [
    *_closed_forms(7, ".0379464286", ".0868714808", ".2656250000", ".05766564"),
    *_closed_forms(21, ".0121753247", ".0465727845", ".2556818182", ".01941072"),
    PrintedValue(
        "Eq. 20, q = 7, k = 1: sum of responses",
        "q7.y_true[8:28].sum()",
        "9",
        note="The lower limit of its middle sum is k + 1; from k, as printed, it would be 10.",
    ),
    PrintedValue(
        "Section 2.2: expected Kuiper over its standard deviation",
        'searched.table["expected"][0] / searched.table["deviation"][0]',
        "1.6",
        note='2√(2/π) = 1.5958, not 1.6, in every "expectation".',
    ),
    PrintedValue(
        "Section 3.3, tablet: M in standard deviations, before",
        "0.07251 / (0.01609 / expected_per_deviation)",
        "7.192",
        ours="7.191",
        note=f"The column `deviations` of the result's table. {ROUNDED}",
    ),
    PrintedValue(
        "Section 3.3, tablet: M in standard deviations, after",
        "0.04085 / (0.01442 / expected_per_deviation)",
        "4.520",
        ours="4.521",
        note=f"As above. {ROUNDED}",
    ),
]


def namespace(folder: Path) -> Mapping[str, Any]:  # noqa: ARG001  # Appendix F needs no data
    """The names that the calls use: the data sets of Appendix F for q = 7 and q = 21."""
    q7, q21 = nested_subpopulations(7), nested_subpopulations(21)
    searched = by_subpopulation(
        Predictions(q7.y_true, q7.y_prob), subpopulations=q7.masks(), min_information=0, simulations=0
    )
    return {
        "q7": q7,
        "q21": q21,
        "searched": searched,
        "expected_per_deviation": float(searched.table["expected"][0] / searched.table["deviation"][0]),
        "Predictions": Predictions,
        "by_subpopulation": by_subpopulation,
        "kuiper_calibration_error": kuiper_calibration_error,
        "multicalibration_error": multicalibration_error,
    }
