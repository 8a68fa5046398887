"""The validated, frozen table of outcomes and probabilities on which everything else stands."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from miscal.codes.data import Response
from miscal.data import checks, outcomes, responses
from miscal.data.arrays import Array, Floats, Integers, Plain, Vector, encoded, flat, frame_of, locked
from miscal.data.columns import Columns, columns_given
from miscal.data.errors import listed, refusal, visible
from miscal.data.responses import Units

ROWS = ("outcome", "probability", "weight", "count", "cluster", "exposure")  # what every row has as numbers


# How messages name each input: the user's parameter, or the column of the user's table.
NAMES = {"outcome": "'y_true'", "probability": "'y_prob'"} | {
    role: f"'{role}'" for role in ("weight", "count", "cluster", "id", "exposure")
}
METRIC = NAMES | {"weight": "'sample_weight'"}


@dataclass
class RawPredictions:
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
    response: str = "binary"
    exposure: Any = None
    names: Mapping[str, str] = field(default_factory=lambda: NAMES)
    units: Units | None = None  # of the whole table, where this is a part of it
    part: bool = False  # one of many batches: what only all rows together can tell is not asked of it


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
        renormalised; a table or a dict has a column for each class.
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
    response : {"binary", "real", "count"}
        What is predicted. "real": `y_true` and `y_prob` are any finite numbers (amounts, scores, soft labels). "count":
        whole numbers of at least 0, and their means. Nothing else that needs an event (`count`, `classes`, `positive`)
        goes with them.
    exposure : (n,) numbers above 0, optional
        How long, or of how much, each row tells (policy years, views). The prediction is then a rate a unit of
        exposure, the outcome becomes outcome / exposure, and exposure is the weight of the mean.

    Attributes
    ----------
    outcome : (n,) uint8 or int64 class index; float64 (a unit of exposure) where the response is not binary
    probability : (n,) or (n, K) float64; the predictions, whatever the response
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
    ignored: int
    response: str
    exposure: Floats | None
    units: Units

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
        response: str = "binary",
        exposure: Any = None,
    ) -> None:
        raw = RawPredictions(
            y_true, y_prob, weight, count, cluster, id, columns, classes, positive, response, exposure
        )
        self.__dict__.update(_validated(raw))

    @classmethod
    def validated(cls, raw: RawPredictions) -> Predictions:
        """Validate what was brought, with messages that name it in the user's words."""
        return cls._of(_validated(raw))

    @classmethod
    def _of(cls, fields: Plain) -> Predictions:
        made = cls.__new__(cls)
        made.__dict__.update(fields)
        return made

    def __len__(self) -> int:
        return len(self.outcome)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self)

    @property
    def n_classes(self) -> int:
        """Number of classes, at least 2."""
        return len(self.classes)

    def take(self, indices: Any) -> Predictions:
        """Return the predictions at some rows, given as indices or as a mask.

        >>> Predictions([0, 1, 1], [0.1, 0.8, 0.9]).take([2, 0]).probability
        array([0.9, 0.1])
        """
        rows = checks.row_numbers(indices, len(self), "'indices'")
        if rows.size == 0:
            raise refusal("must choose at least one row", "'indices'", got="it is empty")
        return Predictions._of(_selected(self.__dict__, rows))

    def with_probability(self, y_prob: Any) -> Predictions:
        """Return the same rows with other probabilities of the same shape, such as repaired ones.

        >>> Predictions([0, 1], [0.1, 0.8]).with_probability([0.2, 0.7]).probability
        array([0.2, 0.7])
        """
        if self.response == "binary":
            probability, _ = checks.probability_matrix(y_prob, "'y_prob'")
        else:
            probability = responses.numbers(y_prob, "'y_prob'")
        if probability.shape[1:] == (2,) and self.probability.ndim == 1:
            probability = probability[:, 1]
        if probability.shape != self.probability.shape:
            got = f"{probability.shape} against {self.probability.shape}"
            raise refusal("must have the shape of the probabilities it replaces", "'y_prob'", got=got)
        units = self.units if self.response == "binary" else Units.holding(self.outcome, probability)
        return Predictions._of(self.__dict__ | {"probability": locked(probability), "units": units})

    def __repr__(self) -> str:
        stands: Any = self.count if self.exposure is None else self.exposure
        weight = self.weight if stands is None else stands * (1.0 if self.weight is None else self.weight)
        parts = [f"{len(self):,} rows"]
        observed, predicted = (np.average(each, 0, weight) for each in (self.outcome, self.probability))
        if self.response != "binary":
            parts.append(f"mean outcome {observed:.4g}, mean prediction {predicted:.4g}")
        elif self.n_classes == 2:
            times: Any = 1 if self.count is None else self.count
            events = np.sum(self.outcome * times, dtype=np.int64)
            parts.append(f"{events:,} events ({observed:.1%}), mean probability {predicted:.1%}")
        else:
            parts.append(f"{self.n_classes} classes")
        roles = "weight", "count", "cluster", "exposure", "id"
        parts += [role for role in roles if getattr(self, role) is not None]
        if self.ignored:
            parts.append(f"{self.ignored:,} ignored")
        if self.columns:
            names = [*map(visible, self.columns)]
            parts.append(f"columns: {listed(names, 8)}")
        return f"Predictions({', '.join(parts)})"

    def _fingerprint(self) -> str:
        """Hash the numbers, the classes and the names of the columns; the same for any container they came from."""
        digest = hashlib.blake2b(digest_size=16)
        for name in ROWS:
            values = getattr(self, name)
            if values is not None:
                kind = np.int64 if name == "outcome" and self.response == "binary" else values.dtype
                digest.update(f"{name}{values.shape}".encode())
                digest.update(np.ascontiguousarray(values, dtype=kind).data)
        digest.update(repr((self.classes, list(self.columns))).encode())
        return digest.hexdigest()


