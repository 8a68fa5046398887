"""What a reader should know before trusting the noise: rows that err together."""

from __future__ import annotations

import numpy as np

from miscal.auditing.search.looking import Looked

LEAST_DAYS, LEAST_ROWS = 20, 5  # days, and rows a day, from which it can be seen
LEAST_EACH = 20  # rows a cell from which it is no accident that all have the same outcome
TOGETHER = 2.0  # times the variance of independent rows
GIVEN_AWAY = "gives the outcome away"  # tells the outcome of small cells too, so it is suppressed with them


def notes_of(looked: Looked) -> list[str]:
    """What is odd about the table: scores that run the wrong way, columns that give the outcome away, days that err."""
    made = [*_upside_down(looked), *_given_away(looked)]
    if looked.rows.raw.cluster is not None:
        return made
    for column, _, _ in looked.columns:
        if column.kind != "date" or len(column) != looked.rows.raw.rows:
            continue
        times = together(looked, np.asarray(column.values, dtype=np.float64))
        if times >= TOGETHER:
            made.append(
                f"Rows of one day of {column.name} err together: daily sums vary {times:.0f} times as much as those of "
                "independent rows. Beyond noise means beyond the noise of these rows; for what will hold on other "
                f"days, audit with {column.name} as the cluster."
            )
    return made


def _upside_down(looked: Looked) -> list[str]:
    """Scores that fall where events become more frequent, beyond noise: most often a column of the other class."""
    if not float(looked.score.extra["slope"]["interval"][1]) < 0.0:
        return []
    text = "The higher the score, the fewer events: the slope is below 0 beyond noise. "
    return [text + "Is this the probability of the other class, or is the event the other label?"]


def _given_away(looked: Looked) -> list[str]:
    """Columns each of whose levels or ranges has one outcome only, and not all the same."""
    made = []
    for column, result, _ in looked.columns:
        rows, observed = np.asarray(result.table["rows"]), np.asarray(result.table["observed"], dtype=np.float64)
        filled = rows > 0
        seen = set(observed[filled].tolist())
        if seen == {0.0, 1.0} and rows.sum() >= LEAST_EACH * filled.sum():
            made.append(
                f"{column.name} {GIVEN_AWAY}: every value of it goes with one outcome only. No model can "
                "know it; if it was written after the outcome, leave it out, and if it is a sampling weight, say so."
            )
    return made


def together(looked: Looked, days: np.ndarray) -> float:
    """Variance of sums over days, of what is left beyond the score, relative to that of independent rows."""
    pair = looked.rows.beyond
    known = ~np.isnan(days)
    if not known.any():
        return 0.0
    code = (np.floor(days[known]) - np.floor(days[known].min())).astype(np.int64)
    weight = np.ones(pair.rows) if pair.first is None else pair.first
    second = weight if pair.second is None else pair.second
    predicted = pair.predicted[known]
    rows = np.bincount(code)
    full = np.count_nonzero(rows)
    if full < LEAST_DAYS or known.sum() < LEAST_ROWS * full:
        return 0.0
    sums = np.bincount(code, weight[known] * (predicted - pair.observed[known]))
    size = np.bincount(code, weight[known])
    sums -= size * (sums.sum() / size.sum())
    noise = float(np.sum(second[known] * predicted * (1.0 - predicted)))
    return float(np.sum(sums * sums)) / max(noise, 1e-300)
