"""Repairs: before and after for every place that was wrong, on unseen rows; and from a table to its repaired files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from miscal.auditing.audit import Audit, audit, source_of
from miscal.auditing.column_choice import MAX_LEVELS, chosen_columns, named
from miscal.auditing.compare import SCORES
from miscal.auditing.findings import Finding, flat, rows_of
from miscal.auditing.record import Printed
from miscal.auditing.search.groups import Rows, cluster_spread, sums_of
from miscal.data.columns import Columns
from miscal.data.errors import refusal, visible
from miscal.data.files import TableFile
from miscal.data.libraries import csv, pa, pq
from miscal.data.outputs import write_together
from miscal.data.predictions import Predictions
from miscal.data.sources import one_prediction, read
from miscal.data.vectors import expanded, frame_of
from miscal.engines.roles import Chunk
from miscal.inference.nulls import fold_of_rows
from miscal.inference.residual import choose_null
from miscal.page.json import dumps, plain
from miscal.page.words import LEFT_FIRST, became, points, showing
from miscal.pairs import pair
from miscal.recalibrate.base import Recalibrator, pairs
from miscal.recalibrate.choosing import Choose, refitted
from miscal.recalibrate.declared import label_array
from miscal.recalibrate.in_parts import with_columns
from miscal.recalibrate.judging import difference, row_loss
from miscal.recalibrate.sample import Sample, row_weight

HALVED = 0.5  # a place within noise is gone only if its gap is also at most half of what it was
CLEAR = 0.1  # share by which a gap must shrink or grow to be called smaller or larger


@dataclass(frozen=True, eq=False)
class Repair(Printed):
    """Two audits of the same unseen rows, before and after a repair, place by place.

    Attributes
    ----------
    before, after : Audit
    places : list of {where, kind, verdict, before, after}; before and after are {rows, predicted, observed, gap,
        interval, p_value}, or None where an audit did not look there
    about : how it was repaired: name, reason, keeps_ranking, rows, score (each number before and after)
    predictions : the repaired predictions of the unseen rows
    """

    before: Audit
    after: Audit
    places: list[dict[str, Any]]
    about: dict[str, Any]
    predictions: Predictions

    def where(self, verdict: str) -> list[str]:
        """The places with one verdict: gone, smaller, remaining, larger or new."""
        return [place["where"] for place in self.places if place["verdict"] == verdict]

    @property
    def document(self) -> dict[str, Any]:
        """The audit after the repair, with what changed under `repair` and how under `repaired_by`."""
        return {**self.after.document, "repair": self.places, "repaired_by": self.about}

    def __repr__(self) -> str:
        return f"{self.about['name']}, on {self.about['rows']:,} rows that it has not seen. {self.told(20)}"

    def told(self, most: int) -> str:
        """What became of the places, and a line each, at most so many: what is left or made before what is mended."""
        places = sorted(self.places, key=lambda place: LEFT_FIRST.index(place["verdict"]))
        with showing(self.predictions.response):
            lines = [
                f"  {place['verdict']:<9} {visible(place['where'])}: {points(place['before']['gap'])} before, "
                f"{points(place['after']['gap'])} after"
                for place in places[:most]
            ]
        more = [f"  ... and {len(places) - most} more"] if len(places) > most else []
        return "\n".join([became([place["verdict"] for place in places]), *lines, *more])


def repair(
    predictions: Predictions,
    recalibrator: Recalibrator,
    *,
    repaired: Any = None,
    by: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    target: str | int = "auto",
    level: float = 0.05,
    effort: str = "normal",
    random_state: int = 0,
    source: str | None = None,
    described: dict[str, Any] | None = None,
) -> Repair:
    """Audit rows before and after a repair and say what became of every finding.

    A place is *gone* when after the repair its gap is within noise (simultaneously over all places that the audit
    tested) and at most half of what it was; *smaller* or *larger* when its size changed by a tenth or more; otherwise
    *remaining*. Places that only the audit after the repair finds are *new*, unless their rows were off the same way
    and at least as far before. The whole table is judged by the walk over the score as well: it is gone only if the
    second audit does not find it.

    Parameters
    ----------
    predictions : rows that neither the model nor the recalibrator was fitted on, with their columns
    recalibrator : fitted; one from `choose` brings its name, its reason and its table of candidates
    repaired : probabilities after the repair, where they are known already (cross-fitting)
    by, ignore, target, level, effort, random_state : as in `miscal.audit`

    Examples
    --------
    >>> import numpy as np, miscal
    >>> from miscal.recalibrate import GroupWise, PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> p, group = rng.beta(2, 3, 8000), rng.choice(["a", "b"], 8000)
    >>> y = (rng.random(8000) < np.where(group == "a", 0.5 * p, p)).astype(int)
    >>> fit, test = np.arange(4000), np.arange(4000, 8000)
    >>> fitted = GroupWise(PlattScaling()).fit(p[fit], y[fit], {"group": group[fit]})
    >>> unseen = miscal.Predictions(y[test], p[test], columns={"group": group[test]})
    >>> "group a" in miscal.repair(unseen, fitted, effort="quick").where("gone")
    True
    """
    if not isinstance(predictions, Predictions):
        raise refusal("must be Predictions", where="'predictions'", got=f"got {type(predictions).__name__}")
    recalibrated = predictions.with_probability(applied(recalibrator, predictions) if repaired is None else repaired)
    options: Any = {
        "by": by, "ignore": ignore, "target": target, "level": level, "effort": effort, "random_state": random_state,
        "source": source,
    }  # fmt: skip
    before, after = audit(predictions, **options), audit(recalibrated, **options)
    for each in (before, after):
        each.document["data"].update(described or {})
    places = _places(before, after, predictions, recalibrated, target)
    return Repair(before, after, places, _about(recalibrator, before, after, predictions, recalibrated), recalibrated)


def applied(model: Recalibrator, rows: Predictions) -> np.ndarray:
    """The repaired probabilities of rows, or their repaired means."""
    columns = rows.columns if model.uses_columns else None
    return (model.predict if model.is_mean() else model.predict_proba)(rows.probability, columns)


def _places(
    before: Audit, after: Audit, predictions: Predictions, recalibrated: Predictions, target: str | int
) -> list[dict[str, Any]]:
    settings = before.document["settings"]
    tests, level = max(int(settings["tests"]), 1), float(settings["level"])
    classes = {f"class {name}": k for k, name in enumerate(predictions.classes)}

    @cache
    def compared(in_which: Predictions, scope: str) -> Rows:
        own = pair(in_which, classes[scope] if scope else target)
        return Rows(own, own, choose_null(own, "bernoulli"))

    def judge(finding: Finding, judged: Predictions, found_in: Predictions) -> dict[str, Any]:
        return _judged(compared(judged, finding.scope), np.flatnonzero(rows_of(finding, found_in)), tests, level)

    early, late = ({one.where: one for one in flat(each.findings) if one.real} for each in (before, after))
    found = []
    for where, finding in early.items():
        two = judge(finding, recalibrated, predictions)
        if finding.whole and where in late:
            two["p_value"] = late[where].p_value
        within = two["interval"][0] <= 0.0 <= two["interval"][1]
        verdict = _verdict(finding.gap, two["gap"], within, where in late, finding.whole)
        found.append((finding, verdict, _numbers(finding), two))
    for finding in (one for where, one in late.items() if where not in early):
        one = judge(finding, predictions, recalibrated)
        found.append((finding, _late_verdict(one, finding), one, _numbers(finding)))
    names = ("where", "kind", "verdict", "before", "after")
    return [dict(zip(names, (each.where, each.kind, *told), strict=True)) for each, *told in found]


def _verdict(before: float, after: float, within: bool, still: bool, whole: bool) -> str:
    """One word for what became of a gap."""
    # Scores of a whole table may be wrong along the way although the averages agree.
    if within and (not still if whole else abs(after) <= HALVED * abs(before)):
        return "gone"
    if abs(after) <= (1.0 - CLEAR) * abs(before) or (whole and not still):
        return "smaller"
    return "larger" if abs(after) >= (1.0 + CLEAR) * abs(before) and not whole else "remaining"


def _late_verdict(before: dict[str, Any], finding: Finding) -> str:
    """New, unless the same rows were off the same way and at least as far before, inside a place with other words."""
    gap, (low, high) = before["gap"], before["interval"]
    other = gap * finding.gap <= 0 or abs(finding.gap) > abs(gap) or low <= 0.0 <= high
    return "new" if other else _verdict(gap, finding.gap, False, True, False)


def _numbers(finding: Finding) -> dict[str, Any]:
    names = ("rows", "predicted", "observed", "gap", "p_value")
    return {**{name: getattr(finding, name) for name in names}, "interval": list(finding.interval)}


def _judged(rows: Rows, inside: np.ndarray, tests: int, level: float) -> dict[str, Any]:
    """Gap, interval and p-value of some rows of a set of predictions, as the audit would give them."""
    compared = rows.raw
    rows = replace(rows, spread=1.0 if compared.cluster is None else cluster_spread(compared.take(inside)))
    sums = sums_of(compared, inside)
    p_value = min(1.0, rows.exact_p(inside, float(rows.p_values(sums)[0])) * tests)
    interval = [float(end[0]) * compared.units.scale for end in rows.gap_intervals(sums, tests, level)]
    told = {name: value for name, value in rows.told(sums).items() if name != "weight"}
    return {**told, "p_value": p_value, "interval": interval}


def _about(
    recalibrator: Recalibrator, before: Audit, after: Audit, predictions: Predictions, recalibrated: Predictions
) -> dict[str, Any]:
    table, one, two = getattr(recalibrator, "table", None), before.score, after.score
    now, past = (row_loss(pairs(each.probability), each) for each in (recalibrated, predictions))
    change, error = difference(now, past, predictions)  # of means: deviance; paired over rows or clusters
    loss = "log_loss" if predictions.response == "binary" else "deviance"
    return {
        "name": getattr(recalibrator, "name", type(recalibrator).__name__),
        "method": repr(recalibrator),
        "reason": getattr(recalibrator, "reason", None),
        "keeps_ranking": bool(recalibrator.keeps_ranking),
        "fitted_rows": int(recalibrator.n_rows_),
        "rows": predictions.rows,
        "score": {name: [one[name], two[name]] for name in SCORES if name in one and name in two},
        f"{loss}_change": {"value": change, "interval": [change - 1.96 * error, change + 1.96 * error]},
        "candidates": None if table is None else table.to_dict(),
    }


NEW = "recalibrated"
PART = "recalibrated_part"
ROW = "number of the row"
LEAST = 100  # rows to split
File = str | PathLike[str] | None


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

    def write(self, *, table: File = None, model: File = None, page: File = None, json: File = None) -> None:
        """Write some of the files: all of them, or none if one cannot be written."""
        from miscal.page.html import to_html

        made: dict[File, bytes] = {
            model: self.model.to_json().encode(),
            page: to_html(plain(self.record.document)).encode("utf-8", "replace"),
            json: f"{dumps(self.record.document)}\n".encode(),
        }
        if table is not None:
            made[table] = _table_bytes(self.table, Path(table))
        write_together({Path(path): content for path, content in made.items() if path is not None})


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
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 0 or folds == 1:
        raise refusal("must be 0 or at least 2", where="'folds'", got=f"it is {folds!r}")
    probability = one_prediction(probability, prediction, options.get("response", "binary"))
    names = named(probability := expanded(probability, table.column_names))
    numbered = table.append_column(ROW, [np.arange(table.num_rows)])
    whole = read(numbered, outcome=outcome, probability=probability, cluster=cluster, id=ROW, **options)
    rows = np.asarray(whole.id, dtype=np.int64)  # of the table, for each that counts
    audited = [column.name for column in chosen_columns(whole, by, ignore, MAX_LEVELS)[0]]
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
        fitted, unseen = (whole.take(np.flatnonzero(fold == part)) for part in (0, 1))
        repaired, model = None, _chosen(fitted, **picks)
    if whole.n_classes > 2:  # the repair has learned places of classes; columns and model carry their names
        model.classes_ = label_array(list(whole.classes))
    described = {"outcome": outcome, "probability": ", ".join(names), "cluster": cluster}
    if whole.response != "binary":
        described |= {word: options[word] for word in ("response", "exposure") if options.get(word) is not None}
    record = repair(
        unseen, model, repaired=repaired, by=by, ignore=ignore, effort=effort, level=level, random_state=random_state,
        source=source or source_of(data), described=described,
    )  # fmt: skip
    if not folds:  # the method that was judged on unseen rows, fitted on these as well
        again = refitted(model, Sample.of(whole, Columns({name: whole.columns[name] for name in usable})))
        again.classes_, model = model.classes_, again
    record.about.update(split=f"{folds} folds" if folds else "halves", allowed=usable, shipped_rows=model.n_rows_)
    new = [NEW] if whole.n_classes == 2 else [f"{NEW}_{label}" for label in model.classes_]
    out = with_columns(model, Chunk(table, "the table"), names, new, logit=bool(options.get("logit")))
    words = np.array(["fit", "test"], dtype=object)[np.zeros_like(part_of) if folds else part_of]
    return Repaired(record, model, out.append_column(PART, [words]))


def _arrow(data: Any) -> pa.Table:
    """The table, which must not have the columns that are added to it."""
    loaded = TableFile(fspath(data)).load() if isinstance(data, (str, PathLike)) else data
    table = loaded if isinstance(loaded, pa.Table) else pa.table(dict(frame_of(loaded, "the table")))
    if PART in table.column_names or NEW in table.column_names:
        raise refusal("must be a free name", where=f"column '{NEW}'", got="the table has it already", hint="rename it")
    return table


def _parts(total: int, whole: Predictions, rows: np.ndarray, folds: int, random_state: int) -> np.ndarray:
    """The fold of every row of the table; rows of one cluster stay together, rows left out are in the last one."""
    if whole.cluster is None:
        return fold_of_rows(total, folds, random_state=random_state)
    part = np.full(total, folds - 1, dtype=np.int64)
    part[rows] = fold_of_rows(whole.rows, folds, cluster=whole.cluster, random_state=random_state)
    return part


def _crossed(whole: Predictions, fold: np.ndarray, **picks: Any) -> np.ndarray:
    """What a repair chosen on the other folds makes of each."""
    parts, made = [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)], []
    for k, part in enumerate(parts):
        made.append(applied(_chosen(whole.take(np.flatnonzero(fold != k)), **picks), whole.take(part)))
    return np.concatenate(made)[np.argsort(np.concatenate(parts), kind="stable")]


def _chosen(rows: Predictions, progress: Any = None, **picks: Any) -> Recalibrator:
    if rows.count is not None:  # so many trials of one row are its weight
        beside: Any = {"cluster": rows.cluster, "columns": rows.columns}
        rows = Predictions(rows.outcome, rows.probability, weight=row_weight(rows), **beside)
    return Choose(**picks).chosen(rows, progress)


def _table_bytes(table: pa.Table, path: Path) -> bytes:
    sink = pa.BufferOutputStream()
    if path.suffix.lower() == ".csv":
        csv.write_csv(table, sink)
    else:
        pq.write_table(table, sink, write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())
