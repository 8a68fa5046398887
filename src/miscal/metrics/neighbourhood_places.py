"""Where neighbourhoods are: the features that make rows near, and the worst neighbourhoods in words.

The worst are listed one after another, none sharing rows with another, each described by the columns in which its rows
differ most from all rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from miscal.cells.coding import Encoding, mean_and_spread
from miscal.data.arrays import Array, Floats, Plain
from miscal.data.checks import check_lengths, one_of, whole
from miscal.data.columns import Column, Columns
from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.metrics.neighbourhood_errors import Neighbourhoods, feature_matrix
from miscal.results import Table
from miscal.stats.neighbourhood_null import LocalGaps, LocalNull

TABULAR = 20  # principal components where no number is asked for: the paper's for tables
MOST_LEVELS = 50  # of a category; the rarer ones are one level together
ENDS = (-1e90, 1e90)  # features beyond are held there: sums of their distances stay finite


def nearness(columns: Sequence[Column], weight: Floats | None, scale: str | None) -> list[Encoding]:
    """What each column contributes to nearness, learned from some rows.

    A missing number takes the mean; where the rows learned from miss some it is 1 away from those that are there.
    Levels are 1 apart, and those not seen away from all.
    """
    options: Plain = {"filled": True, "standard": scale == "standard", "ends": ENDS}
    return [Encoding.learned(column, weight, **options) for column in columns]


def features_of(encodings: Sequence[Encoding], columns: Columns, *, even: bool = True) -> Floats:
    """Features of rows: numbers, and half-height indicators of levels.

    `even`: multiplied so that the kernel's number of dimensions is that of the columns.
    """
    parts: list[Array] = []
    for encoding in encodings:
        values, levels = encoding.read(columns), len(encoding.levels)
        if not encoding.nominal:
            parts += encoding.scaled(values)[: 1 + encoding.missing]
        elif levels <= 2:  # one column of 0 and 1; an unseen level lies between, half a level from both
            parts.append(np.where(values < 0, 0.5, values))
        else:
            parts += [0.5 * (values == level) for level in range(levels)]
    features = np.column_stack(parts)
    factor = features.shape[1] / len(encodings) if even else 1.0
    return features if factor == 1.0 else features * factor


def width_of(encodings: Sequence[Encoding]) -> int:
    """How many features the columns give."""
    return sum(
        (1 if len(encoding.levels) <= 2 else len(encoding.levels))
        if encoding.nominal
        else 1 + encoding.missing
        for encoding in encodings
    )


def components(matrix: Array, wanted: int, weight: Array | None) -> tuple[Array, Array, float]:
    """Centre, leading principal directions (d, wanted), and the share of variance they hold.

    The sign of a direction is that of its largest loading.
    """
    centre = np.average(matrix, axis=0, weights=weight)
    off = matrix - centre
    scaled = off if weight is None else off * weight[:, None]
    values, vectors = np.linalg.eigh(scaled.T @ off)
    leading = vectors[:, ::-1][:, :wanted]
    largest = leading[np.abs(leading).argmax(axis=0), np.arange(leading.shape[1])]
    variances = np.maximum(values[::-1], 0.0)
    total = variances.sum()
    share = variances[:wanted].sum() / total if total > 0 else 1.0
    return centre, np.ascontiguousarray(leading * np.where(largest < 0, -1.0, 1.0)), share


def check_reduction(reduce: Any, dimensions: Any) -> None:
    """Refuse unknown reductions and numbers of dimensions."""
    if reduce not in (None, "pca"):
        hint = "to use another map, give its coordinates as numbers"
        raise refusal("must be None or 'pca'", "'reduce'", got=f"it is {reduce!r}", hint=hint)
    if dimensions is not None and whole("dimensions", dimensions, 1) and reduce is None:
        got, hint = "'reduce' is None", "use reduce='pca'"
        raise refusal("needs a reduction", "'dimensions'", got=got, hint=hint)


def feature_map(
    p: Predictions,
    chosen: Any,
    weight: Floats | None,
    reduce: str | None,
    dimensions: int | None,
    scale: str | None,
) -> tuple[Array, str, list[str]]:
    """Features (n, d) of named columns, or of an array, reduced where asked; in words how, and the columns' names."""
    check_reduction(reduce, dimensions)
    if scale is not None:
        one_of("scale", scale, ("standard",))
    names: list[str] = []
    if chosen is None:
        chosen = list(p.columns)
    elif isinstance(chosen, str):
        chosen = [chosen]
    if isinstance(chosen, (list, tuple)) and all(isinstance(item, str) for item in chosen):
        names = list(chosen)
        if not names:
            raise refusal("must name at least one column", "'columns'", got="there are none")
        pooled, words = _pooled({name: p.columns.find(name) for name in names}, scale)
        features = features_of(nearness([*pooled.values()], weight, scale), pooled, even=reduce is None)
    else:
        features = feature_matrix(chosen, "'columns'")
        check_lengths({"the predictions": p, "'columns'": features})
        words = f"{features.shape[1]} given features"
        if scale == "standard":
            mean, spread = np.transpose(
                [mean_and_spread(feature.clip(*ENDS), weight) for feature in features.T]
            )
            features, words = (features - mean) / spread, f"{words}, standardised"
    if reduce is not None:
        wanted = min(dimensions or TABULAR, features.shape[1])
        centre, directions, share = components(features, wanted, None)
        features = (features - centre) @ directions
        words += f"; {wanted} principal components with {share:.0%} of the variance"
    return np.ascontiguousarray(features), words, names