def _validated(raw: RawPredictions) -> Plain:
    """Check everything and return the fields of a `Predictions`."""
    names = raw.names
    if responses.check_response(raw.response) == "binary":
        if raw.exposure is not None:
            raise refusal(
                f"needs {responses.needed_response(Response.COUNT, Response.REAL)}", names["exposure"]
            )
        probability, named = checks.probability_matrix(raw.y_prob, names["probability"])
    else:
        probability, named = _predictions(raw), None
    labels = flat(raw.y_true, names["outcome"])
    fields: Plain = {"outcome": labels, "probability": probability}
    fields |= {role: _beside(raw, role) for role in ("weight", "count", "cluster", "id", "exposure")}
    rows = checks.check_lengths({names[role]: each for role, each in fields.items() if each is not None})
    extras = {} if raw.columns is None else frame_of(raw.columns, "'columns'")
    columns = columns_given(extras, "'columns'", rows, f"must have as many rows as {names['outcome']}")
    zeros = 0 if fields["weight"] is None else rows - np.count_nonzero(fields["weight"])
    fields |= {"columns": columns, "ignored": zeros, "response": raw.response, "units": Units()}
    if raw.response != "binary":
        fields |= _numbered(raw, labels, probability, fields["exposure"])
    elif raw.count is None:
        fields |= _labelled(raw, labels, probability, named)
    else:
        fields |= _counted(raw, labels, probability, fields["count"])
    fields |= {name: locked(fields[name]) for name in ROWS if fields[name] is not None}
    if zeros:
        fields = _selected(fields, np.flatnonzero(fields["weight"]))
    if raw.response != "binary":
        fields["units"] = raw.units or Units.holding(fields["outcome"], fields["probability"])
    if raw.count is not None:
        fields = _unfolded(fields)
    if not raw.part and raw.response == "binary":
        outcomes.warn_single(fields["outcome"], fields["classes"], names["outcome"])
    return fields


def _beside(raw: RawPredictions, role: str) -> Any:
    """What stands beside the outcomes, validated; None where it was not given."""
    given, where = getattr(raw, role), raw.names[role]
    if given is None:
        return None
    if role == "weight":
        return checks.weights(given, where, part=raw.part)
    if role == "count":
        return checks.whole_numbers(given, where, "must hold whole numbers of trials, 0 or more")
    if role == "exposure":
        what, hint = "must hold finite numbers above 0", "drop rows without exposure"
        return checks.bounded(given, where, what, checks.SMALLEST_WEIGHT, checks.LARGEST_WEIGHT, hint)
    vector = flat(given, where)
    outcomes.refuse_missing(vector, where, f"every row needs its {role}")
    return vector if role == "id" else encoded(vector, (), where)[0].astype(np.int64)


