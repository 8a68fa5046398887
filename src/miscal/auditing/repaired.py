"""From a table to its repaired files: choose on one half, judge on the other, fit on all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from miscal.auditing.audit import source_of
from miscal.auditing.column_choice import MAX_LEVELS, chosen_columns, named
from miscal.auditing.repair import Repair, applied, repair
from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.data.frames import expanded
from miscal.data.outputs import write_together
from miscal.data.predictions import Predictions
from miscal.data.sources import one_prediction, read
from miscal.engines.roles import Chunk
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.choosing import choose, chosen_on, refitted
from miscal.recalibrate.declared import label_array
from miscal.recalibrate.in_parts import with_columns
from miscal.recalibrate.sample import Sample, row_weight

NEW = "recalibrated"
PART = "recalibrated_part"
ROW = "number of the row"
LEAST = 100  # rows to split


@dataclass(frozen=True, eq=False)
class Repaired:
    """What `repair_table` gives.

    Attributes
    ----------
    record : Repair, on rows that the repair has not seen
    model : the fitted recalibrator
    table : all rows with the model's probabilities in `recalibrated` (one column a class if there are several:
        `recalibrated_<class>`), and in `recalibrated_part` whether a row chose the method ("fit") or judged it ("test")
    """

    record: Repair
    model: Recalibrator
    table: pa.Table

    def write(
        self,
        *,
        table: str | PathLike[str] | None = None,
        model: str | PathLike[str] | None = None,
        page: str | PathLike[str] | None = None,
        json: str | PathLike[str] | None = None,
    ) -> None:
        """Write some of the files: all of them, or none if one cannot be written."""
        from miscal.page.html import to_html
        from miscal.page.json import dumps, plain

        wanted = [
            (table, lambda path: _table_bytes(self.table, path)),
            (model, lambda _: self.model.to_json().encode()),
            (page, lambda _: to_html(plain(self.record.document)).encode("utf-8", "replace")),
            (json, lambda _: (dumps(self.record.document) + "\n").encode()),
        ]
        asked = [(Path(path), made) for path, made in wanted if path is not None]
        if len({path for path, _ in asked}) < len(asked):
            raise refusal("must be files of their own", where="the outputs", got="one is named twice")
        write_together({path: made(path) for path, made in asked})


def repair_table(
    data: Any,
    *,
    outcome: str,
    probability: Any = None,
    by: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    allowed: Sequence[str] | None = None,
    folds: int = 0,
    candidates: Any = "auto",
    effort: str = "normal",
    level: float = 0.05,
    random_state: int = 0,
    source: str | None = None,
    cluster: str | None = None,
    progress: Any = None,
    prediction: str | None = None,
    **options: Any,
) -> Repaired:
    """Choose a repair of a table's probabilities (or predicted means) and show on unseen rows what it mends.

    Half of the rows (of the clusters) choose and fit the repair, the other half is audited before and after; then the
    method that was chosen is fitted on all rows, and that is the model which is returned. With `folds` every row is
    audited: each fold is repaired by a choice made on the others, and the model that is returned is chosen on all rows.

    Parameters
    ----------
    data : path or table of any library
    outcome, probability, prediction, cluster, and `weight`, `count`, `positive`, `logit`, `response`, `exposure` in
        options : as in `miscal.read`
    by : columns to audit; all by default.   ignore : columns to leave out
    allowed : columns that the repair may use; those audited by default
    folds : 0 (two halves), or at least 2 (cross-fitting)
    candidates, progress : as in `miscal.recalibrate.choose`
    """
    table = _arrow(data)
    _check(table, folds)
    probability = one_prediction(probability, prediction, options.get("response", "binary"))
    names = named(probability := expanded(probability, table.column_names))
    numbered = table.append_column(ROW, [np.arange(table.num_rows)])
    whole = read(numbered, outcome=outcome, probability=probability, cluster=cluster, id=ROW, **options)
    rows = np.asarray(whole.id, dtype=np.int64)  # of the table, for each that counts
    audited = [column.name for column in chosen_columns(whole, by, ignore, MAX_LEVELS)[0]]
    for name in allowed or ():
        whole.columns.find(name)
    usable = list(audited if allowed is None else allowed)
    if whole.rows < LEAST:
        raise refusal(f"needs at least {LEAST} rows", where="a repair", got=f"there are {whole.rows}")
    picks: Any = {
        "by": audited, "allowed": usable, "candidates": candidates, "random_state": random_state, "progress": progress,
    }  # fmt: skip
    part_of = _parts(table.num_rows, whole, rows, max(folds, 2), random_state)
    fold = part_of[rows]
    if folds:
        repaired, model, unseen = _crossed(whole, fold, **picks), _chosen(whole, **picks), whole
    else:
        model, unseen = _chosen(whole.take(np.flatnonzero(fold == 0)), **picks), whole.take(np.flatnonzero(fold == 1))
        repaired = None
    if whole.n_classes > 2:  # the repair has learned places of classes; columns and model carry their names
        model.classes_ = label_array(list(whole.classes))
    record = repair(
        unseen, model, repaired=repaired, by=by, ignore=ignore, effort=effort, level=level, random_state=random_state,
        source=source or source_of(data),
        described={"outcome": outcome, "probability": ", ".join(names), "cluster": cluster, **_means(whole, options)},
    )  # fmt: skip
    if not folds:  # the method that was judged on unseen rows, fitted on these as well
        again = refitted(model, Sample.of(whole, Columns({name: whole.columns[name] for name in usable})))
        again.classes_, model = model.classes_, again
    record.about.update(split=f"{folds} folds" if folds else "halves", allowed=usable, shipped_rows=model.n_rows_)
    new = [NEW] if whole.n_classes == 2 else [f"{NEW}_{label}" for label in model.classes_]
    out = with_columns(model, Chunk(table, "the table"), names, new, logit=bool(options.get("logit")))
    words = np.array(["fit", "test"], dtype=object)[np.zeros_like(part_of) if folds else part_of]
    return Repaired(record, model, out.append_column(PART, [words]))


def _check(table: pa.Table, folds: Any) -> None:
    if PART in table.column_names or NEW in table.column_names:
        raise refusal("must be a free name", where=f"column '{NEW}'", got="the table has it already", hint="rename it")
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 0 or folds == 1:
        raise refusal("must be 0 or at least 2", where="'folds'", got=f"it is {folds!r}")


def _arrow(data: Any) -> pa.Table:
    from miscal.data.files import TableFile
    from miscal.data.frames import frame_of

    if isinstance(data, (str, PathLike)):
        return TableFile(fspath(data)).load()
    return data if isinstance(data, pa.Table) else pa.table(dict(frame_of(data, "the table")))


def _parts(total: int, whole: Predictions, rows: np.ndarray, folds: int, random_state: int) -> np.ndarray:
    """The fold of every row of the table; rows of one cluster stay together, rows left out are in the last one."""
    from miscal.inference.beyond import fold_of_rows

    if whole.cluster is None:
        return fold_of_rows(total, folds, random_state=random_state)
    part = np.full(total, folds - 1, dtype=np.int64)
    part[rows] = fold_of_rows(whole.rows, folds, cluster=whole.cluster, random_state=random_state)
    return part


def _crossed(whole: Predictions, fold: np.ndarray, **picks: Any) -> np.ndarray:
    """What a repair chosen on the other folds makes of each."""
    parts, made = [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)], []
    for k, part in enumerate(parts):
        chosen = _chosen(whole.take(np.flatnonzero(fold != k)), **picks)
        made.append(applied(chosen, whole.take(part)))
    return np.concatenate(made)[np.argsort(np.concatenate(parts), kind="stable")]


def _means(rows: Predictions, options: dict[str, Any]) -> dict[str, Any]:
    """What the document says of predictions that are no probabilities."""
    known = {"response": rows.response, "exposure": options.get("exposure")}
    return {} if rows.response == "binary" else {name: value for name, value in known.items() if value is not None}


def _chosen(rows: Predictions, **picks: Any) -> Recalibrator:
    if rows.response != "binary":
        return chosen_on(rows, **picks)
    weight = row_weight(rows)
    names = list(dict.fromkeys([*picks["by"], *picks["allowed"]]))
    beside = {name: rows.columns[name] for name in names} if names else None
    return choose(rows.probability, rows.outcome, beside, sample_weight=weight, cluster=rows.cluster, **picks)


def _table_bytes(table: pa.Table, path: Path) -> bytes:
    sink = pa.BufferOutputStream()
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, sink, write_page_checksum=True)
    elif path.suffix.lower() == ".csv":
        import pyarrow.csv as pc

        pc.write_csv(table, sink)
    else:
        raise refusal("must end in .parquet or .csv", where="the repaired table", got=f"it is '{path}'")
    return bytes(sink.getvalue().to_pybytes())
