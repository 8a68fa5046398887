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
    for each in encodings:
        values, levels = each.read(columns), len(each.levels)
        if not each.nominal:
            parts += each.scaled(values)[: 1 + each.missing]
        elif levels <= 2:  # one column of 0 and 1; an unseen level lies between, half a level from both
            parts.append(np.where(values < 0, 0.5, values))
        else:
            parts += [0.5 * (values == level) for level in range(levels)]
    made = np.column_stack(parts)
    factor = made.shape[1] / len(encodings) if even else 1.0
    return made if factor == 1.0 else made * factor


def width_of(encodings: Sequence[Encoding]) -> int:
    """How many features the columns give."""
    return sum(
        (1 if len(each.levels) <= 2 else len(each.levels)) if each.nominal else 1 + each.missing
        for each in encodings
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
    held = np.maximum(values[::-1], 0.0)
    total = held.sum()
    share = held[:wanted].sum() / total if total > 0 else 1.0
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
        made = features_of(nearness([*pooled.values()], weight, scale), pooled, even=reduce is None)
    else:
        made = feature_matrix(chosen, "'columns'")
        check_lengths({"the predictions": p, "'columns'": made})
        words = f"{made.shape[1]} given features"
        if scale == "standard":
            mean, spread = np.transpose([mean_and_spread(each.clip(*ENDS), weight) for each in made.T])
            made, words = (made - mean) / spread, f"{words}, standardised"
    if reduce is not None:
        wanted = min(dimensions or TABULAR, made.shape[1])
        centre, directions, share = components(made, wanted, None)
        made = (made - centre) @ directions
        words += f"; {wanted} principal components with {share:.0%} of the variance"
    return np.ascontiguousarray(made), words, names


def _pooled(columns: Mapping[str, Column], scale: str | None) -> tuple[Columns, str]:
    """The columns, of categories the levels beyond the commonest taken together, and what is said of them."""
    common, rare = dict(columns), []
    for name, each in columns.items():
        known = each.values[each.values >= 0] if each.nominal else np.empty(0, np.int64)
        counts = np.bincount(known, minlength=len(each.levels))
        if np.count_nonzero(counts) > MOST_LEVELS:
            kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
            place = np.full(len(each.levels) + 1, MOST_LEVELS)
            place[kept], place[-1] = np.arange(MOST_LEVELS), -1
            levels = (*(each.levels[code] for code in kept), "the others")
            common[name] = replace(each, values=place[each.values], levels=levels)
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
    problem: Neighbourhoods, local: LocalGaps, noise: LocalNull, columns: Mapping[str, Column], beyond: Array
) -> Table:
    """The worst of the tested centres, at most ten; the core of each is disjoint from those before it."""
    centres, adjusted, critical = noise.centres, noise.adjusted, noise.tested.quantile
    z, error = local.z[centres], local.error[centres]
    weight, units = problem.weight, problem.pair.units
    found: list[Plain] = []
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
        row = _row(problem, inside, weights, core, beyond)
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
        found.append(row)
        if len(found) == LISTED:
            break
    return Table(units.of_cells({name: [each[name] for each in found] for name in COLUMNS}))


def _core(weights: Array, share: Array) -> Array:
    """Which rows are nearest and together hold half of the kernel's mass; rows as near as the last are in."""
    order = np.argsort(-weights, kind="stable")
    held = np.cumsum(share[order])
    last = order[min(int(np.searchsorted(held, CORE * held[-1])), order.size - 1)]
    return np.asarray(weights >= weights[last] * (1.0 - 1e-12))


def _row(problem: Neighbourhoods, inside: Array, weights: Array, near: Array, beyond: Array) -> Plain:
    pair = problem.pair.take(inside)
    first, second = pair.weights
    share, own = weights * first, weights**2 * second
    mass, expected = share.sum(), beyond[inside]
    off, left = pair.predicted - pair.observed, expected - pair.observed
    variance = own @ (expected * (1.0 - expected) if pair.binary else left**2)
    return {
        "rows": pair.repeats()[near].sum(),
        "effective_rows": mass**2 / own.sum(),
        "predicted": share @ pair.predicted / mass,
        "observed": share @ pair.observed / mass,
        "gap": share @ off / mass,
        "gap_beyond_score": share @ left / mass,
        "deviations_beyond": share @ left / np.sqrt(variance) if variance > 0 else 0.0,
        "events_off": (first * off)[near].sum(),
    }


def described(columns: Mapping[str, Column], inside: Array, share: Array, weight: Array) -> str:
    """What sets the rows `inside`, weighted by `share`, apart from all rows, weighted by `weight`."""
    found = [
        (_levels if each.nominal else _numbers)(each, inside, share, weight) for each in columns.values()
    ]
    large = sorted((each for each in found if each[0] >= LEAST), key=lambda each: -each[0])
    return ", ".join(words for _, words in large[:NAMED]) or "much like the rows as a whole"


def _often(what: str, there: float, everywhere: float) -> tuple[float, str]:
    """By how much the share of something here differs from that of all rows, and that in words."""
    often = "more" if there > everywhere else "less"
    return abs(there - everywhere), f"{what} {often} often ({there:.0%} against {everywhere:.0%})"


def _levels(each: Column, inside: Array, share: Array, weight: Array) -> tuple[float, str]:
    """By how much the share of the level that differs most does, and that in words."""
    missing = len(each.levels)
    codes = np.where(each.values < 0, missing, each.values)
    there = np.bincount(codes[inside], share, missing + 1) / share.sum()
    everywhere = np.bincount(codes, weight, missing + 1) / weight.sum()
    # Of two levels that mirror each other the first.
    place = int(np.argmax(np.round(np.abs(there - everywhere), 9)))
    level = f"{each.name} {each.show(place if place < missing else -1)}"
    apart, words = _often(level, there[place], everywhere[place])
    return apart, level if there[place] >= 0.995 else words


def _numbers(each: Column, inside: Array, share: Array, weight: Array) -> tuple[float, str]:
    """The share of all rows that the range here leaves out beyond its own tails, and the range in words."""
    values, here, seen = each.values, each.values[inside], ~each.missing
    known = seen[inside]
    everywhere = weight[seen].sum()
    gone_here = 1.0 - share[known].sum() / share.sum()
    gone = 1.0 - everywhere / weight.sum()
    if abs(gone_here - gone) >= max(LEAST, 0.5 * max(gone_here, gone)) or not known.any():
        return _often(f"{each.name} missing", gone_here, gone)
    low, high = np.quantile(here[known], INNER, weights=share[known], method="inverted_cdf")
    below, above = (weight[beyond].sum() / everywhere for beyond in (values < low, values > high))
    word = "middling"
    if below > 2.0 * above:
        word = "high"
    elif above > 2.0 * below:
        word = "low"
    spread = " to ".join(dict.fromkeys([_shown(low, each), _shown(high, each)]))
    return below + above - (1.0 - (INNER[1] - INNER[0])), f"{word} {each.name} ({spread})"


def _shown(value: float, each: Column) -> str:
    """One value for people."""
    digits = ".0f" if each.integer or abs(value) >= 1000 else ".3g"
    return each.type.value_text(value, lambda number: f"{number:{digits}}")