def _pooled(columns: Mapping[str, Column], scale: str | None) -> tuple[Columns, str]:
    """The columns, of categories the levels beyond the commonest taken together, and what is said of them."""
    common, rare = dict(columns), []
    for name, column in columns.items():
        known = column.values[column.values >= 0] if column.nominal else np.empty(0, np.int64)
        counts = np.bincount(known, minlength=len(column.levels))
        if np.count_nonzero(counts) > MOST_LEVELS:
            commonest = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
            place = np.full(len(column.levels) + 1, MOST_LEVELS)
            place[commonest], place[-1] = np.arange(MOST_LEVELS), -1
            levels = (*(column.levels[code] for code in commonest), "the others")
            common[name] = replace(column, values=place[column.values], levels=levels)
            rare.append(name)
    words = f"{len(columns)} columns" + (f" ({', '.join(columns)})" if len(columns) <= 6 else "")
    words += ", numbers standardised" if scale == "standard" else ", numbers as they are"
    if rare:
        words += f", levels of {', '.join(rare)} beyond the {MOST_LEVELS} commonest taken together"
    return Columns(common), words


LISTED = 10
REAL = 0.05
LOOKED_AT = 1000  # candidates, from the worst, before the list is taken to be complete
CORE = 0.5  # share of the kernel's mass that a neighbourhood's core holds
NAMED = 3  # columns named at most
LEAST = 0.15  # of all rows, by which a column must set a neighbourhood apart to be named
INNER = (0.1, 0.9)  # the part of a neighbourhood's values that is given as its range
COLUMNS = (
    "label",
    "score_low",
    "score_high",
    "rows",
    "effective_rows",
    "predicted",
    "observed",
    "gap",
    "gap_beyond_score",
    "events_off",
    "gap_low",
    "gap_high",
    "standard_error",
    "deviations",
    "p_adjusted",
    "centre",
    "specific",
)


def worst_table(
    problem: Neighbourhoods,
    local: LocalGaps,
    noise: LocalNull,
    columns: Mapping[str, Column],
    recalibrated: Array,
) -> Table:
    """The worst of the tested centres, at most ten; the core of each is disjoint from those before it."""
    centres, adjusted, critical = noise.centres, noise.adjusted, noise.tested.quantile
    z, error = local.z[centres], local.error[centres]
    weight, units = problem.weight, problem.pair.units
    rows: list[Plain] = []
    taken = np.zeros(problem.pair.rows, bool)
    for place in np.argsort(-np.abs(z), kind="stable")[:LOOKED_AT]:
        cell = problem.cells[centres[place]]
        inside = np.flatnonzero(problem.cells == cell)
        weights = problem.weights(centres[place : place + 1], inside)[0]
        share = weights * weight[inside]
        core = _core(weights, share)
        if taken[inside[core]].any():
            continue
        taken[inside[core]] = True
        row = _row(problem, inside, weights, core, recalibrated)
        left, reach = abs(row.pop("deviations_beyond")) >= critical, critical * error[place]
        row |= {
            "label": described(columns, inside, share, weight),
            "score_low": units.back(problem.edges[cell]),
            "score_high": units.back(problem.edges[cell + 1]),
            "gap_low": row["gap"] - reach,
            "gap_high": row["gap"] + reach,
            "standard_error": error[place],
            "deviations": z[place],
            "p_adjusted": adjusted[place],
            "centre": centres[place],
            "specific": left and adjusted[place] <= REAL,
        }
        rows.append(row)
        if len(rows) == LISTED:
            break
    return Table(units.of_cells({name: [row_values[name] for row_values in rows] for name in COLUMNS}))


