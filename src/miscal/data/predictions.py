"""The validated, frozen table of outcomes and probabilities on which everything else stands."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from miscal.data import checks, outcomes
from miscal.data.columns import Columns, factorise
from miscal.data.errors import refusal
from miscal.data.vectors import Vector, flat

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Names:
    """How messages name each input: the user's parameter, or the column of the user's table."""

    outcome: str = "'y_true'"
    probability: str = "'y_prob'"
    weight: str = "'weight'"
    count: str = "'count'"
    cluster: str = "'cluster'"
    id: str = "'id'"


PARAMETERS = Names()
METRIC = Names(weight="'sample_weight'")


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Predictions:
    """Outcomes and probabilities, validated once; arrays are read-only and not copied when already of the right type.

    Parameters
    ----------
    y_true : (n,) labels
        Truth values, 0/1, class indices 0..K-1, or any labels together with `positive` or `classes`. With `count`:
        the number of events.
    y_prob : (n,) or (n, K) numbers
        (n,): the probability of class 1. (n, 2): its column 1 is used. (n, K): rows sum to 1 within 1e-4 and are never
        renormalised.
    weight : (n,) numbers, optional
        Sampling weights, scale-free. Rows of weight 0 are checked like the others, then left out (`ignored`).
    count : (n,) whole numbers, optional
        Trials of an aggregated row. The row becomes one of outcome 1 that stands for its events and one of outcome 0
        that stands for the rest.
    cluster : (n,) labels, optional
        Rows of one cluster are not independent of each other.
    id : (n,) values, optional
        Names of the rows.
    columns : frame or mapping, optional
        What else is known of the rows: a table of any library, or name -> values.
    classes : sequence, optional
        The labels in the order of the classes (of the columns of `y_prob`).
    positive : label, optional
        The label that is the event.

    Attributes
    ----------
    outcome : (n,) uint8 or int64 class index
    probability : (n,) or (n, K) float64
    weight, count, cluster, id : (n,) float64, int64, int64 codes, any; or None
    columns : Columns
        Mapping of name to `Column`, converted when first asked for.
    classes : tuple
    ignored : int
        How many rows of weight 0 or of count 0 were left out.

    Examples
    --------
    >>> Predictions(["late", "ok", "late"], [0.9, 0.2, 0.4], positive="late")
    Predictions(3 rows, 2 events (66.7%), mean probability 50.0%)
    """

    outcome: Array
    probability: Floats
    weight: Floats | None
    count: Integers | None
    cluster: Integers | None
    id: Vector | None
    columns: Columns
    classes: tuple[Any, ...]
    ignored: int = field(default=0)

    def __init__(
        self,
        y_true: Any,
        y_prob: Any,
        *,
        weight: Any = None,
        count: Any = None,
        cluster: Any = None,
        id: Any = None,  # noqa: A002  # the contract's name
        columns: Any = None,
        classes: Sequence[Any] | None = None,
        positive: Any = None,
    ) -> None:
        raw = Raw(y_true, y_prob, weight, count, cluster, id, columns, classes, positive)
        self.__dict__.update(_validated(raw, PARAMETERS))

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Predictions:
        made = cls.__new__(cls)
        made.__dict__.update(fields)
        return made

    def __len__(self) -> int:
        return len(self.outcome)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.outcome)

    @property
    def n_classes(self) -> int:
        """Number of classes, at least 2."""
        return len(self.classes)

    def take(self, indices: Any) -> Predictions:
        """Return the predictions at some rows, given as indices or as a mask.

        >>> Predictions([0, 1, 1], [0.1, 0.8, 0.9]).take([2, 0]).probability
        array([0.9, 0.1])
        """
        rows = _row_indices(indices, len(self))
        return Predictions._of(_selected(self.__dict__, rows))

    def frame(self) -> pa.Table:
        """Return everything as an Arrow table: outcome, probability (one column a class if there are several), ..."""
        from miscal.data.sources import to_arrow

        return to_arrow(self)

    def __repr__(self) -> str:
        weight = _row_weight(self)
        parts = [f"{len(self):,} rows"]
        if self.n_classes == 2:
            rate = np.average(self.outcome, weights=weight)
            events = int(np.sum(self.outcome if self.count is None else self.outcome * self.count, dtype=np.int64))
            parts.append(f"{events:,} events ({rate:.1%})")
            parts.append(f"mean probability {np.average(self.probability, weights=weight):.1%}")
        else:
            parts.append(f"{self.n_classes} classes")
        parts += [word for word in ("weight", "count", "cluster", "id") if getattr(self, word) is not None]
        if self.ignored:
            parts.append(f"{self.ignored:,} ignored")
        if self.columns:
            names = list(self.columns)
            parts.append(f"columns: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}")
        return f"Predictions({', '.join(parts)})"

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for name in ("outcome", "probability", "weight", "count", "cluster"):
            values = getattr(self, name)
            if values is not None:
                kind = np.int64 if name == "outcome" else values.dtype
                digest.update(f"{name}{values.shape}".encode())
                for start in range(0, len(values), 1 << 18):
                    digest.update(np.ascontiguousarray(values[start : start + (1 << 18)], dtype=kind))
        digest.update(repr((self.classes, list(self.columns))).encode())
        return digest.hexdigest()

    def _fingerprint(self) -> str:
        """Hash the numbers, the classes and the names of the columns; the same for any container they came from."""
        return self._digest


def check_arrays(y_true: Any, y_prob: Any, sample_weight: Any = None) -> Predictions:
    """Validate what a metric was given; messages name 'y_true', 'y_prob' and 'sample_weight'."""
    return Predictions._of(_validated(Raw(y_true, y_prob, sample_weight), METRIC))


@dataclass
class Raw:
    """What the user brought, before validation."""

    y_true: Any
    y_prob: Any
    weight: Any = None
    count: Any = None
    cluster: Any = None
    id: Any = None
    columns: Any = None
    classes: Sequence[Any] | None = None
    positive: Any = None


def _validated(raw: Raw, names: Names) -> dict[str, Any]:
    """Check everything and return the fields of a `Predictions`."""
    probability, named = checks.probability_matrix(raw.y_prob, names.probability)
    labels = flat(raw.y_true, names.outcome)
    extras = _extras(raw)
    lengths = {names.outcome: len(labels), names.probability: len(probability)}
    fields: dict[str, Any] = {"id": None, "cluster": None, "weight": None, "count": None}
    zeros = 0
    if raw.weight is not None:
        fields["weight"], zeros = checks.weights(raw.weight, names.weight)
        lengths[names.weight] = len(fields["weight"])
    if raw.cluster is not None:
        fields["cluster"] = _cluster(raw.cluster, names.cluster)
        lengths[names.cluster] = len(fields["cluster"])
    if raw.id is not None:
        fields["id"] = flat(raw.id, names.id)
        outcomes.refuse_missing(fields["id"], names.id)
        lengths[names.id] = len(fields["id"])
    lengths |= {f"column '{name}'": _length(values, name) for name, values in extras.items()}
    checks.check_lengths(lengths)
    fields["columns"] = Columns(extras)
    if raw.count is not None:
        _fill_aggregated(fields, raw, labels, probability, names)
    else:
        _fill_labelled(fields, raw, labels, probability, named, names)
    for name in ("outcome", "probability", "weight", "count", "cluster"):
        if fields[name] is not None:
            fields[name] = _locked(fields[name])
    fields["ignored"] = 0
    if zeros:
        kept = np.flatnonzero(fields["weight"])
        fields = _selected(fields, kept) | {"ignored": zeros}
    if raw.count is not None:
        fields = _unfolded(fields)
    outcomes.warn_single(fields["outcome"], fields["classes"], names.outcome)
    return fields


def _extras(raw: Raw) -> Mapping[str, Any]:
    if raw.columns is None:
        return {}
    from miscal.data.sources import frame_of

    return frame_of(raw.columns, "'columns'")


def _length(values: Any, name: str) -> int:
    try:
        return len(values)
    except TypeError:
        return len(flat(values, f"column '{name}'"))


def _cluster(thing: Any, where: str) -> Integers:
    vector = flat(thing, where)
    outcomes.refuse_missing(vector, where)
    return factorise(vector)[0].astype(np.int64)


def _fill_labelled(
    fields: dict[str, Any], raw: Raw, labels: Vector, probability: Floats, named: tuple[str, ...] | None, names: Names
) -> None:
    n_classes = 2 if probability.ndim == 1 else probability.shape[1]
    classes, event = raw.classes, 1
    if n_classes == 2 and raw.positive is not None and classes is not None:
        event = outcomes.place_of(raw.positive, classes)
        classes = tuple(classes) if event == 1 else tuple(classes)[::-1]
    if named is not None and classes is None and raw.positive is None and outcomes.are_words(labels):
        classes = named
    positive = raw.positive if classes is None else None
    fields["outcome"], fields["classes"] = outcomes.encode(labels, n_classes, classes, positive, names.outcome)
    if probability.ndim == 2 and n_classes == 2:
        probability = np.ascontiguousarray(probability[:, event])
    fields["probability"] = probability


def _fill_aggregated(fields: dict[str, Any], raw: Raw, labels: Vector, probability: Floats, names: Names) -> None:
    if probability.ndim == 2:
        if probability.shape[1] > 2:
            raise refusal("needs a binary outcome", where=names.count, got=f"there are {probability.shape[1]} classes")
        probability = np.ascontiguousarray(probability[:, 1])
    if raw.classes is not None or raw.positive is not None:
        given = "'classes'" if raw.classes is not None else "'positive'"
        raise refusal(
            f"cannot go with {names.count}", where=given, hint=f"{names.outcome} holds numbers of events, not labels"
        )
    count = checks.whole_numbers(raw.count, names.count, "must hold whole numbers of trials, 0 or more")
    checks.check_lengths({names.outcome: len(labels), names.count: len(count)})
    events = checks.whole_numbers(
        labels, names.outcome, f"must hold whole numbers of events (because of {names.count})"
    )
    row, total = checks.first_row(len(count), lambda i, j: events[i:j] > count[i:j])
    if total:
        got = f"{events[row]} events in {count[row]} trials"
        raise checks.row_refusal(f"must not exceed {names.count}", names.outcome, row, got, total)
    if not count.any():
        raise refusal("must not all be zero", where=names.count, got=f"all {len(count):,} rows have no trials")
    fields.update(outcome=events, count=count, probability=probability, classes=(0, 1))


def _unfolded(fields: dict[str, Any]) -> dict[str, Any]:
    """Split each aggregated row into its events and its non-events; parts of no trials are left out."""
    events, count = fields["outcome"], fields["count"]
    both = np.stack([events, count - events], axis=1).reshape(-1)  # row 0's events, row 0's rest, row 1's events, ...
    kept = np.flatnonzero(both)
    empty = int(np.count_nonzero(count == 0))
    unfolded = _selected(fields, kept >> 1)
    unfolded["outcome"] = _locked((1 - (kept & 1)).astype(np.uint8))
    unfolded["count"] = _locked(both[kept])
    unfolded["ignored"] = fields["ignored"] + empty
    return unfolded


def _selected(fields: Mapping[str, Any], rows: Array) -> dict[str, Any]:
    chosen = {name: value for name, value in fields.items() if not name.startswith("_")}
    for name in ("outcome", "probability", "weight", "count", "cluster"):
        if fields[name] is not None:
            chosen[name] = _locked(fields[name][rows])
    if fields["id"] is not None:
        chosen["id"] = fields["id"][rows] if isinstance(fields["id"], np.ndarray) else fields["id"].take(rows)
    if fields["columns"]:
        chosen["columns"] = fields["columns"].take(rows)
    return chosen


def _row_indices(indices: Any, rows: int) -> Array:
    chosen = flat(indices, "'indices'")
    if isinstance(chosen, np.ndarray) and chosen.dtype == np.bool_:
        checks.check_lengths({"the predictions": rows, "'indices'": len(chosen)})
        chosen = np.flatnonzero(chosen)
    if not isinstance(chosen, np.ndarray) or (chosen.dtype.kind not in "iu" and chosen.size):
        raise refusal("must hold row numbers or truth values", where="'indices'")
    if chosen.size == 0:
        raise refusal("must choose at least one row", where="'indices'", got="it is empty")
    low, high = checks.span(chosen)
    if low < -rows or high >= rows:
        raise refusal(f"must lie in 0..{rows - 1}", where="'indices'", got=f"got {high if high >= rows else low}")
    return chosen


def _row_weight(p: Predictions) -> Array | None:
    if p.count is None:
        return p.weight
    return p.count if p.weight is None else p.weight * p.count


def _locked(values: Array) -> Array:
    view = values.view()
    view.flags.writeable = False
    return view
