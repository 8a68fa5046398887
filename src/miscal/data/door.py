"""The checks at the door: from what the user brought to the fields of a `Predictions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data import checks, outcomes
from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.data.levels import encoded
from miscal.data.vectors import Vector, flat, locked

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
    part: bool = False  # one of many batches: what only all rows together can tell is not asked of it


def validated(raw: Raw, names: Names) -> dict[str, Any]:
    """Check everything and return the fields of a `Predictions`."""
    probability, named = checks.probability_matrix(raw.y_prob, names.probability)
    labels = flat(raw.y_true, names.outcome)
    extras = _extras(raw)
    lengths = {names.outcome: len(labels), names.probability: len(probability)}
    fields: dict[str, Any] = {"id": None, "cluster": None, "weight": None, "count": None}
    zeros = 0
    if raw.weight is not None:
        fields["weight"], zeros = checks.weights(raw.weight, names.weight, part=raw.part)
        lengths[names.weight] = len(fields["weight"])
    if raw.cluster is not None:
        fields["cluster"] = _cluster(raw.cluster, names.cluster)
        lengths[names.cluster] = len(fields["cluster"])
    if raw.id is not None:
        fields["id"] = flat(raw.id, names.id)
        outcomes.refuse_missing(fields["id"], names.id, "every row needs its id, or leave it out")
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
            fields[name] = locked(fields[name])
    fields["ignored"] = 0
    if zeros:
        kept = np.flatnonzero(fields["weight"])
        fields = selected(fields, kept) | {"ignored": zeros}
    if raw.count is not None:
        fields = _unfolded(fields)
    if not raw.part:
        outcomes.warn_single(fields["outcome"], fields["classes"], names.outcome)
    return fields


def _extras(raw: Raw) -> Mapping[str, Any]:
    if raw.columns is None:
        return {}
    from miscal.data.frames import frame_of

    return frame_of(raw.columns, "'columns'")


def _length(values: Any, name: str) -> int:
    try:
        return len(values)
    except TypeError:
        return len(flat(values, f"column '{name}'"))


def _cluster(thing: Any, where: str) -> Integers:
    vector = flat(thing, where)
    outcomes.refuse_missing(vector, where, "every row needs its cluster: give rows that stand alone one each")
    return encoded(vector, None, where)[0].astype(np.int64)


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
        words = f"{events[row]} events in {count[row]} trials"
        raise checks.row_refusal(f"must not exceed {names.count}", names.outcome, row, None, total, words=words)
    if not raw.part and not count.any():
        raise refusal("must not all be zero", where=names.count, got=f"all {len(count):,} rows have no trials")
    fields.update(outcome=events, count=count, probability=probability, classes=(0, 1))


def _unfolded(fields: dict[str, Any]) -> dict[str, Any]:
    """Split each aggregated row into its events and its non-events; parts of no trials are left out."""
    events, count = fields["outcome"], fields["count"]
    both = np.stack([events, count - events], axis=1).reshape(-1)  # row 0's events, row 0's rest, row 1's events, ...
    kept = np.flatnonzero(both)
    empty = int(np.count_nonzero(count == 0))
    unfolded = selected(fields, kept >> 1)
    unfolded["outcome"] = locked((1 - (kept & 1)).astype(np.uint8))
    unfolded["count"] = locked(both[kept])
    unfolded["ignored"] = fields["ignored"] + empty
    return unfolded


def selected(fields: Mapping[str, Any], rows: Array) -> dict[str, Any]:
    """Take some rows of every field."""
    chosen = {name: value for name, value in fields.items() if not name.startswith("_")}
    for name in ("outcome", "probability", "weight", "count", "cluster"):
        if fields[name] is not None:
            chosen[name] = locked(fields[name][rows])
    if fields["id"] is not None:
        chosen["id"] = fields["id"][rows] if isinstance(fields["id"], np.ndarray) else fields["id"].take(rows)
    if fields["columns"]:
        chosen["columns"] = fields["columns"].take(rows)
    return chosen
