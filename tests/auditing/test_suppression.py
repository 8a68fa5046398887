"""What suppression promises, asked of a solver: no small cell follows from the numbers shown.

The attacker knows every row count of the JSON (findings, tables of columns, periods, subpopulations) and the bars of
what is drawn, and that no count is negative. Each combination of the values of all columns is an unknown; a linear
programme gives the least and the greatest count that a hidden cell may have.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.optimize import linprog

import miscal
from miscal.auditing.disclosure import Blocks, ShownCounts
from miscal.cells.condition import Conjunction
from miscal.cells.parse import parse
from miscal.cli import main
from miscal.data.columns import Columns

BELOW = 20


def small_table(seed: int) -> pd.DataFrame:
    """A table with a level of 3 rows, one of 60 that is wrong, and a wrong corner; few enough values to enumerate."""
    rng = np.random.default_rng(seed)
    rows = 1500
    group = rng.choice(list("abc"), rows, p=[0.5, 0.3, 0.2]).astype(object)
    group[:3], group[3:63], group[63 : 63 + rng.integers(10, 40)] = "tiny", "mid", "rare"
    half = rng.choice(["x", "y"], rows, p=[0.9, 0.1])
    half[3:57] = "x"
    age = rng.choice([20, 30, 40, 50], rows, p=[0.05, 0.35, 0.3, 0.3])
    p = rng.uniform(0.1, 0.9, rows)
    wrong = np.where(group == "mid", 0.1, np.where((half == "y") & (age >= 40), 0.3, 1.0))
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(
        rng.choice([0, 35, 70, 100], rows, p=[0.5, 0.3, 0.19, 0.01]), "D"
    )
    y = (rng.random(rows) < p * wrong).astype(int)
    return pd.DataFrame({"y": y, "p": p, "group": group, "half": half, "age": age, "when": when})


def boxes(document: dict[str, Any], atoms: Columns) -> dict[tuple[bool, ...], int]:
    """Every set of atoms whose number of rows is shown, read from the JSON as anybody could."""
    facts = {(True,) * len(atoms["group"]): document["data"]["rows"]}
    for finding in document["findings"]:
        facts[tuple(Conjunction.from_dict(finding["condition"]).rows(atoms))] = finding["rows"]
    for kind, results in document["sections"].items():
        for result in results:
            column = result["settings"].get("column")
            for cell, rows in enumerate(result["table"].get("rows", [])):
                if rows is not None and kind in ("field", "variable", "period", "subpopulation"):
                    facts[tuple(_cell(result["table"], kind, column, cell, atoms))] = rows
    return facts


def _cell(table: dict[str, Any], kind: str, column: str, cell: int, atoms: Columns) -> np.ndarray:
    label = table["label"][cell]
    if kind == "subpopulation":
        return parse(label, {name: column.kind for name, column in atoms.items()}).rows(atoms)
    values = atoms[column]
    if kind == "field":
        return np.array([values.levels[code] == label for code in values.values])
    if kind == "period":
        return (values.values.astype("M8[D]").astype("M8[M]").astype(str)) == label
    low, high = table["low"][cell], table["high"][cell]
    return ((values.values > low) | ((cell == 0) & (values.values == low))) & (values.values <= high)


def bounds(facts: dict[tuple[bool, ...], int], target: np.ndarray) -> tuple[float, float]:
    """The least and greatest number of rows that a set of atoms may have, given what is shown."""
    left, right = np.array(list(facts), float), np.array(list(facts.values()), float)
    ends = []
    for sign in (1.0, -1.0):
        found = linprog(sign * target.astype(float), A_eq=left, b_eq=right, bounds=(0, None), method="highs")
        assert found.status == 0, found.message
        ends.append(sign * found.fun)
    return ends[0], ends[1]


def given_away(frame: pd.DataFrame, full: dict[str, Any], shown: dict[str, Any]) -> list[tuple[int, float, float]]:
    """Small sets that follow exactly: cells the audit knows, and overlaps and differences of two that are shown."""
    names = ["group", "half", "age", "when"]
    product = pd.MultiIndex.from_product([sorted(frame[name].unique()) for name in names], names=names).to_frame()
    atoms = Columns({name: product[name].to_numpy() for name in names})
    counted = frame.groupby(names).size().reindex(product.index, fill_value=0).to_numpy()
    facts = boxes(shown, atoms)
    sets = np.array(list(facts), bool)
    targets = {*boxes(full, atoms), *(tuple(one & two) for one, two in combinations(sets, 2))}
    targets |= {tuple(one & ~two) for one in sets for two in sets}
    small = [target for target in targets if 0 < int(counted[np.array(target)].sum()) < BELOW]
    assert small, "a table without a small place shows nothing"
    left = np.array(list(facts), float)
    _, sizes, basis = np.linalg.svd(left, full_matrices=False)
    basis = basis[sizes > 1e-9 * sizes[0]]
    every = np.array(small, float)
    derived = np.abs(every - every @ basis.T @ basis).max(axis=1) < 1e-8  # a sum and difference of what is shown
    chosen = [*np.flatnonzero(derived)[:6], *np.flatnonzero(~derived)[:6]]
    found = [
        (int(counted[np.array(each)].sum()), *bounds(facts, np.array(each))) for each in (small[k] for k in chosen)
    ]
    return [(rows, low, high) for rows, low, high in found if high - low < 1]


@pytest.mark.parametrize(("seed", "effort"), [(0, "quick"), (1, "normal"), (2, "quick"), (3, "normal")])
def test_no_small_cell_follows_from_what_is_shown(seed: int, effort: str) -> None:
    frame = small_table(seed)
    found = miscal.audit(frame, outcome="y", probability="p", time="when", every="month", effort=effort)
    full, shown = (
        json.loads(json.dumps(miscal.report.codec.plain(a.document))) for a in (found, found.suppressed(BELOW))
    )
    assert given_away(frame, full, full), "the solver sees nothing"
    assert given_away(frame, full, shown) == []
    assert shown["findings"], "suppression hides everything"
    assert sum(rows is not None for r in shown["sections"]["field"] for rows in r["table"]["rows"]) >= 3


@pytest.mark.parametrize("seed", range(40))
def test_no_small_set_of_any_kind_is_a_sum_of_what_is_shown(seed: int) -> None:
    """Of small tables every set of atoms is asked for, and some of them of the solver."""
    rng, shape, below = np.random.default_rng(seed), (3, 2, 2), 10
    atoms = np.array(list(product(*map(range, shape))))
    counted = rng.choice([0, 1, 3, 8, 20, 40], len(atoms), p=[0.1, 0.1, 0.2, 0.25, 0.2, 0.15])
    columns = {str(k): Blocks(size, int(counted.sum()), below) for k, size in enumerate(shape)}
    shown, facts = ShownCounts(below, int(counted.sum()), columns), {(True,) * len(atoms): int(counted.sum())}
    cells = [{str(k): np.array([value])} for k, size in enumerate(shape) for value in range(size)]
    for _ in range(12):
        chosen = np.sort(rng.choice(3, rng.integers(2, 4), replace=False)).tolist()
        cells.append({str(k): np.sort(rng.choice(shape[k], rng.integers(1, shape[k]), replace=False)) for k in chosen})
    for place in cells:
        inside = np.all([np.isin(atoms[:, int(name)], values) for name, values in place.items()], axis=0)
        if shown.show(place, int(counted[inside].sum())):
            facts[tuple(inside)] = int(counted[inside].sum())
    every = (np.arange(1 << len(atoms))[:, None] >> np.arange(len(atoms)) & 1).astype(bool)
    small = every[(every @ counted > 0) & (every @ counted < below)]
    live = ~np.any([each for each, rows in facts.items() if rows == 0] or [np.zeros(len(atoms), bool)], axis=0)
    _, sizes, basis = np.linalg.svd(np.array(list(facts), float)[:, live], full_matrices=False)
    basis, sets = basis[sizes > 1e-9 * sizes[0]], small[:, live].astype(float)
    assert not (np.abs(sets - sets @ basis.T @ basis).max(axis=1) < 1e-8).any()
    for target in small[rng.choice(len(small), 3)]:
        low, high = bounds(facts, target)
        assert high - low >= 1 - 1e-6


def test_a_finding_is_kept_and_another_level_hidden_beside_a_small_one() -> None:
    frame = small_table(0)
    frame.loc[frame["group"] == "rare", "group"] = "a"
    shown = miscal.audit(frame, outcome="y", probability="p", effort="quick").suppressed(BELOW).document
    table = next(r["table"] for r in shown["sections"]["field"] if r["settings"]["column"] == "group")
    rows = dict(zip(table["label"], table["rows"], strict=True))
    named = {finding["where"] for finding in shown["findings"]}
    assert rows["tiny"] is None
    assert (rows["mid"] == 60) == ("group mid" in named)
    assert sum(count for count in rows.values() if count is not None) <= len(frame) - BELOW


@pytest.mark.parametrize("every", ["week", "month", "quarter", "year"])
def test_a_small_period_is_hidden_however_long_periods_are(every: str) -> None:
    frame = small_table(2)
    frame.loc[:4, "when"] = pd.Timestamp("2026-05-05")
    options = {"outcome": "y", "probability": "p", "time": "when", "every": every, "effort": "quick"}
    full, shown = (miscal.audit(frame, **options, suppress_below=below).document for below in (0, BELOW))
    rows, left = (document["sections"]["period"][0]["table"]["rows"] for document in (full, shown))
    assert rows[-1] == 5
    assert left[-1] is None
    assert sum(count for count in left if count is not None) <= len(frame) - BELOW


def test_nothing_that_is_drawn_cuts_the_rows_otherwise_than_the_tables() -> None:
    frame = small_table(1)
    shown = miscal.audit(frame, outcome="y", probability="p").suppressed(BELOW).document
    for results in shown["sections"].values():
        for result in results:
            finer = {"histogram", "density", "grid", "too_small", "differences", "cumulative"}
            assert not finer & set(result["extra"])


def test_check_judges_before_it_hides(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.4, 0.6, 2000)
    group = np.where(np.arange(2000) < 15, "small", "large")
    p[:15] = 0.99
    y = np.where(group == "small", 0, rng.random(2000) < p).astype(int)
    pd.DataFrame({"y": y, "p": p, "group": group}).to_csv(tmp_path / "t.csv", index=False)
    fixed = ["check", str(tmp_path / "t.csv"), "--outcome", "y", "--probability", "p", "--max-findings", "0"]
    for hide in ([], ["--suppress-below", "20"]):
        done = CliRunner().invoke(main, [*fixed, *hide])
        assert done.exit_code == 1, done.output
    assert "small" not in done.output


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")
def test_a_saved_audit_that_keeps_small_cells_is_for_its_owner_only(tmp_path: Path) -> None:
    small_table(0).to_csv(tmp_path / "t.csv", index=False)
    saved = tmp_path / "a.miscal"
    saved.write_bytes(b"")
    saved.chmod(0o644)
    fixed = ["audit", str(tmp_path / "t.csv"), "--outcome", "y", "--probability", "p", "--effort", "quick"]
    fixed += ["--out", str(tmp_path / "p.html"), "--save", str(saved)]
    os.umask(os.umask(0o022))
    for hide, mode in ((["--suppress-below", "20"], 0o600), ([], 0o600)):
        assert CliRunner().invoke(main, [*fixed, *hide]).exit_code == 0
        assert stat.S_IMODE(saved.stat().st_mode) == mode
    saved.unlink()
    assert CliRunner().invoke(main, fixed).exit_code == 0
    assert stat.S_IMODE(saved.stat().st_mode) == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_document_whose_findings_lack_a_key_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    score = rng.uniform(0.1, 0.5, 2000)
    table = {"y": rng.random(2000) < 1.5 * score, "p": score, "g": rng.choice(["a", "b"], 2000)}
    found = miscal.audit(table, outcome="y", probability="p", effort="quick")
    file, out = tmp_path / "made.json", tmp_path / "page.html"
    found.to_json(file)
    whole = json.loads(file.read_text())
    for key in ("parent", "scope", "condition", "explained"):
        lacking = [{name: value for name, value in one.items() if name != key} for one in whole["findings"]]
        assert lacking
        file.write_text(json.dumps({**whole, "findings": lacking}))
        done = CliRunner().invoke(main, ["report", str(file), "--suppress-below", "50", "--out", str(out)])
        assert done.exit_code == 2
        assert f"a finding of the audit is damaged; it has no '{key}'" in done.output
        assert not out.exists()
