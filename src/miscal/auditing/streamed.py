"""The audit of a table beyond memory, and of carriers without rows: the same document from tallies.

Every sum, every test of a cell and every walk is exact. Which findings explain which others is told from a sample of
rows that the settings state. Pairs of columns and conjunctions are chosen on a few batches and measured on all rows;
neighbourhoods are those of the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.auditing.asked import columns_of, requests_like, requests_of, requests_timed, set_aside
from miscal.auditing.column_choice import FEW, IDENTIFIER_SHARE
from miscal.auditing.crossed import NEIGHBOURS, CrossedSums, SampledGroup, all_sums, neighbourhoods_of
from miscal.auditing.crossing import crossing_of
from miscal.auditing.document import document_of
from miscal.auditing.periods import check_streamed, period_carriers, stream_periods
from miscal.auditing.record import Audit
from miscal.auditing.search.finding import findings_of
from miscal.auditing.search.groups import NAMES, Group, Rows
from miscal.auditing.search.looking import Looked, test_columns
from miscal.auditing.search.parts import Part
from miscal.auditing.search.places import Tests
from miscal.carriers.summary import FieldSums, Summary, VariableSums
from miscal.carriers.tally import Tally
from miscal.data.columns import Column
from miscal.data.predictions import Predictions
from miscal.engines.crowd_search import Limits
from miscal.engines.keys import Profile
from miscal.engines.rows import Door
from miscal.engines.scan import SAMPLE, Runner, Scanned, scan
from miscal.inference.sums import Sums
from miscal.metrics.pooled import Noise
from miscal.metrics.streamed import (
    field_result,
    mended_scores,
    score_result,
    small_rows,
    stream_noise,
    variable_result,
)
from miscal.metrics.variable.curve import curve_of
from miscal.pairs import Pair
from miscal.pooling.bins import bin_index
from miscal.pooling.cells import Levels, Ranges
from miscal.results import Result

CURVE_POINTS = 100
MOST_LEVELS = 1_000_000  # of a field
CURVE_ROWS = 20_000
NOMINAL = ("category", "boolean")


@dataclass(frozen=True, eq=False)
class Seen:
    """A summary, and what only a scan has: rows of small levels, and a sample of rows."""

    summary: Summary
    sample: dict[str, np.ndarray]
    small: dict[str, dict[str, np.ndarray]]
    passes: int = 0
    crossed: CrossedSums | None = None


def summarise(
    runner: Runner,
    door: Door,
    *,
    by: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    like: Summary | None = None,
    most_levels: int = MOST_LEVELS,
    sample: int = SAMPLE,
    effort: str = "quick",
    random_state: int = 0,
    limits: Limits | None = None,
    time: str | None = None,
    every: str | None = None,
) -> Seen:
    """Scan a table into a summary, with the edges of another one if given; `effort` says what is crossed beside it."""
    names, aside = columns_of(runner, door, by, ignore)
    if time is not None:
        check_streamed(time, names, runner.kinds)
    asked = requests_timed(time, every) if time is not None else requests_of
    crossing = crossing_of(runner, door, names, effort, random_state, limits or Limits())
    scanned = scan(
        runner,
        door,
        variables=[name for name in names if runner.kinds[name] not in NOMINAL],
        fields=[name for name in names if runner.kinds[name] in NOMINAL],
        requests=asked if like is None else requests_like(like),
        most_levels=most_levels,
        sample=sample,
        mend=mended_scores,
        extra=None if crossing is None else crossing.tallies,
        beside=() if crossing is None else crossing.jobs,
    )
    seen = _seen(scanned, door, aside, explicit=bool(by))
    if crossing is None or not scanned.extra:
        return seen
    crowd = scanned.beside[0] if scanned.beside else None
    return replace(seen, crossed=CrossedSums(crossing, scanned.extra, crowd, runner, scanned.weighted))


def _seen(scanned: Scanned, door: Door, aside: list[dict[str, Any]], *, explicit: bool) -> Seen:
    variables, fields = {}, {}
    for name, each in scanned.variables.items():
        reason = None if explicit else _constant(each.profile, each.kind, scanned.rows)
        if reason:
            aside.append(set_aside(name, reason))
            continue
        parts = (each.tallies["bins"], each.tallies["fine"], each.beyond["fine"], each.totals)
        variables[name] = VariableSums(each.kind, *parts, each.walk, each.tallies.get("ties"))
    for name, found in scanned.fields.items():
        count = len(found.tally.cells.names)  # type: ignore[attr-defined]
        if not explicit and (count > max(FEW, IDENTIFIER_SHARE * scanned.rows) or found.tally.counts.size <= 1):
            aside.append(set_aside(name, "constant" if count <= 1 else f"an identifier: {count:,} levels"))
            continue
        assert found.beyond is not None
        fields[name] = FieldSums(found.tally, found.beyond)
    about = {
        "outcome": door.outcome,
        "probability": ", ".join(map(str, door.probabilities)),
        "probability_columns": [str(name) for name in door.probabilities],
        "weight_column": door.weight,
        "count_column": door.count,
        "target": scanned.target,
        "classes": list(scanned.classes),
    }
    summary = Summary(
        about,
        scanned.rows,
        scanned.ignored,
        scanned.score.tallies["bins"],
        scanned.sketch,
        scanned.score.totals,
        scanned.score.walk,
        variables,
        fields,
        tuple(aside),
        scanned.outcome_weights,
        ties=scanned.score.tallies.get("ties"),
    )
    small = {name: found.small for name, found in scanned.fields.items()}
    return Seen(summary, scanned.sample, small, scanned.passes)


def _constant(profile: Profile, kind: str, rows: int) -> str | None:
    if not profile.rows.size:
        return "all values are missing"
    if profile.distinct.size == 1 and not profile.missing:
        return "constant"
    if kind == "integer" and rows > FEW and not profile.missing and profile.high - profile.low + 1 == rows:
        return "an identifier: whole numbers that all differ" if profile.rows.max() <= 2 * rows else None
    return None


def audit_of(
    seen: Seen,
    *,
    level: float = 0.05,
    random_state: int = 0,
    source: str | None = None,
    settings: dict[str, Any] | None = None,
    time: str | None = None,
    every: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Audit:
    """The audit of a summary."""
    summary = seen.summary
    noise = stream_noise(outcome_weights=summary.outcome_weights)
    target = str(summary.about["target"])
    say("score")
    score = score_result(
        summary.score, summary.sketch, summary.walk, summary.totals, noise, target=target, random_state=random_state,
        ties=summary.ties,
    )  # fmt: skip
    rows = _rows(seen, noise)
    looked = Looked(target, "", rows, score)
    for name, each in summary.variables.items():
        say(name)
        looked.columns.append(_variable(name, each, seen, rows, target, random_state))
    for name, field in summary.fields.items():
        say(name)
        looked.columns.append(_field(name, field, seen, rows, target, random_state))
    tests = Tests(level)
    test_columns(looked, tests)
    assert looked.whole is not None
    looked.whole.raw = _sums(summary.totals)
    if looked.columns:
        beyond = looked.groups[0].beyond
        looked.whole.beyond = Sums(*(getattr(beyond, word).sum(keepdims=True) for word in NAMES))
    _search(looked, seen, tests, random_state, say)
    if time is not None:
        looked.further.append(stream_periods(summary, time, every, noise, level=level, random_state=random_state))
    heads = findings_of(looked, tests, random_state)
    heads.sort(key=lambda entry: -entry[0])
    found = [finding for _, items in heads for finding in items]
    document = _document(looked, seen, tests, found, level, random_state, source, settings or {})
    results = [score, *(result for _, result, _ in looked.columns), *looked.further]
    carriers = {"score": summary.score, **{f"{r.kind}:{c.name}": r.extra["tally"] for c, r, _ in looked.columns}}
    return Audit(document, found, results, carriers | period_carriers(looked.further))


def _search(looked: Looked, seen: Seen, tests: Tests, random_state: int, say: Callable[[str], None]) -> None:
    """Pairs and conjunctions, from what the second pass added."""
    if seen.crossed is not None and len(looked.columns) > 1:
        say("pairs of columns")
        seen.crossed.look_at_pairs(looked, tests)
        say("subpopulations")
        extra = seen.crossed.look_at_subpopulations(looked, tests, random_state)
        looked.further += [extra] if extra is not None else []
        if seen.crossed.crossing.deep and seen.sample:
            looked.further += neighbourhoods_of(looked, seen.sample, seen.summary.rows, tests, random_state, say)
        looked.places += [place for _, places in tests.searched.values() for place in places]
    tests.adjust()


def _document(
    looked: Looked,
    seen: Seen,
    tests: Tests,
    found: Sequence[Any],
    level: float,
    random_state: int,
    source: str | None,
    settings: dict[str, Any],
) -> dict[str, Any]:
    summary, sampled = seen.summary, looked.rows.raw
    stated = {
        "level": level,
        "effort": "quick" if seen.crossed is None else "deep" if seen.crossed.crossing.deep else "normal",
        "random_state": random_state,
        "target": str(summary.about["target"]),
        "tests": tests.total,
        "families": {name: tests.size(name) for name in tests.names},
        "stream": {
            "passes": seen.passes if seen.crossed is None else seen.crossed.runner.passes,
            "sample_rows": int(sampled.rows) if seen.sample else 0,
            "tables": summary.parts,
            **_crossed_words(seen),
        },
    }
    words = ("outcome", "probability", "probability_columns", "weight_column")
    about = {word: summary.about[word] for word in words if word in summary.about}
    described = {"source": source, **about, "cluster": None}
    stand_in = Predictions(np.array([0, 1]), np.array([0.5, 0.5]))
    aside = [{**entry, "rows": summary.rows} for entry in summary.aside]
    made = document_of(stand_in, [looked], found, aside, tests, stated | settings, described)
    made["data"] |= {"rows": summary.rows, "fingerprint": summary.fingerprint}
    made["data"].pop("rows_fingerprint", None)
    return made


def _crossed_words(seen: Seen) -> dict[str, Any]:
    if seen.crossed is None:
        return {"left_out": "pairs of columns, subpopulations and neighbourhoods"}
    crossing = seen.crossed.crossing
    return {
        "pairs_crossed": len(crossing.pairs),
        "pairs_left_out": len(crossing.skipped),
        "subpopulations": len(crossing.definitions),
        "chosen_on_rows": crossing.rows,
        **({"neighbourhoods_of_rows": NEIGHBOURS} if crossing.deep else {"left_out": "neighbourhoods"}),
    }


def _sums(tally: Tally) -> Sums:
    """The first cell's sums as arrays of one entry."""
    return Sums(*(np.asarray(getattr(tally, word), dtype=np.float64)[:1] for word in NAMES))


