"""Two periods of clustered rows: what rows of one cluster share is noise of the comparison too."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from miscal.auditing.audit import Audit, audit

LIMIT = 2  # of 6 comparisons at 5%: more has a chance of 2 in 1,000


def period(rng: np.random.Generator, first: int, shift: float = 0.0) -> Audit:
    """Calibrated rows of 150 patients with ten rows each, of which most share one draw."""
    patients, each = 150, 10
    p = np.repeat(1 / (1 + np.exp(-rng.normal(-1, 0.5, patients))), each)
    shared, own = np.repeat(rng.random(patients), each), rng.random(p.size)
    draw = np.where(rng.random(p.size) < 0.6, shared, own)
    frame = {
        "y": (draw < np.minimum(p + shift, 1.0)).astype(int), "p": p,
        "patient": np.repeat(np.arange(patients) + first, each),
        "ward": rng.choice(["a", "b", "c"], p.size), "sex": np.repeat(rng.choice(["f", "m"], patients), each),
        "age": np.repeat(rng.normal(60.0, 9.0, patients), each), "pulse": rng.normal(70.0, 9.0, p.size),
    }  # fmt: skip
    return audit(pd.DataFrame(frame), outcome="y", probability="p", cluster="patient", effort="quick")


def test_two_calibrated_periods_of_clusters_seldom_differ() -> None:
    rng = np.random.default_rng(0)
    compared = [one.compare(two) for one, two in pairwise(period(rng, 1000 * number) for number in range(7))]
    assert sum(bool(each.better or each.worse) for each in compared) <= LIMIT
    assert all({"age", "pulse"} <= {str(where).split()[0] for where in each.table["where"]} for each in compared)


def test_a_real_change_is_still_seen_from_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    period(rng, 0).save(tmp_path / "before.miscal")
    compared = Audit.load(tmp_path / "before.miscal").compare(period(rng, 1000, shift=0.3))
    assert {"ward a", "ward b", "ward c", "sex f", "sex m"} <= set(compared.worse)


def test_the_spread_is_that_of_sums_over_clusters(rng: np.random.Generator) -> None:
    p, patient, ward = rng.random(600), np.repeat(np.arange(60), 10), rng.choice(["a", "b"], 600)
    y = (np.repeat(rng.random(60), 10) < p).astype(int)
    frame = {"y": y, "p": p, "patient": patient, "ward": ward}
    found = audit(frame, outcome="y", probability="p", cluster="patient", effort="quick")
    noise = found.carriers["field:ward"].residual2
    for cell, level in enumerate("ab"):
        rows = ward == level
        sums = np.bincount(patient[rows], (y - p)[rows])
        expected = np.sum(sums**2) / np.sum((y - p)[rows] ** 2)
        by_rows = np.sum((y - p)[rows] ** 2)
        assert noise[cell] / by_rows == pytest.approx(max(expected, 1.0), rel=1e-9)
        plain = audit(frame, outcome="y", probability="p", effort="quick")
        assert plain.carriers["field:ward"].residual2[cell] == pytest.approx(by_rows, rel=1e-9)


def test_cells_whose_noise_over_clusters_is_not_kept_are_not_compared() -> None:
    """Of periods only sums over rows are kept; those would promise too much."""
    rng = np.random.default_rng(2)

    def dated(first: int) -> Audit:
        p = np.repeat(rng.uniform(0.2, 0.8, 60), 10)
        frame = {"y": (np.repeat(rng.random(60), 10) < p).astype(int), "p": p, "ward": rng.choice(["a", "b"], 600)}
        frame |= {"patient": np.repeat(np.arange(60) + first, 10), "when": np.repeat(["2024-01-05", "2024-02-05"], 300)}
        return audit(
            pd.DataFrame(frame),
            outcome="y",
            probability="p",
            cluster="patient",
            time="when",
            effort="quick",
            by=["ward"],
        )

    compared = dated(0).compare(dated(100))
    assert set(compared.table["where"][-2:]) == {"ward a", "ward b"}
    assert not any("2024" in where for where in compared.table["where"])
