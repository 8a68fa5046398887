"""Audits of small tables: the JSON of each, and comparisons, repairs and gates."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
from click.testing import CliRunner

import miscal
from miscal.auditing.gates import gates_of, judge
from miscal.auditing.repair import repair_table
from miscal.cli import main
from miscal.recalibrate import GroupWise, MeanScaling, PlattScaling
from tests.goldens import data
from tests.goldens.normalise import Plain, document, plain, state

EVENTS = {"outcome": "y", "probability": "p"}
MEANS = {"outcome": "y", "prediction": "p", "response": "real"}
CLAIMS = {"outcome": "claims", "prediction": "rate", "response": "count", "exposure": "years"}
NOT_FEATURES = ["weight", "kept", "household"]
BEYOND = 52_000  # rows
FEW_COLUMNS = ["state", "age", "amount"]


def document_of(printed: Any, columns: list[str]) -> Plain:
    """What `to_json` writes of an audit or a repair."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.json"
        printed.to_json(path)
        return document(json.loads(path.read_text()), columns)


def audited(make: Callable[[], Any], **options: Any) -> Plain:
    """The JSON of the audit of a table."""
    table = make()
    names = list(table.column_names) if isinstance(table, pa.Table) else list(table)
    return document_of(miscal.audit(table, **options), names)


def events(make: Callable[[], Any] = data.binary, **options: Any) -> Callable[[], Plain]:
    """A case: an audit of events, without the columns that only say how rows were drawn."""
    return partial(audited, make, **{**EVENTS, "ignore": NOT_FEATURES, **options})


def of_file(kind: str, make: Callable[[], pa.Table], **options: Any) -> Plain:
    """The JSON of the audit of a file that does not fit in the memory allowed: a sample, then all rows.

    The least memory that may be asked for holds 50,000 rows, so that the table has a few more.
    """
    table = make()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{kind}"
        if kind == "csv":
            csv.write_csv(table, path)
        else:
            pq.write_table(table, path, row_group_size=7000)
        found = miscal.audit(path, memory="400MB", **options)
        if "sample" not in found.document["settings"]:
            raise AssertionError("the table was held in memory: this case is to be beyond it")
        return document_of(found, table.column_names)


