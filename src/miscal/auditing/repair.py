"""A recalibration shown on unseen rows: every segment before and after, and from a table to its recalibrated files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from os import fspath
from pathlib import Path
from typing import Any

import numpy as np

from miscal.aggregate.column_roles import Chunk
from miscal.auditing.audit import Audit, audit, source_of
from miscal.auditing.column_choice import Names, chosen_columns, named
from miscal.auditing.compare import SCORE_NUMBERS
from miscal.auditing.finding_rows import rows_of, target_of_scope
from miscal.auditing.options import MAX_LEVELS
from miscal.auditing.record import RenderMixin
from miscal.auditing.search.cell_grids import sums_of_rows
from miscal.auditing.search.search_context import SearchContext, cluster_variance_ratio
from miscal.codes.audit import RepairVerdict
from miscal.data.arrays import Array, Plain, expanded, frame_of
from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.data.files import TableFile
from miscal.data.libraries import csv, pa, pq
from miscal.data.predictions import Predictions
from miscal.data.sources import one_prediction, read
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.choosing import Choose, refit_choice
from miscal.recalibrate.held_out import paired_difference, row_loss
from miscal.recalibrate.out_of_core import with_columns
from miscal.recalibrate.parameters import label_array
from miscal.recalibrate.probability_arrays import as_two_columns
from miscal.recalibrate.training_sample import TrainingSample, row_weight
from miscal.report.codec import to_json
from miscal.report.findings import Finding, flat
from miscal.report.model import AuditReport, RepairReport
from miscal.report.wording import LEFT_FIRST, became, points, showing
from miscal.stats.isotonic import assign_folds
from miscal.stats.normal import normal_interval
from miscal.stats.null_model import choose_null

MAX_REMAINING = (
    0.5  # a segment without a significant gap is gone only if its gap is at most this share of the former
)
SEGMENT_NUMBERS = ("rows", "predicted", "observed", "gap", "p_value", "interval")
MIN_CHANGE = 0.1  # share by which a gap must shrink or grow to be called smaller or larger


@dataclass(frozen=True, eq=False)
class Repair(RenderMixin):
    """Two audits of the same unseen rows, before and after a recalibration, segment by segment.

    Attributes
    ----------
    before, after : Audit
    places : list of dict
        where, kind, verdict, before and after of each segment; before and after have rows, predicted, observed, gap,
        interval and p_value.
    about : dict
        How it was recalibrated: name, reason, keeps_ranking, rows, score (each number before and after).
    predictions : Predictions
        The recalibrated predictions of the unseen rows.
    """

    before: Audit
    after: Audit
    places: list[Plain]
    about: Plain
    predictions: Predictions

    def where(self, verdict: str) -> list[str]:
        """The segments with one verdict: gone, smaller, remaining, larger or new."""
        return [place["where"] for place in self.places if place["verdict"] == verdict]

    @property
    def report(self) -> AuditReport:  # type: ignore[override]
        """The report of the audit after the recalibration, with what became of every segment."""
        return replace(self.after.report, repaired=RepairReport(self.about, self.places))

    @property
    def document(self) -> Plain:
        """The audit after the recalibration, with what changed under `repair` and how under `repaired_by`."""
        return to_json(self.report)

    def __repr__(self) -> str:
        return (
            f"{self.about['name']}, on {self.about['rows']:,} rows that it has not seen. {self.summary(20)}"
        )

    def summary(self, limit: int) -> str:
        """What became of the segments, and a line per segment, at most `limit`: what is left before what is gone."""
        places = sorted(self.places, key=lambda place: LEFT_FIRST.index(place["verdict"]))
        with showing(self.predictions.response):
            lines = [
                f"  {place['verdict']:<9} {place['where']}: {points(place['before']['gap'])} before, "
                f"{points(place['after']['gap'])} after"
                for place in places[:limit]
            ]
        more = [f"  ... and {len(places) - limit} more"] if len(places) > limit else []
        return "\n".join([became([place["verdict"] for place in places]), *lines, *more])


def repair(
    predictions: Predictions,
    recalibrator: Recalibrator,
    *,
    by: Names | None = None,
    ignore: Names = (),
    target: str | int = "auto",
    level: float = 0.05,
    effort: str = "normal",
    random_state: int = 0,
    source: str | None = None,
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
        raise refusal("must be Predictions", "'predictions'", got=f"got {type(predictions).__name__}")
    columns = predictions.columns if recalibrator.uses_columns else None
    mapped = recalibrator.predict if recalibrator.predicts_means() else recalibrator.predict_proba
    recalibrated = predictions.with_probability(mapped(predictions.probability, columns))
    audited = partial(
        audit,
        by=by,
        ignore=ignore,
        target=target,
        level=level,
        effort=effort,
        random_state=random_state,
        source=source,
    )
    before, after = map(audited, (predictions, recalibrated))
    table, one, two = getattr(recalibrator, "table", None), before.score, after.score
    now, past = (row_loss(as_two_columns(each.probability), each) for each in (recalibrated, predictions))
    change, error = paired_difference(
        now, past, predictions
    )  # of means: deviance; paired over rows or clusters
    loss = "log_loss" if predictions.response == "binary" else "deviance"
    about = {
        "name": getattr(recalibrator, "name", type(recalibrator).__name__),
        "method": repr(recalibrator),
        "reason": getattr(recalibrator, "reason", None),
        "keeps_ranking": bool(recalibrator.keeps_ranking),
        "fitted_rows": int(recalibrator.n_rows_),
        "rows": predictions.rows,
        "score": {name: [one[name], two[name]] for name in SCORE_NUMBERS if name in one and name in two},
        f"{loss}_change": {"value": change, "interval": normal_interval(change, error)},
        "candidates": None if table is None else table.to_dict(),
    }
    places = _places(before, after, predictions, recalibrated, target)
    return Repair(before, after, places, about, recalibrated)


def _places(
    before: Audit, after: Audit, predictions: Predictions, recalibrated: Predictions, target: str | int
) -> list[Plain]:
    """Each segment that is a finding before or after, with its numbers in both audits and a verdict."""
    settings = before.report.settings

    @cache
    def context(rows_of_table: Predictions, scope: str) -> SearchContext:
        target_data = target_of_scope(rows_of_table, scope, target)
        return SearchContext(target_data, target_data, choose_null(target_data, "bernoulli"))

    def numbers_of(finding: Finding, tested: Predictions, defined_on: Predictions) -> Plain:
        """Gap, interval and p-value of the rows of a finding, as the audit would give them."""
        inside = np.flatnonzero(rows_of(finding, defined_on))
        rows = context(tested, finding.scope)
        rows = replace(rows, variance_ratio=cluster_variance_ratio(rows.raw.take(inside)))
        sums = sums_of_rows(rows.raw, inside)
        n_tests = settings["tests"]
        p_value = min(1.0, rows.exact_p(inside, float(rows.p_values(sums)[0])) * n_tests)
        ends = rows.gap_intervals(sums, n_tests, settings["level"])
        interval = [float(end[0]) * rows.raw.units.scale for end in ends]
        numbers = {name: value for name, value in rows.cell_summary(sums).items() if name != "weight"}
        return {**numbers, "p_value": p_value, "interval": interval}

    earlier, later = (
        {finding.where: finding for finding in flat(audited.findings) if finding.real}
        for audited in (before, after)
    )
    segments = []
    for where in {**earlier, **later}:
        finding = earlier.get(where) or later[where]
        in_finding = {name: getattr(finding, name) for name in SEGMENT_NUMBERS}
        if where in earlier:
            past, now = in_finding, numbers_of(finding, recalibrated, predictions)
            if finding.whole and where in later:
                now["p_value"] = later[where].p_value
            verdict = _verdict(
                finding.gap,
                now["gap"],
                significant=not _covers_zero(now["interval"]),
                still_found=where in later,
                whole=finding.whole,
            )
        else:
            past, now = numbers_of(finding, predictions, recalibrated), in_finding
            verdict = _verdict_of_new(past, finding)
        segments.append(
            {"where": where, "kind": finding.kind, "verdict": verdict, "before": past, "after": now}
        )
    return segments


def _covers_zero(interval: Sequence[float]) -> bool:
    return interval[0] <= 0.0 <= interval[1]


def _verdict_of_new(past: Plain, finding: Finding) -> RepairVerdict:
    """New, unless the same rows were off the same way and at least as far before, in a segment with other words."""
    gap = past["gap"]
    if gap * finding.gap <= 0 or abs(finding.gap) > abs(gap) or _covers_zero(past["interval"]):
        return RepairVerdict.NEW
    return _verdict(gap, finding.gap, significant=True, still_found=True, whole=False)


def _verdict(
    before: float, after: float, *, significant: bool, still_found: bool, whole: bool
) -> RepairVerdict:
    """What became of a gap.

    Scores of a whole table may be wrong along the score although the averages agree: it is gone only if the later audit
    does not find it.
    """
    small = not still_found if whole else abs(after) <= MAX_REMAINING * abs(before)
    if not significant and small:
        return RepairVerdict.GONE
    if abs(after) <= (1.0 - MIN_CHANGE) * abs(before) or (whole and not still_found):
        return RepairVerdict.SMALLER
    if abs(after) >= (1.0 + MIN_CHANGE) * abs(before) and not whole:
        return RepairVerdict.LARGER
    return RepairVerdict.REMAINING


NEW = "recalibrated"
PART = "recalibrated_part"
ROW = "number of the row"
MIN_ROWS_TO_SPLIT = 100


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


def repair_table(
    data: Any,
    *,
    outcome: str,
    probability: Any = None,
    by: Names | None = None,
    ignore: Names = (),
    allowed: Names | None = None,
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
    method that was chosen is fitted on all rows, and that is the model which is returned.

    Parameters
    ----------
    data : path or table of any library
    outcome, probability, prediction, cluster, and `weight`, `count`, `positive`, `logit`, `response`, `exposure` in
        options : as in `miscal.read`
    by : columns to audit; all by default.   ignore : columns to leave out
    allowed : columns that the repair may use; those audited by default
    candidates, progress : as in `miscal.recalibrate.choose`
    """
    table = _arrow(data)
    probability = one_prediction(probability, prediction, options.get("response", "binary"))
    names = named(probability := expanded(probability, table.column_names))
    numbered = table.append_column(ROW, [np.arange(table.num_rows)])
    whole = read(numbered, outcome=outcome, probability=probability, cluster=cluster, id=ROW, **options)
    rows = np.asarray(whole.id, dtype=np.int64)  # of the table, for each that counts
    audited = [column.name for column in chosen_columns(whole, by, ignore, MAX_LEVELS)[0]]
    usable = list(audited if allowed is None else allowed)
    if whole.rows < MIN_ROWS_TO_SPLIT:
        raise refusal(f"needs at least {MIN_ROWS_TO_SPLIT} rows", "a repair", got=f"there are {whole.rows}")
    half = _halves(table.num_rows, whole, rows, random_state)
    fitted, unseen = (whole.take(np.flatnonzero(half[rows] == part)) for part in (0, 1))
    if fitted.count is not None:  # so many trials of one row are its weight
        weight = row_weight(fitted)
        fitted = Predictions(
            fitted.outcome, fitted.probability, weight=weight, cluster=fitted.cluster, columns=fitted.columns
        )
    choice = Choose(by=audited, allowed=usable, candidates=candidates, random_state=random_state)
    chosen = choice.choose_for(fitted, progress)
    record = repair(
        unseen, chosen, by=by, ignore=ignore, effort=effort, level=level, random_state=random_state,
        source=source or source_of(data),
    )  # fmt: skip
    described = {"outcome": outcome, "probability": ", ".join(names), "cluster": cluster}
    if whole.response != "binary":
        described |= {
            word: options[word] for word in ("response", "exposure") if options.get(word) is not None
        }
    record = replace(
        record, before=record.before.with_data(**described), after=record.after.with_data(**described)
    )
    # The method that was judged on unseen rows, fitted on these as well.
    model = refit_choice(
        chosen,
        TrainingSample.from_predictions(whole, Columns({name: whole.columns[name] for name in usable})),
    )
    # It has learned places of classes; columns and model carry their names.
    model.classes_ = label_array(list(whole.classes)) if whole.n_classes > 2 else chosen.classes_
    record.about.update(split="halves", allowed=usable, shipped_rows=model.n_rows_)
    out = with_columns(
        model, Chunk(table, "the table"), names, model.output_names(NEW), logit=bool(options.get("logit"))
    )
    words = np.array(["fit", "test"], dtype=object)[half]
    return Repaired(record, model, out.append_column(PART, [words]))


def _arrow(data: Any) -> pa.Table:
    """The table, which must not have the columns that are added to it."""
    loaded = TableFile(fspath(data)).load() if source_of(data) is not None else data
    table = loaded if isinstance(loaded, pa.Table) else pa.table(dict(frame_of(loaded, "the table")))
    if PART in table.column_names or NEW in table.column_names:
        raise refusal(
            "must be a free name", f"column '{NEW}'", got="the table has it already", hint="rename it"
        )
    return table


def _halves(total: int, whole: Predictions, rows: Array, random_state: int) -> Array:
    """The half of every row of the table; rows of one cluster stay together, rows left out are in the second."""
    if whole.cluster is None:
        return assign_folds(total, 2, random_state=random_state)
    half = np.ones(total, dtype=np.int64)
    half[rows] = assign_folds(whole.rows, 2, cluster=whole.cluster, random_state=random_state)
    return half


def table_bytes(table: pa.Table, path: Path) -> bytes:
    """A table as the content of a file: CSV where its name ends so, else Parquet."""
    sink = pa.BufferOutputStream()
    if path.suffix.lower() == ".csv":
        csv.write_csv(table, sink)
    else:
        pq.write_table(table, sink, write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())