def _labelled(
    raw: RawPredictions, labels: Vector, probability: Floats, named: tuple[str, ...] | None
) -> Plain:
    """Outcome, probability and classes of rows that have a label each."""
    n_classes = 2 if probability.ndim == 1 else probability.shape[1]
    classes, event = raw.classes, 1
    if n_classes == 2 and raw.positive is not None and classes is not None:
        event = outcomes.place_of(raw.positive, classes)
        classes = tuple(classes) if event == 1 else tuple(classes)[::-1]
    if named is not None and classes is None and raw.positive is None and outcomes.are_words(labels):
        classes = named
    positive = raw.positive if classes is None else None
    outcome, classes = outcomes.encode(labels, n_classes, classes, positive, raw.names["outcome"])
    if probability.ndim == 2 and n_classes == 2:
        probability = probability[:, event]
    return {"outcome": outcome, "classes": classes, "probability": probability}


def _predictions(raw: RawPredictions) -> Floats:
    """The predictions of a response that is no event, one a row; what only events have is refused."""
    for role in ("count", "classes", "positive"):
        if getattr(raw, role) is not None:
            where = raw.names.get(role, f"'{role}'")
            raise refusal(
                f"needs {responses.needed_response(Response.BINARY)}",
                where,
                got=f"the response is {raw.response!r}",
            )
    return responses.numbers(raw.y_prob, raw.names["probability"])


def _numbered(raw: RawPredictions, labels: Vector, predicted: Floats, exposure: Floats | None) -> Plain:
    """Outcomes that are numbers, a unit of exposure where there is any."""
    outcome = responses.numbers(labels, raw.names["outcome"], count=raw.response == "count")
    if raw.response == "count":
        checks.refuse_rows(predicted < 0.0, "must not be negative", raw.names["probability"], predicted)
    return {"outcome": outcome if exposure is None else outcome / exposure, "classes": (0, 1)}


def _counted(raw: RawPredictions, labels: Vector, probability: Floats, count: Integers) -> Plain:
    """Events, count, probability and classes of aggregated rows."""
    trials, happened = raw.names["count"], raw.names["outcome"]
    if probability.ndim == 2:
        if probability.shape[1] > 2:
            got = f"there are {probability.shape[1]} classes"
            raise refusal("needs a binary outcome", trials, got=got)
        probability = probability[:, 1]
    if raw.classes is not None or raw.positive is not None:
        given = "'classes'" if raw.classes is not None else "'positive'"
        raise refusal(
            f"cannot go with {trials}", given, hint=f"{happened} holds numbers of events, not labels"
        )
    events = checks.whole_numbers(
        labels, happened, f"must hold whole numbers of events (because of {trials})"
    )
    checks.refuse_rows(events > count, f"must not exceed {trials}", happened, events)
    if not raw.part and not count.any():
        raise refusal("must not all be zero", trials, got=f"all {len(count):,} rows have no trials")
    return {"outcome": events, "probability": probability, "classes": (0, 1)}


def _unfolded(fields: Plain) -> Plain:
    """Split each aggregated row into its events and its non-events; parts of no trials are left out."""
    events, count = fields["outcome"], fields["count"]
    # Row 0's events, row 0's rest, row 1's events, ...
    both = np.stack([events, count - events], axis=1).reshape(-1)
    kept = np.flatnonzero(both)
    return _selected(fields, kept >> 1) | {
        "outcome": locked((1 - (kept & 1)).astype(np.uint8)),
        "count": locked(both[kept]),
        "ignored": fields["ignored"] + np.count_nonzero(count == 0),
    }


def _selected(fields: Plain, rows: Array) -> Plain:
    """Take some rows of every field."""
    chosen = {name: locked(fields[name][rows]) for name in ROWS if fields[name] is not None}
    chosen["columns"] = fields["columns"].take(rows)
    if fields["id"] is not None:
        chosen["id"] = fields["id"].take(rows)  # of numpy as of Arrow
    return fields | chosen