def summarized(parts: int, make: Callable[[], pa.Table], roles: list[str], **options: Any) -> Plain:
    """The JSON of the audit of a summary file, made by the commands `tally` and `merge` of parts of a table."""
    table = make()
    with tempfile.TemporaryDirectory() as folder:
        paths, place = [], Path(folder)
        for part in range(parts):
            rows = np.flatnonzero(np.arange(table.num_rows) * parts // table.num_rows == part)
            pq.write_table(table.take(rows), place / f"{part}.parquet")
            paths.append(place / f"{part}.tally")
            like = ["--like", paths[0]] if part else []
            run("summarize", place / f"{part}.parquet", *roles, "--out", paths[part], *like)
        if parts > 1:
            run("merge", *paths, "--out", place / "all.tally")
        return document_of(
            miscal.audit(place / ("all.tally" if parts > 1 else "0.tally"), **options), table.column_names
        )


def run(*words: Any) -> Any:
    """Run a command of the terminal, which is to succeed."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    if result.exit_code:
        raise AssertionError(result.output)
    return result


def as_frame(rows: int = 600) -> Any:
    """A frame of pandas, with its own types."""
    return (
        data.binary(rows).select(["y", "p", "state", "age", "plan", "day", "weight", "kept", "household"]).to_pandas()
    )


def certain(rows: int = 900) -> pa.Table:
    """Some rows said to be certain, a few of them wrongly."""
    table = data.binary(rows)
    p = table["p"].to_numpy().copy()
    p[:40], p[40:60] = 0.0, 1.0
    return table.set_column(table.column_names.index("p"), "p", [pa.array(p)])


def calibrated(rows: int = 900) -> pa.Table:
    """Rows that are calibrated everywhere."""
    rng = np.random.default_rng(11)
    p = rng.beta(2.0, 3.0, rows)
    return pa.table({"y": (rng.random(rows) < p).astype(int), "p": p, **data.columns(rng, rows)})


def logits(rows: int = 900) -> pa.Table:
    """Log-odds in the place of probabilities, outcomes as text."""
    table = data.binary(rows)
    p = table["p"].to_numpy()
    words = pc.if_else(pc.equal(table["y"], 1), "bad", "good")
    table = table.set_column(table.column_names.index("p"), "p", [pa.array(np.log(p / (1.0 - p)))])
    return table.set_column(table.column_names.index("y"), "y", [words])


def one_outcome(rows: int = 300) -> pa.Table:
    """No event at all."""
    table = data.binary(rows)
    return table.set_column(table.column_names.index("y"), "y", [pa.array(np.zeros(rows, int))])


def large() -> pa.Table:
    """More rows than the least memory holds."""
    return data.binary(BEYOND).select(["y", "p", "weight", "state", "age", "day"])


def many_levels(rows: int = 1500) -> pa.Table:
    """A column of sixty levels of very different size, an identifier, and a constant."""
    rng = np.random.default_rng(12)
    table = data.binary(rows)
    station = np.array([f"s{number}" for number in np.minimum(rng.geometric(0.06, rows), 60)], object)
    table = table.append_column("station", pa.array(station))
    table = table.append_column("identifier", pa.array([f"id{row}" for row in range(rows)]))
    return table.append_column("constant", pa.array(["same"] * rows))


CLASSES = {"outcome": "y", "probability": [f"p_c{k}" for k in range(3)], "ignore": ["weight"]}

AUDITS: dict[str, Callable[[], Plain]] = {
    "quick": events(effort="quick"),
    "normal": events(by=FEW_COLUMNS),
    "deep": events(partial(data.binary, 700), by=["state", "age"], effort="deep"),
    "every_type": events(partial(data.binary, 900)),
    "sampling_weights": events(weight="weight", ignore=["kept", "household"], by=FEW_COLUMNS),
    "outcome_weights": events(weight="kept", ignore=["weight", "household"], by=FEW_COLUMNS),
    "trials": partial(audited, data.trials, **EVENTS, count="many", by=FEW_COLUMNS),
    "clusters": events(cluster="household", ignore=["weight", "kept"], by=FEW_COLUMNS),
    "clusters_and_weights": events(
        cluster="household", weight="weight", ignore=["kept"], by=["state", "age"], effort="quick"
    ),
    **{
        f"periods_{every}": events(
            partial(data.binary, 900), time="day", every=every, by=["state"], effort="quick"
        )
        for every in ("week", "month", "quarter", "year")
    },
    "periods_weighted_clusters": events(
        time="moment", by=["state"], effort="quick", weight="weight", cluster="household", ignore=["kept"]
    ),
    "real": partial(audited, data.amounts, **MEANS, ignore=["weight"], by=FEW_COLUMNS),
    "real_weights": partial(audited, data.amounts, **MEANS, weight="weight", by=["state", "age"], effort="quick"),
    "count_exposure": partial(audited, data.counts, **CLAIMS, by=FEW_COLUMNS),
    "count_periods": partial(
        audited, data.counts, **CLAIMS, by=["state"], time="day", every="month", effort="quick"
    ),
    "classes": partial(audited, data.classes, **CLASSES, by=["state", "amount"]),
    "classes_top": partial(audited, data.classes, **CLASSES, target="top", effort="quick"),
    "classes_one": partial(audited, data.classes, **CLASSES, target=1, effort="quick", by=["state", "age"]),
    "classes_deep": partial(audited, partial(data.classes, 500), **CLASSES, effort="deep", by=["state"]),
    "classes_weights": partial(
        audited, data.classes, **{**CLASSES, "ignore": []}, weight="weight", effort="quick", by=["state", "half"]
    ),
    "suppressed": events(partial(data.binary, 900), suppress_below=40, by=["state", "plan", "age"]),
    "beyond_memory": partial(of_file, "parquet", large, **EVENTS, by=["state", "age"]),
    "beyond_memory_weights": partial(
        of_file, "csv", large, **EVENTS, weight="weight", by=["state", "age"], effort="quick",
        time="day",
    ),
    "beyond_memory_count": partial(
        of_file, "parquet", partial(data.counts, BEYOND), **CLAIMS, by=["state", "age"], effort="quick"
    ),
    "summary": partial(
        summarized, 1, data.binary, ["--outcome", "y", "--probability", "p", "--by", "state", "--by", "age"]
    ),
    "summary_merged_weights": partial(
        summarized, 3, data.binary,
        ["--outcome", "y", "--probability", "p", "--weight", "weight", "--by", "state", "--by", "amount"],
    ),
    "ties": events(partial(data.binary, 900, ties=True), by=["half", "state"]),
    "rare": events(partial(data.binary, 3000, rate=0.02, error=4.0), by=["state", "age", "plan"]),
    "many_levels": events(many_levels, by=["station", "identifier", "constant", "state"]),
    "certain": events(certain, by=["state", "age"], effort="quick"),
    "calibrated": partial(audited, calibrated, **EVENTS),
    "logits_and_text": events(logits, logit=True, positive="bad", by=["state"], level=0.01, random_state=7),
    "one_outcome": events(one_outcome, by=["state"], effort="quick"),
    "frame": events(as_frame, target="positive", effort="quick"),
    "few_rows": events(partial(data.binary, 40), by=["state", "age"]),
    "without_roles": partial(
        audited, lambda: data.binary(500).select(["y", "p", "state"]).rename_columns(["target", "score", "state"])
    ),
}  # fmt: skip


def audit_of(rows: int, seed: int, **options: Any) -> miscal.Audit:
    """A quick audit of events."""
    return miscal.audit(data.binary(rows, seed), **{**EVENTS, "by": FEW_COLUMNS, "effort": "quick", **options})


def other_model() -> miscal.Audit:
    """An audit of another model of the same rows."""
    table = data.binary(1500)
    p = table["p"].to_numpy()
    better = np.where(table["state"].to_numpy(zero_copy_only=False) == "NY", np.minimum(1.0, 1.5 * p), 0.9 * p)
    table = table.set_column(table.column_names.index("p"), "p", [pa.array(better)])
    return miscal.audit(table, **EVENTS, by=FEW_COLUMNS, effort="quick")


def compared(before: Callable[[], miscal.Audit], after: Callable[[], miscal.Audit]) -> Plain:
    """What changed from one audit to another."""
    return plain(before().compare(after()).to_dict(), data.binary(40).column_names)


def compared_after_loading() -> Plain:
    """An audit that was saved and loaded, and one with what changed since in its JSON."""
    with tempfile.TemporaryDirectory() as folder:
        before = audit_of(1500, 1)
        before.save(Path(folder) / "one.miscal")
        loaded = miscal.Audit.load(Path(folder) / "one.miscal")
        return document_of(audit_of(1400, 8).with_comparison(loaded), data.binary(40).column_names)


def repaired() -> Plain:
    """What a repair within groups does to unseen rows."""
    table = data.binary(2400)
    p, y = (table[name].to_numpy() for name in ("p", "y"))
    half = np.arange(1200)
    model = GroupWise(PlattScaling(), columns=["state"], min_rows=40)
    model.fit(p[half], y[half], table.select(["state"]).slice(0, 1200))
    rest = table.slice(1200)
    unseen = miscal.Predictions(rest["y"], rest["p"], columns=rest.select(["state", "age"]))
    return repair_parts(miscal.repair(unseen, model))


def repair_parts(record: Any) -> Plain:
    """A repair: the audit after it, and the record of what became of each segment."""
    names = data.binary(40).column_names
    return {
        "document": document_of(record, names),
        "before": document_of(record.before, names),
        "repaired": plain(record.predictions.probability),
    }


def repaired_table(make: Callable[[], pa.Table], drop: list[str], **options: Any) -> Plain:
    """From a table to its repair, chosen among candidates."""
    done = repair_table(make().drop(drop), **options)
    new = [name for name in done.table.column_names if name.startswith("recalibrated")]
    return {
        **repair_parts(done.record),
        "model": state(done.model.to_json()),
        "columns": {name: plain(done.table[name].to_numpy(zero_copy_only=False)) for name in new},
    }


def gate_outcomes(audit: miscal.Audit, baseline: miscal.Audit | None = None, **asked: Any) -> Plain:
    """Name and outcome of each gate."""
    outcomes = judge(audit.document, gates_of(asked, "{0}"), baseline.document if baseline else None)
    return [[outcome.name, outcome.passed] for outcome in outcomes]


def gates() -> Plain:
    """Gates that hold and gates that fail, and the exit status of the command for each."""
    audit, earlier = audit_of(1500, 1), audit_of(1500, 9)
    searched = audit_of(1500, 1, by=["state"], effort="normal")
    limits = {"max_expected": 0.05, "max_kuiper": 0.01, "max_gap": 0.2, "max_ratio_off": 0.05}
    outcomes = {
        "limits": gate_outcomes(audit, **limits, max_field={"state": 0.01, "age": 0.5}),
        "findings": gate_outcomes(audit, max_findings=0, max_multicalibration_sigma=2.0),
        "ignored": gate_outcomes(audit, max_findings=1, ignore=("MC301",)),
        "subpopulations": gate_outcomes(searched, max_multicalibration_sigma=50.0),
        "new": gate_outcomes(audit, earlier, no_new_findings="earlier"),
        "not_new": gate_outcomes(audit, audit_of(1500, 1), no_new_findings="same"),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(data.binary(900), path)
        fixed = ["check", path, "--outcome", "y", "--probability", "p", "--by", "state", "--effort", "quick"]
        asked = {
            "passes": ["--max-expected", 0.9],
            "fails": ["--max-expected", 0.001],
            "finds": ["--max-findings", 0],
            "wrong_use": ["--max-expected", "much"],
            "no_gate": [],
            "unknown_column": ["--max-field", "nowhere=0.1"],
        }
        status = {
            name: CliRunner().invoke(main, [str(word) for word in [*fixed, *words]]).exit_code
            for name, words in asked.items()
        }
    return {"outcomes": outcomes, "status": status}


OTHERS: dict[str, Callable[[], Plain]] = {
    "compare_paired": partial(compared, partial(audit_of, 1500, 1), other_model),
    "compare_unpaired": partial(compared, partial(audit_of, 1500, 1), partial(audit_of, 1300, 8)),
    "compare_clusters": partial(
        compared, partial(audit_of, 1500, 1, cluster="household"), partial(audit_of, 1300, 8, cluster="household")
    ),
    "compare_loaded": compared_after_loading,
    "repair_groups": repaired,
    "repair_chosen": partial(
        repaired_table, partial(data.binary, 1200), NOT_FEATURES, **EVENTS, by=["state", "age"], effort="quick"
    ),
    "repair_count": partial(
        repaired_table, partial(data.counts, 1200), [], **CLAIMS, by=["state", "age"], effort="quick",
        candidates=[MeanScaling(), GroupWise(MeanScaling(), columns=["state"])],
    ),
    "gates": gates,
}  # fmt: skip

CASES = {**{f"audit_{name}": case for name, case in AUDITS.items()}, **OTHERS}