def _rows(seen: Seen, noise: Noise) -> Rows:
    """The sample, each row standing for as many as it was taken from; one row stands in where there is none."""
    sample = seen.sample
    if not sample:
        one = Pair(np.array([0.5]), np.array([0], np.uint8), count=np.ones(1, np.int64))
        one = one if not seen.summary.totals.weighted else replace(one, weight=np.ones(1))
        return Rows(one, one, noise)
    step = max(1, round(seen.summary.rows / sample["predicted"].size))
    count = np.full(sample["predicted"].size, step, np.int64)
    if "count" in sample:
        count = count * sample["count"]
    raw = Pair(sample["predicted"], sample["observed"], sample.get("weight"), count)
    return Rows(raw, replace(raw, predicted=sample["mended"]), noise)


def _variable(
    name: str, each: VariableSums, seen: Seen, rows: Rows, target: str, random_state: int
) -> tuple[Column, Result, Group]:
    values = seen.sample.get(f"v:{name}", np.full(rows.raw.rows, np.nan))
    column = Column(name, "date" if each.kind == "date" else "numeric", values, integer=each.kind == "integer")
    result = variable_result(
        name, each.bins, each.walk, each.totals, rows.noise, kind=each.kind, target=target, random_state=random_state,
        extra=_curve(seen, values, random_state), ties=each.ties,
    )  # fmt: skip
    cells = each.fine.cells
    assert isinstance(cells, Ranges)
    codes = bin_index(np.nan_to_num(values), cells.edges).astype(np.int16)
    codes[np.isnan(values)] = cells.count - 1
    part = Part(column, codes, (), cells.edges, cells.missing)
    raw = all_sums(each.fine)
    group = SampledGroup((part,), result.kind, raw, all_sums(each.beyond), rows.p_values(raw))
    ends = result.extra.get("range")
    if ends is not None:
        low, high = bin_index(np.asarray(ends, dtype=np.float64), cells.edges).tolist()
        start = low + 1 if low < high and ends[0] > cells.edges[1] else low
        group.walk = float(result.p_value), int(start), int(high)
    return column, result, group


