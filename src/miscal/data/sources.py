"""`read`: predictions from any table, by the names of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data import checks, outcomes
from miscal.data.door import Names, Raw
from miscal.data.errors import MiscalError, refusal, warn
from miscal.data.files import TableFile
from miscal.data.frames import frame_of, names_of, require, unique
from miscal.data.predictions import Predictions
from miscal.data.vectors import Vector, flat

Floats = npt.NDArray[np.float64]
SUSPICIOUS = 20  # logits from which it is no accident that all of them lie in [0, 1]


def read(
    source: Any,
    *,
    outcome: str,
    probability: str | Sequence[str] | Mapping[Any, str],
    logit: bool = False,
    weight: str | None = None,
    count: str | None = None,
    cluster: str | None = None,
    id: str | None = None,  # noqa: A002  # the contract's name
    positive: Any = None,
    columns: Sequence[str] | None = None,
    clip: float = 0.0,
) -> Predictions:
    """Read predictions from a file or a table, by the names of its columns.

    Parameters
    ----------
    source : path, frame or mapping
        A CSV, Parquet, Feather or Arrow file; a table of pandas, polars, pyarrow or DuckDB (anything narwhals knows);
        a numpy structured array; a dict of vectors.
    outcome : str
        Column of labels: truth values, 0/1, class indices, or words with `positive` or named classes. With `count`: the
        number of events.
    probability : str, list of str, or {class: column}
        One column is the probability of the event. Several are those of the classes, in order; words in the outcome
        are then matched with the names of the columns (with or without a common beginning such as ``p_``).
    logit : bool
        The columns hold logits: the sigmoid (one column) or the softmax (several) is applied.
    weight, count, cluster, id : str, optional
        Columns of sampling weights, of trials, of clusters, of names of rows.
    positive : label, optional
        The label of the outcome that is the event.
    columns : list of str, optional
        Columns to keep beside the predictions; by default all others.
    clip : float
        How far probabilities may lie outside [0, 1]; such values are moved to the edge.

    Returns
    -------
    Predictions

    Notes
    -----
    Nothing is repaired silently: a missing or impossible value is refused with its column and its row, counted from 0.
    In CSV files an empty cell is missing, and so is "NA" or "null" in a column of numbers; in a column of words "NA"
    stays a word.

    Examples
    --------
    >>> table = {"late": ["yes", "no", "no"], "p": [0.7, 0.2, 0.4], "carrier": ["UA", "AA", "UA"]}
    >>> read(table, outcome="late", probability="p", positive="yes")
    Predictions(3 rows, 1 events (33.3%), mean probability 43.3%, columns: carrier)
    """
    names, load, where = _opened(source)
    roles = _Roles.resolve(names, outcome, probability, weight, count, cluster, id, where)
    raw = _raw(roles, names, load, logit=logit, positive=positive, columns=columns, clip=clip)
    return Predictions.validated(raw, roles.words())


def read_part(table: Any, *, outcome: str, probability: Any, where: str, **options: Any) -> Predictions:
    """Read one batch of a larger table: as `read`, without what only all rows together can tell.

    Options are those of `read`; rows of weight 0 are left out and a batch may have none left.
    """
    names, load, _ = _opened(table)
    weight, count, cluster, id = (options.pop(role, None) for role in ("weight", "count", "cluster", "id"))  # noqa: A001
    roles = _Roles.resolve(names, outcome, probability, weight, count, cluster, id, where)
    raw = _raw(roles, names, load, **{"logit": False, "positive": None, "columns": [], "clip": 0.0, **options})
    raw.part = True
    return Predictions.validated(raw, roles.words())


def _raw(roles: _Roles, names: list[str], load: Any, *, logit: Any, positive: Any, columns: Any, clip: Any) -> Raw:
    """What the columns hold, by their parts."""
    tolerance = _tolerance(clip, logit)
    weight, count, cluster, id = roles.weight, roles.count, roles.cluster, roles.id  # noqa: A001
    kept = _kept(columns, names, roles)
    table = load(list(dict.fromkeys([*roles.used, *kept])))
    vectors = {name: flat(table[name], f"column '{name}'") for name in (roles.outcome, *roles.probabilities)}
    checks.check_lengths({f"column '{name}'": len(vector) for name, vector in vectors.items()})
    classes, event = _classes_of(roles, vectors[roles.outcome], positive, count)
    return Raw(
        vectors[roles.outcome],
        _probabilities({name: vectors[name] for name in roles.probabilities}, logit, tolerance),
        weight=None if weight is None else table[weight],
        count=None if count is None else table[count],
        cluster=None if cluster is None else table[cluster],
        id=None if id is None else table[id],
        columns={name: table[name] for name in kept},
        classes=classes,
        positive=event,
    )


def _opened(source: Any) -> tuple[list[str], Any, str]:
    """Names of the columns, a function that loads some of them, and how messages name the source."""
    if isinstance(source, (str, PathLike)):
        file = TableFile(fspath(source))
        unique(file.names, file.where)
        return file.names, lambda only: frame_of(file.load(only), file.where), file.where
    if isinstance(source, Predictions):
        raise refusal("must be a table or a path", where="'source'", got="got Predictions, which are read already")
    if isinstance(source, np.ndarray):
        frame = frame_of(source, "'source'")
        return list(frame), lambda _: frame, "the table"
    names = [str(name) for name in names_of(source, "'source'")]
    unique(names, "the table")
    return names, lambda only: frame_of(source, "the table", only), "the table"


def with_clusters(
    source: Any, *, outcome: str, probability: Any, weight: str | None, count: str | None, cluster: str
) -> list[str]:
    """Names of the columns that `read` keeps by default, and that of the clusters, which may be dates as well."""
    names, _, where = _opened(source)
    roles = _Roles.resolve(names, outcome, probability, weight, count, cluster, None, where)
    return [name for name in names if name == cluster or name not in roles.used]


def unnamed(source: Any) -> MiscalError:
    """The refusal for a table whose outcome and probability were not named; it lists the columns there are."""
    try:
        names = _opened(source)[0]
    except MiscalError:  # a folder or a pattern: its files are opened elsewhere
        names = []
    shown = ", ".join(f"'{name}'" for name in names[:12]) + (", ..." if len(names) > 12 else "")
    return refusal(
        "needs the names of the outcome and probability columns",
        where="audit",
        got=f"the columns are {shown}" if names else "",
        hint="say outcome=NAME and probability=NAME",
    )


@dataclass(frozen=True)
class _Roles:
    """Which column plays which part."""

    outcome: str
    probabilities: tuple[str, ...]
    classes: tuple[Any, ...] | None
    weight: str | None
    count: str | None
    cluster: str | None
    id: str | None

    @classmethod
    def resolve(
        cls,
        names: list[str],
        outcome: Any,
        probability: Any,
        weight: Any,
        count: Any,
        cluster: Any,
        identity: Any,
        where: str,
    ) -> _Roles:
        if not names:
            raise refusal("must have columns", where=where, got="it has none")
        classes, columns = _probability_names(probability)
        roles = cls(outcome, columns, classes, weight, count, cluster, identity)
        for role, name in roles.named():
            if not isinstance(name, str):
                raise refusal("must be the name of a column", where=f"'{role}'", got=f"got {type(name).__name__}")
            require(name, names, role)
        roles.refuse_sharing()
        return roles

    def named(self) -> list[tuple[str, Any]]:
        parts = [("outcome", self.outcome), *(("probability", name) for name in self.probabilities)]
        others = [(role, getattr(self, role)) for role in ("weight", "count", "cluster", "id")]
        return parts + [(role, name) for role, name in others if name is not None]

    def refuse_sharing(self) -> None:
        """One column cannot play two parts, except that a cluster may also be the id."""
        taken: dict[str, str] = {}
        for role, name in self.named():
            if name in taken and {role, taken[name]} != {"cluster", "id"}:
                got = f"column '{name}' is also '{taken[name]}'"
                raise refusal("must be a column of its own", where=f"'{role}'", got=got)
            taken[name] = role

    @property
    def used(self) -> list[str]:
        return [name for _, name in self.named()]

    def words(self) -> Names:
        """How messages name the parts."""
        shown = ", ".join(f"'{name}'" for name in self.probabilities)
        parts = {role: f"column '{name}'" for role, name in self.named() if role not in ("outcome", "probability")}
        several = "columns" if len(self.probabilities) > 1 else "column"
        return Names(f"column '{self.outcome}'", f"{several} {shown}", **parts)


def _probability_names(probability: Any) -> tuple[tuple[Any, ...] | None, tuple[Any, ...]]:
    """Classes (where stated) and columns of the probabilities."""
    if isinstance(probability, Mapping):
        classes, names = tuple(probability), tuple(probability.values())
    elif isinstance(probability, (list, tuple)):
        classes, names = None, tuple(probability)
    else:
        classes, names = None, (probability,)
    if not names:
        raise refusal("must name at least one column", where="'probability'", got=f"got {probability!r}")
    return classes, names


def _kept(columns: Any, names: list[str], roles: _Roles) -> list[str]:
    if columns is None:
        return [name for name in names if name not in roles.used]
    if isinstance(columns, str) or not hasattr(columns, "__iter__"):
        raise refusal("must be a list of names", where="'columns'", got=f"got {columns!r}")
    kept = list(columns)
    for name in kept:
        if not isinstance(name, str):
            raise refusal("must hold names", where="'columns'", got=f"got {type(name).__name__}")
        require(name, names, "columns")
        if name == roles.outcome:
            raise refusal("must not hold the outcome", where="'columns'", got=f"column '{name}' is the outcome")
    unique(kept, "'columns'")
    return kept


def _tolerance(clip: Any, logit: Any) -> float:
    if not isinstance(logit, (bool, np.bool_)):
        raise refusal("must be True or False", where="'logit'", got=f"got {logit!r}")
    if isinstance(clip, (bool, np.bool_)) or not isinstance(clip, (int, float, np.integer, np.floating)):
        raise refusal("must be a number", where="'clip'", got=f"got {clip!r}")
    if not 0 <= clip < 0.5:
        raise refusal("must be a small tolerance, at least 0 and below 0.5", where="'clip'", got=f"got {clip}")
    return float(clip)


def _classes_of(roles: _Roles, labels: Vector, positive: Any, count: str | None) -> tuple[Any, Any]:
    """Classes and event: stated in the mapping, or read from the names of the columns when the labels are words."""
    if len(roles.probabilities) == 1:
        if roles.classes is None:
            return None, positive
        if positive is not None and positive != roles.classes[0]:
            got = f"got {positive!r} beside a probability of {roles.classes[0]!r}"
            raise refusal("must be the class whose probability is given", where="'positive'", got=got)
        return None, roles.classes[0]
    if roles.classes is not None:
        return roles.classes, positive
    if count is not None or not outcomes.are_words(labels):
        return None, positive
    found = set(map(str, outcomes.labels_of(labels)))
    for classes in (roles.probabilities, _without_common(roles.probabilities)):
        if found <= set(classes):
            return classes, positive
    return (None if positive is not None else roles.probabilities), positive


def _without_common(names: tuple[str, ...]) -> tuple[str, ...]:
    """Strip what all names begin with, up to the last mark: p_cat, p_dog become cat, dog."""
    heads = {name[: -len(tail)] for name in names if (tail := name.replace(".", "_").rpartition("_")[2])}
    return tuple(name[len(next(iter(heads))) :] for name in names) if len(heads) == 1 else names


def _probabilities(vectors: dict[str, Vector], logit: bool, clip: float) -> Floats:
    """Take the columns as probabilities: (n,) for one column, (n, K) for several."""
    made = [
        _logits(vector, f"column '{name}'") if logit else _within(vector, f"column '{name}'", clip)
        for name, vector in vectors.items()
    ]
    if logit and made[0].size >= SUSPICIOUS and not any(checks.any_outside(each, 0.0, 1.0) for each in made):
        names = ", ".join(f"'{name}'" for name in vectors)
        warn(f"every value of {names} lies in [0, 1]: probabilities already? then leave logit=True out")
    if len(made) == 1:
        return _sigmoid(made[0]) if logit else made[0]
    matrix = np.stack(made, axis=1)
    return _softmax(matrix) if logit else matrix


def _within(vector: Vector, where: str, clip: float) -> Floats:
    values = checks.numbers(vector, where, checks.PROBABILITY)
    if not checks.any_outside(values, 0.0, 1.0):
        return values
    if clip and not checks.any_outside(values, -clip, 1.0 + clip):
        return np.clip(values, 0.0, 1.0)
    hint = "logits? pass logit=True. Percent? divide by 100. Rounding noise? pass a tolerance such as clip=1e-6"
    checks.check_unit(values, where, hint, clip)
    return values


def _logits(vector: Vector, where: str) -> Floats:
    values = checks.numbers(vector, where, "must hold logits, finite numbers")
    row, total = checks.first_row(values.size, lambda i, j: ~np.isfinite(values[i:j]))
    if total:
        raise checks.row_refusal("must hold logits, finite numbers", where, row, values[row], total)
    return values


def _sigmoid(values: Floats) -> Floats:
    made = np.empty_like(values)
    for start in range(0, len(values), 1 << 16):
        part = values[start : start + (1 << 16)]
        made[start : start + (1 << 16)] = np.exp(-np.logaddexp(0.0, -part))
    return made


def _softmax(matrix: Floats) -> Floats:
    for start in range(0, len(matrix), 1 << 16):
        part = matrix[start : start + (1 << 16)]
        part -= part.max(axis=1, keepdims=True)
        np.exp(part, out=part)
        part /= part.sum(axis=1, keepdims=True)
    return matrix
