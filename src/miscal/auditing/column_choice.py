"""Which columns an audit tests, which it excludes and why, and which are keys whose rows are not independent.

Outcome and probability are taken from the table where the user does not name them and one choice is left (`guessed`).
The rule: a reason is a code (`ExclusionReason`), a new one needs its words and, in `exclusions`, its remedy.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miscal.aggregate.source import Source
from miscal.codes.audit import ExclusionReason, Reason
from miscal.codes.data import ColumnKind
from miscal.data.arrays import Array, named_by
from miscal.data.columns import Column, Columns
from miscal.data.errors import check_named, parameter, refusal
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData
from miscal.report.model import Excluded

# A column with more distinct levels than this share of the rows names rows, not groups.
IDENTIFIER_SHARE = 0.5
#: Reasons of columns that may be keys whose rows are not independent.
IDENTIFIERS = (ExclusionReason.IDENTIFIER_LEVELS, ExclusionReason.IDENTIFIER_NUMBERS)
Names = Sequence[str]  # of columns
FEW = 50  # rows or levels below which nothing is taken for an identifier
NAMED = re.compile(
    r"(^|[_\W])(id|ids|index|uuid|guid|key|row|rownum|number|nbr|nr)($|[_\W\d])", re.IGNORECASE
)

# Names that pandas gives to an index when it is written as a column.
PANDAS = re.compile(r"(Unnamed: ?\d+(_level_\d+)?|__index_level_\d+__|level_\d+)?")
APART = 1e-6  # scores nearer than this may have become one in a copy


def asked_columns(
    by: Names | str | None, ignore: Names | str, time: str | None, **roles: Any
) -> tuple[list[str] | None, list[str]]:
    """The columns to look at and to leave out, as lists; one name alone counts as a list of it.

    Refuses a column that plays a part already, and one that is both asked for and left out.
    """
    wanted, unwanted = None if by is None else named(by), named(ignore)
    taken = {name: role for role, columns in reversed(roles.items()) for name in named(columns)}
    for word, names in (("by", wanted or []), ("ignore", unwanted), ("time", named(time))):
        for name in names:
            if name in taken:
                got = f"column '{name}' is '{taken[name]}' already"
                raise refusal("names one of the other columns", f"'{word}'", got=got)
    for name in wanted or ():
        if name in unwanted:
            raise refusal("leaves out what 'by' asks for", "'ignore'", got=f"both name column '{name}'")
    return wanted, unwanted


def named(columns: Any) -> list[str]:
    """Names of columns given as one, several, or by class."""
    if columns is None:
        return []
    if isinstance(columns, str):
        return [columns]
    return [str(name) for name in (columns.values() if isinstance(columns, Mapping) else columns)]


def usable_columns(source: Source, roles: Any, by: Names | None, ignore: Names) -> list[str]:
    """The columns of a table to audit: those named in `by`, or all that are usable; rejects unknown names."""
    known = [name for name in source.kinds if name not in roles.names]
    source.check_columns([name for name, _ in source.excluded if name in (by or ())])
    excluded = dict(source.excluded)
    check_named((name for name in (*(by or ()), *ignore) if name not in excluded), known, "the data")
    unwanted = {*ignore, *source.unusable} if by is None else {*ignore, *known}.difference(by)
    return [name for name in known if name not in unwanted]


def chosen_columns(
    predictions: Predictions,
    by: Names | None,
    ignore: Names,
    max_levels: int,
    *,
    constants: bool = False,
) -> tuple[list[Column], list[Excluded]]:
    """The columns to audit, and those that are excluded; `constants` keeps those of one value."""
    known = predictions.columns
    check_named(by or (), known, "the data")
    chosen, excluded = [], []
    for column in (known[name] for name in (known if by is None else by) if name not in ignore):
        reason = None
        if len(column.levels) > max_levels:
            reason = Reason(ExclusionReason.TOO_MANY_LEVELS, {"limit": max_levels})
        elif by is None:
            reason = reason_excluded(column) or reason_copied(column, predictions)
        if reason and not (constants and reason.code == ExclusionReason.CONSTANT):
            excluded.append(Excluded(column.name, predictions.rows, reason))
        else:
            chosen.append(column)
    return chosen, excluded


def is_constant(column: Column) -> bool:
    """Whether a column has one value only, and none is missing."""
    if column.nominal:
        return len(column.levels) <= 1 and not column.missing.any()
    known = column.values[~np.isnan(column.values)]
    return bool(known.size == len(column) > 0 and known.min() == known.max())


def is_identifier(column: Column) -> bool:
    """Whether a column names rows: almost as many levels as rows, or whole numbers that all differ."""
    if column.nominal:
        return len(column.levels) > max(FEW, IDENTIFIER_SHARE * len(column))
    known = column.values[~np.isnan(column.values)]
    if not column.integer or known.size == 0 or is_constant(column):
        return False
    span = known.max() - known.min() + 1
    is_named = span == known.size or NAMED.search(column.name) is not None
    return bool(FEW < known.size <= span and is_named and np.unique(known).size == known.size)


def reason_excluded(column: Column) -> Reason | None:
    """Why a column says nothing about groups: it is constant, names the rows, or is the index of a frame.

    >>> from miscal.data.columns import column
    >>> reason_excluded(column("year", [2013, 2013])).code
    <ExclusionReason.CONSTANT: 'constant'>
    """
    if is_identifier(column):
        if column.nominal:
            return Reason(ExclusionReason.IDENTIFIER_LEVELS, {"levels": len(column.levels)})
        return Reason(ExclusionReason.IDENTIFIER_NUMBERS)
    if is_constant(column):
        return Reason(ExclusionReason.CONSTANT)
    if column.nominal:
        return None
    if np.isnan(column.values).all():
        return Reason(ExclusionReason.ALL_MISSING)
    if column.integer and PANDAS.fullmatch(column.name):
        return Reason(ExclusionReason.PANDAS_INDEX)
    return None


def reason_copied(column: Column, predictions: Predictions) -> Reason | None:
    """Why a column is the outcome or the score once more; None for all others, and for tables too small to tell."""
    outcome, score, values = predictions.outcome, predictions.probability, column.values
    if predictions.rows <= FEW or column.missing.any():
        return None
    if score.ndim > 1:
        if not (column.nominal or column.integer):
            return None
        texts, names = _texts(column), np.array([*map(str, predictions.classes)], object)
        if np.array_equal(texts, names[outcome]):
            return Reason(ExclusionReason.OUTCOME_COPY)
        predicted = np.array_equal(texts, names[np.argmax(score, axis=1)])
        return Reason(ExclusionReason.PREDICTED_CLASS) if predicted else None
    if len(column.levels) <= 2 and np.unique(values[:FEW]).size <= 2 and np.unique(values).size == 2:
        second = values == values.max()
        if np.array_equal(second, outcome > 0) or np.array_equal(second, outcome <= 0):
            plain = column.nominal or set(np.unique(values).tolist()) == {0.0, 1.0}
            copy, copy_or_weight = ExclusionReason.OUTCOME_COPY, ExclusionReason.OUTCOME_COPY_OR_WEIGHT
            return Reason(copy if plain else copy_or_weight)
        cut = separated(second, score)
        fields = {"low": cut[0], "high": cut[1]} if cut else {}
        return Reason(ExclusionReason.SCORE_THRESHOLD, fields) if cut else None
    if column.nominal:
        return None
    # It rises, or falls, wherever the score does; some rows are tried first.
    for rows in (slice(0, FEW), slice(None)):
        order = np.argsort(score[rows], kind="stable")
        apart = np.diff(score[rows][order]) > APART
        steps = np.diff(values[rows][order])[apart]
        if steps.size < FEW // 5 or not (np.all(steps > 0) or np.all(steps < 0)):
            return None
    return Reason(ExclusionReason.SCORE_COPY)


def separated(second: Array, score: Array) -> tuple[float, float] | None:
    """The two scores between which a column that has two values changes; None where that is not at one place.

    >>> separated(np.array([False, True, True]), np.array([0.1, 0.6, 0.9]))
    (0.1, 0.6)
    """
    high, low = score[second], score[~second]
    for below, above in ((low, high), (high, low)):
        last, first = float(below.max()), float(above.min())
        if last < first:
            return last, first
    return None


MAX_KEY_ROWS = 200_000  # that are read, from the start: the rows of a key often stand together
MIN_KEYS, MIN_KEYS_FOR_ERRORS = 20, 100  # keys of two rows or more, to compare outcomes and errors
MAX_ROWS_PER_KEY = 100  # on average: above it, a key is a group
# Share of keys whose outcomes agree, where chance would make at most the second share of them agree.
MIN_AGREEING, MAX_AGREEING_BY_CHANCE = 0.98, 0.8
MIN_RATIO_Z, MIN_VARIANCE_RATIO = 5.0, 1.25  # from which errors are correlated within keys


def suggested(compared: TargetData, columns: Sequence[Column]) -> tuple[str, str] | None:
    """The coarsest key whose rows share an outcome, else the one whose rows err most alike; None where there is none.

    Given as its name and a note on what to do about it.

    Parameters
    ----------
    compared : TargetData
        After global recalibration.
    """
    first_rows = compared.take(slice(MAX_KEY_ROWS))
    keys = [(*key, column.name) for column in columns if (key := _shared_by_key(column, first_rows))]
    if not keys:
        return None
    *_, shared, name = min(keys, key=lambda key: key[:2])
    why = "they are not independent, and a place may seem beyond noise that is not"
    return name, f"Rows of one {name} {shared}: {why}. To judge them together, give --cluster {name}."


def _shared_by_key(column: Column, compared: TargetData) -> tuple[bool, int, str] | None:
    """Whether it is uncertain that rows of one value are not independent, how many values it has, what they share."""
    if not (column.nominal or column.integer) or not compared.binary:
        return None
    known = ~column.missing[: compared.rows]
    _, code = np.unique(column.values[: compared.rows][known], return_inverse=True)
    several = np.bincount(code) >= 2
    key_rows = np.bincount(code)[several]
    if key_rows.size < MIN_KEYS or key_rows.sum() < 0.5 * compared.rows or key_rows.mean() > MAX_ROWS_PER_KEY:
        return None

    def sums(values: Array) -> Array:
        return np.bincount(code, values[known])[several]

    inside = np.clip(compared.predicted, 1e-9, 1.0 - 1e-9)
    events, none = sums(compared.observed), np.exp(sums(np.log1p(-inside)))
    agreeing = {  # and how likely that is by chance
        "have the same outcome": ((events == 0) | (events == key_rows), np.exp(sums(np.log(inside))) + none),
        "have exactly one event": (events == 1, np.minimum(none * sums(inside / (1.0 - inside)), 1.0)),
    }
    for shared, (agree, chance) in agreeing.items():
        if agree.mean() >= MIN_AGREEING and chance.mean() <= MAX_AGREEING_BY_CHANCE:
            return False, key_rows.size, shared
    if not (column.nominal or NAMED.search(column.name)):
        return None
    off, noise = (
        sums(compared.observed - compared.predicted),
        sums(compared.predicted * (1.0 - compared.predicted)),
    )
    together = _errors(off / key_rows, noise / key_rows**2)
    return (True, key_rows.size, together) if together else None


def _errors(mean: Array, variance: Array) -> str:
    """Whether mean errors of one key and the next differ by more than those of independent rows would.

    Neighbours are compared, so that an error along a column of numbers is not taken for one that keys share.
    """
    both = variance[1:] + variance[:-1]
    noisy = both > 0
    square = np.diff(mean)[noisy] ** 2 / both[noisy]
    if square.size < MIN_KEYS_FOR_ERRORS - 1:
        return ""
    ratio, error = square.mean(), square.std() * math.sqrt(1.5 / square.size)
    correlated = ratio > max(MIN_VARIANCE_RATIO, 1 + MIN_RATIO_Z * error)
    return f"err together, {ratio:.1f} times as much as independent rows" if correlated else ""


MIN_PREDICTED_SHARE = (
    0.999  # of rows that name the predicted class, from which a column is that and not the outcome
)
MAX_SUM_ERROR = 1e-3  # by which the probabilities of a row may differ from 1 in all
# A name that settles it where several columns could be meant.
_OUTCOME = re.compile(
    r"y|(y|is|has)?_?(true|truth|target|labels?|class|outcome|actual|event|observed)", re.IGNORECASE
)
_PROBABILITY = re.compile(r"p|.*(prob|score|pred|forecast|confidence|y_?hat|risk).*|p_.*|.*_p", re.IGNORECASE)


def guessed(source: Source, outcome: str | None, probability: Any) -> tuple[str, Any, str]:
    """The outcome, the probability, and a sentence that says what was taken; refused where more than one is left."""
    table = source.head([name for name, kind in source.kinds.items() if kind])
    columns = Columns({} if table is None else {name: table[name] for name in table.column_names})
    usable = {
        name: each
        for name, each in columns.items()
        if not (not each.type.may_be_target or each.missing.any() or PANDAS.fullmatch(name))
    }
    numbers = {name: each.values for name, each in usable.items() if each.kind != ColumnKind.CATEGORY}
    inside = {name: values for name, values in numbers.items() if 0 <= values.min() <= values.max() <= 1}
    chances = [name for name, values in inside.items() if np.any(values % 1.0)]  # not all whole
    if probability is None:
        outcome, probability = _classes(usable, chances, outcome) or (outcome, None)
    if probability is None:
        probability = _one(chances, _PROBABILITY, "probability", columns)
    taken = named(probability)
    if outcome is None:
        events = [
            name
            for name, values in inside.items()
            if name not in taken and np.unique(values).tolist() == [0, 1]
        ]
        scores = [inside[name] for name in taken if name in chances]
        free = [name for name in events if not any(separated(inside[name] > 0, score) for score in scores)]
        outcome = _one(free or events, _OUTCOME, "outcome", columns)
    shown = ", ".join(taken[:4]) + (f" and {len(taken) - 4} more" if len(taken) > 4 else "")
    said = f"Taken as outcome: {outcome}; as probability: {shown}. Name others if they are meant."
    return outcome, probability, said


def _texts(column: Column) -> Array:
    """The values of a column, none of them missing, as text; truth values are 0 and 1."""
    own = column.as_levels()
    texts = [level if isinstance(level, str) else f"{float(level):.15g}" for level in own.levels]
    return np.array(texts, object)[own.values]


def _settled(found: list[str], pattern: re.Pattern[str]) -> list[str]:
    """The only one, or those of a telling name."""
    return found if len(found) == 1 else [name for name in found if pattern.fullmatch(name)]


def _one(found: list[str], pattern: re.Pattern[str], role: str, columns: Mapping[str, Any]) -> str:
    """The only one, or the only one of that name."""
    settled = _settled(found, pattern)
    if len(settled) == 1:
        return settled[0]
    listed = ", ".join(f"'{name}'" for name in (found or list(columns))[:12]) or "none with rows"
    got = f"several could be the {role}: {listed}" if found else f"no column could be the {role}, of {listed}"
    hint = f"say {parameter('outcome', 'NAME')} and {parameter('probability', 'NAME')}; "
    hint += "unnamed, an outcome must be 0 and 1 and a probability lie in [0, 1]"
    raise refusal("needs the names of the outcome and probability columns", "audit", got=got, hint=hint)


def _classes(usable: Mapping[str, Column], chances: list[str], outcome: str | None) -> tuple[str, Any] | None:
    """Columns `name_<label>` that add up to 1, one for each label of a column; the second of two where labels are 0, 1.

    None where there are no such columns, or where no column or several could have these labels.
    """
    found: list[tuple[str, Any]] = []
    for head in {name.rpartition("_")[0]: name for name in chances if "_" in name}:
        names = named_by(head, chances)
        scores = [usable[name].values for name in names]
        if len(names) < 2 or np.abs(sum(scores) - 1.0).max() > MAX_SUM_ERROR:
            continue
        labels = np.array([name[len(head) + 1 :] for name in names], object)
        words = {name: _texts(each) for name, each in usable.items() if name not in names}
        fit = [name for name, each in words.items() if len(set(each)) > 1 and set(each) <= set(labels)]
        said = labels[np.argmax(scores, axis=0)]
        free = [name for name in fit if np.mean(words[name] == said) < MIN_PREDICTED_SHARE] or fit
        settled = [outcome] if outcome in fit else _settled(free, _OUTCOME)
        found += [(name, names[1] if labels.tolist() == ["0", "1"] else names) for name in settled]
    return found[0] if len(found) == 1 else None
