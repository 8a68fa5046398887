"""One audit of a table: the score, every column, and the places that are wrong beyond noise."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

import miscal
from miscal.data.columns import Column
from miscal.data.errors import nearest, refusal
from miscal.data.predictions import Predictions
from miscal.data.sources import read
from miscal.inference.adjust import holm
from miscal.metrics.field import by_field
from miscal.metrics.score.result import by_score
from miscal.metrics.variable import by_variable
from miscal.pooling.cells import MISSING
from miscal.report.findings import CODES, Finding, level_words, range_words
from miscal.results import Result

SCHEMA = "miscal.audit/1"
IDENTIFIER_SHARE = 0.5  # a column with more distinct levels than this share of the rows names rows, not groups
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; `document` is the JSON of the contract, from which page and text are made."""

    document: dict[str, Any]
    findings: list[Finding]
    results: list[Result] = field(default_factory=list)

    @property
    def score(self) -> dict[str, Any]:
        """The numbers by score."""
        return dict(self.document["score"])

    @property
    def clean(self) -> list[dict[str, Any]]:
        """Columns tested in which nothing was beyond noise."""
        return list(self.document["clean"])

    @property
    def too_small(self) -> list[dict[str, Any]]:
        """Places too small to judge, and columns set aside."""
        return list(self.document["too_small"])

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the page, whole or not at all."""
        from miscal.report.html import write_html

        write_html(self.document, path)

    def to_json(self, path: str | PathLike[str]) -> None:
        """Write the JSON, whole or not at all."""
        from miscal.report.json import write_json

        write_json(self.document, path)

    def to_markdown(self) -> str:
        """The audit as text."""
        from miscal.report.markdown import to_markdown

        return to_markdown(self.document)

    def __repr__(self) -> str:
        return self.to_markdown()


def audit(
    data: Any,
    *,
    outcome: str | None = None,
    probability: Any = None,
    weight: str | None = None,
    count: str | None = None,
    cluster: str | None = None,
    by: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    target: str | int = "auto",
    level: float = 0.05,
    effort: str = "normal",
    random_state: int = 0,
    progress: Progress | None = None,
    **read_options: Any,
) -> Audit:
    """Find where the probabilities of a table are wrong, over the score and every column.

    Parameters
    ----------
    data : frame of any library, path, or Predictions
    outcome, probability, weight, count, cluster : names of columns, as in `miscal.read`
    by : columns to look at; all of them by default
    ignore : columns to leave out
    level : chance of any false alarm in the whole audit
    effort : "quick", "normal" or "deep"
    progress : called with what is being looked at, how many steps are done, and how many there are

    Returns
    -------
    Audit

    Examples
    --------
    >>> import miscal
    >>> found = miscal.audit(
    ...     {"y": [0, 1] * 50, "p": [0.4, 0.6] * 50, "g": ["a", "b"] * 50}, outcome="y", probability="p"
    ... )
    >>> [finding.where for finding in found.findings if finding.real][:1]
    ['the whole table']
    """
    if effort not in ("quick", "normal", "deep"):
        raise refusal("must be 'quick', 'normal' or 'deep'", where="'effort'", got=f"it is {effort!r}")
    predictions = _predictions(data, outcome, probability, weight, count, cluster, read_options)
    columns, aside = _chosen(predictions, by, ignore)
    options: dict[str, Any] = {"target": target, "random_state": random_state}
    say = progress or (lambda *_: None)
    total = len(columns) + 1
    say("score", 0, total)
    score = by_score(predictions, **options)
    results = []
    for done, column in enumerate(columns, start=1):
        say(column.name, done, total)
        results.append((column, (by_field if column.nominal else by_variable)(predictions, column.name, **options)))
    say("", total, total)
    found = _findings(score, results, level)
    document = _document(predictions, score, results, found, aside)
    document["settings"] |= {"level": level, "effort": effort, "random_state": random_state, "target": str(target)}
    document["data"] |= {"outcome": outcome, "probability": probability if probability is None else str(probability)}
    return Audit(document, found, [score, *(result for _, result in results)])


def _predictions(
    data: Any,
    outcome: str | None,
    probability: Any,
    weight: Any,
    count: Any,
    cluster: Any,
    read_options: dict[str, Any],
) -> Predictions:
    if isinstance(data, Predictions):
        return data
    if outcome is None or probability is None:
        raise refusal(
            "needs the names of the outcome and probability columns", where="audit", hint="outcome=, probability="
        )
    return read(
        data, outcome=outcome, probability=probability, weight=weight, count=count, cluster=cluster, **read_options
    )


def _chosen(
    predictions: Predictions, by: Sequence[str] | None, ignore: Sequence[str]
) -> tuple[list[Column], list[dict[str, Any]]]:
    """The columns to look at, and those set aside with the reason."""
    known = list(predictions.columns)
    for name in [*(by or ()), *ignore]:
        if name not in known:
            raise refusal(f"has no column '{name}'", where="the data", hint=nearest(name, known))
    chosen, aside = [], []
    for name in by or known:
        if name in ignore:
            continue
        column = predictions.columns[name]
        reason = None if by else _reason_aside(column)
        if reason:
            aside.append({"where": name, "rows": predictions.rows, "reason": reason})
        else:
            chosen.append(column)
    return chosen, aside


def _reason_aside(column: Column) -> str | None:
    """Why a column says nothing about groups: it is constant, or it names the rows."""
    if column.nominal:
        if len(column.levels) > max(50, IDENTIFIER_SHARE * len(column)):
            return f"an identifier: {len(column.levels):,} levels"
        if len(column.levels) <= 1 and not column.missing.any():
            return "constant"
        return None
    known = column.values[~np.isnan(column.values)]
    if known.size == 0:
        return "all values are missing"
    return "constant" if known.min() == known.max() and known.size == len(column) else None


def _findings(score: Result, results: list[tuple[Column, Result]], level: float) -> list[Finding]:
    """The whole table first, then every cell, adjusted together, ranked by the lower bound of events off."""
    extra, kuiper = score.extra, score.extra["kuiper_noise"]
    tables = [result.table for _, result in results]
    raw = np.concatenate([[kuiper["p_value"]], *(table["p_value"] for table in tables)])
    adjusted = holm(raw)
    found = []
    start = 1
    for column, result in results:
        table = result.table
        stop = start + table.rows
        found += _cell_findings(column, result, adjusted[start:stop], level)
        start = stop
    found.sort(key=_bound, reverse=True)
    weight = float(np.sum(score.table["weight"]))
    gap = extra["predicted"] - extra["observed"]
    whole = Finding(
        code=CODES["score"],
        kind="score",
        where="the whole table",
        columns=(),
        levels=(),
        rows=int(np.sum(score.table["rows"])),
        weight=weight,
        predicted=extra["predicted"],
        observed=extra["observed"],
        gap=gap,
        interval=_overall_interval(score),
        events_off=gap * weight,
        p_value=float(adjusted[0]),
        real=bool(adjusted[0] <= level),
        specific=False,
    )
    return [whole, *found]


def _overall_interval(score: Result) -> tuple[float, float]:
    tally = score.extra["tally"]
    gap = float(tally.events_off.sum() / tally.weight.sum())
    error = 1.96 * float(np.sqrt(tally.variance.sum()) / tally.weight.sum())
    return gap - error, gap + error


def _cell_findings(column: Column, result: Result, adjusted: np.ndarray, level: float) -> list[Finding]:
    table = result.table
    return [
        Finding(
            code=CODES[result.kind],
            kind=result.kind,
            where=_words(column, result, int(cell)),
            columns=(column.name,),
            levels=(str(table["label"][cell]),),
            rows=int(table["rows"][cell]),
            weight=float(table["weight"][cell]),
            predicted=float(table["predicted"][cell]),
            observed=float(table["observed"][cell]),
            gap=float(table["gap"][cell]),
            interval=(float(table["gap_low"][cell]), float(table["gap_high"][cell])),
            events_off=float(table["events_off"][cell]),
            p_value=float(adjusted[cell]),
            real=True,
            specific=True,
        )
        for cell in np.flatnonzero(adjusted <= level)
    ]


def _bound(finding: Finding) -> float:
    low, high = finding.interval
    return max(low, -high, 0.0) * finding.weight


def _words(column: Column, result: Result, cell: int) -> str:
    table = result.table
    label = str(table["label"][cell])
    if result.kind == "field" or label == MISSING:
        return level_words(column, label)
    ranges = table.rows - (str(table["label"][-1]) == MISSING)
    return range_words(
        column, float(table["low"][cell]), float(table["high"][cell]), first=cell == 0, last=cell == ranges - 1
    )


def _document(
    predictions: Predictions,
    score: Result,
    results: list[tuple[Column, Result]],
    found: list[Finding],
    aside: list[dict[str, Any]],
) -> dict[str, Any]:
    guilty = {name for finding in found if finding.real for name in finding.columns}
    clean = [
        {
            "where": column.name,
            "value": result.value,
            "noise_floor": result.noise_floor,
            "p_value": result.p_value,
            "detectable": float(np.nanmin(result.table["detectable"])),
        }
        for column, result in results
        if column.name not in guilty
    ]
    sections: dict[str, list[Any]] = {"score": [score.to_dict()], "variable": [], "field": []}
    for _, result in results:
        sections[result.kind].append(result.to_dict())
    return {
        "schema": SCHEMA,
        "version": miscal.__version__,
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "data": {
            "rows": predictions.rows,
            "weight": float(np.sum(score.table["weight"])),
            "fingerprint": predictions._fingerprint(),  # noqa: SLF001
        },
        "settings": {},
        "score": _score_numbers(score),
        "findings": [finding.to_dict() for finding in found],
        "clean": clean,
        "too_small": aside,
        "sections": sections,
    }


def _score_numbers(score: Result) -> dict[str, Any]:
    extra = score.extra
    names = ("slope", "intercept", "in_the_large", "ratio")
    return {
        "expected": score.value,
        "kuiper": extra["kuiper"],
        "smooth": extra["smooth"],
        **{name: extra[name]["value"] for name in names},
        "predicted": extra["predicted"],
        "observed": extra["observed"],
        "gap": extra["predicted"] - extra["observed"],
        "brier": extra["brier"]["score"],
        "log_loss": extra["log_loss"]["score"],
        "auc": extra["auc"],
        "details": {
            "expected": {"noise_floor": score.noise_floor, "p_value": score.p_value, "interval": list(score.interval)},
            "kuiper": extra["kuiper_noise"],
            "gap": {"interval": list(_overall_interval(score))},
            **{name: {"interval": extra[name]["interval"]} for name in names},
        },
    }