def _curve(seen: Seen, values: np.ndarray, random_state: int) -> dict[str, Any]:
    """The smooth curves along a variable, from the sample of rows, as the result says."""
    known = np.flatnonzero(~np.isnan(values))
    if not seen.sample or known.size < 100:
        return {}
    known = known[:: max(1, known.size // CURVE_ROWS)]
    sample = seen.sample
    pair = Pair(sample["predicted"][known], sample["observed"][known])
    if "weight" in sample:
        pair = replace(pair, weight=sample["weight"][known])
    smooth = curve_of(pair, values[known], {"grid": CURVE_POINTS, "random_state": random_state})
    return {"curve": smooth.frame(), "curve_rows": int(known.size)}


def _field(
    name: str, each: FieldSums, seen: Seen, rows: Rows, target: str, random_state: int
) -> tuple[Column, Result, Group]:
    cells = each.tally.cells
    assert isinstance(cells, Levels)
    codes = seen.sample.get(f"f:{name}", np.zeros(rows.raw.rows, np.int64))
    known = np.where(codes < len(cells.names), codes, -1).astype(np.int32)
    column = Column(name, "category", known, tuple(cells.names))
    small = small_rows(each.tally, seen.small.get(name, {}))
    result = field_result(name, each.tally, rows.noise, small, target=target, random_state=random_state)
    part = Part(column, codes, tuple(cells.names), None, cells.missing)
    p_value = np.asarray(result.table["p_value"], dtype=float)
    return column, result, SampledGroup((part,), "field", all_sums(each.tally), all_sums(each.beyond), p_value)