def _core(weights: Array, share: Array) -> Array:
    """Which rows are nearest and together hold half of the kernel's mass; rows as near as the last are in."""
    order = np.argsort(-weights, kind="stable")
    cumulative_share = np.cumsum(share[order])
    last = order[min(int(np.searchsorted(cumulative_share, CORE * cumulative_share[-1])), order.size - 1)]
    return np.asarray(weights >= weights[last] * (1.0 - 1e-12))


def _row(problem: Neighbourhoods, inside: Array, weights: Array, near: Array, recalibrated: Array) -> Plain:
    pair = problem.pair.take(inside)
    first, second = pair.all_weights
    share, squared_share = weights * first, weights**2 * second
    mass, expected = share.sum(), recalibrated[inside]
    off, left = pair.predicted - pair.observed, expected - pair.observed
    variance = squared_share @ (expected * (1.0 - expected) if pair.binary else left**2)
    return {
        "rows": pair.trials()[near].sum(),
        "effective_rows": mass**2 / squared_share.sum(),
        "predicted": share @ pair.predicted / mass,
        "observed": share @ pair.observed / mass,
        "gap": share @ off / mass,
        "gap_beyond_score": share @ left / mass,
        "deviations_beyond": share @ left / np.sqrt(variance) if variance > 0 else 0.0,
        "events_off": (first * off)[near].sum(),
    }


def described(columns: Mapping[str, Column], inside: Array, share: Array, weight: Array) -> str:
    """What sets the rows `inside`, weighted by `share`, apart from all rows, weighted by `weight`."""
    differences = [
        (_levels if column.nominal else _numbers)(column, inside, share, weight)
        for column in columns.values()
    ]
    large = sorted((column for column in differences if column[0] >= LEAST), key=lambda column: -column[0])
    return ", ".join(words for _, words in large[:NAMED]) or "much like the rows as a whole"


def _often(subject: str, there: float, everywhere: float) -> tuple[float, str]:
    """By how much the share of something here differs from that of all rows, and that in words."""
    often = "more" if there > everywhere else "less"
    return abs(there - everywhere), f"{subject} {often} often ({there:.0%} against {everywhere:.0%})"


def _levels(column: Column, inside: Array, share: Array, weight: Array) -> tuple[float, str]:
    """By how much the share of the level that differs most does, and that in words."""
    missing = len(column.levels)
    codes = np.where(column.values < 0, missing, column.values)
    there = np.bincount(codes[inside], share, missing + 1) / share.sum()
    everywhere = np.bincount(codes, weight, missing + 1) / weight.sum()
    # Of two levels that mirror each other the first.
    place = int(np.argmax(np.round(np.abs(there - everywhere), 9)))
    level = f"{column.name} {column.show(place if place < missing else -1)}"
    difference, words = _often(level, there[place], everywhere[place])
    return difference, level if there[place] >= 0.995 else words


def _numbers(column: Column, inside: Array, share: Array, weight: Array) -> tuple[float, str]:
    """The share of all rows that the range here leaves out beyond its own tails, and the range in words."""
    values, here, known_rows = column.values, column.values[inside], ~column.missing
    known = known_rows[inside]
    everywhere = weight[known_rows].sum()
    gone_here = 1.0 - share[known].sum() / share.sum()
    gone = 1.0 - everywhere / weight.sum()
    if abs(gone_here - gone) >= max(LEAST, 0.5 * max(gone_here, gone)) or not known.any():
        return _often(f"{column.name} missing", gone_here, gone)
    low, high = np.quantile(here[known], INNER, weights=share[known], method="inverted_cdf")
    below, above = (weight[outside].sum() / everywhere for outside in (values < low, values > high))
    word = "middling"
    if below > 2.0 * above:
        word = "high"
    elif above > 2.0 * below:
        word = "low"
    spread = " to ".join(dict.fromkeys([_shown(low, column), _shown(high, column)]))
    return below + above - (1.0 - (INNER[1] - INNER[0])), f"{word} {column.name} ({spread})"


def _shown(value: float, column: Column) -> str:
    """One value for people."""
    digits = ".0f" if column.integer or abs(value) >= 1000 else ".3g"
    return column.type.value_text(value, lambda number: f"{number:{digits}}")
