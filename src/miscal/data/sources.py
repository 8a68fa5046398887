"""`read`: predictions from any table, by the names of its columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

import numpy as np

from miscal.codes.data import Response
from miscal.data import checks, outcomes
from miscal.data.arrays import Vector, expanded, factorise, flat, frame_of, names_of, sigmoid, unique
from miscal.data.errors import MiscalError, check_named, listed, parameter, refusal, warn
from miscal.data.files import TableFile
from miscal.data.libraries import special
from miscal.data.predictions import NAMES, Predictions, RawPredictions
from miscal.data.responses import Units, check_response, needed_response

SUSPICIOUS = 20  # logits from which it is no accident that all of them lie in [0, 1]


def read(
    source: Any,
    *,
    outcome: str,
    probability: str | Sequence[str] | Mapping[Any, str] | None = None,
    logit: bool = False,
    weight: str | None = None,
    count: str | None = None,
    cluster: str | None = None,
    id: str | None = None,  # noqa: A002  # the contract's name
    positive: Any = None,
    columns: Sequence[str] | None = None,
    clip: float = 0.0,
    prediction: str | None = None,
    response: str = "binary",
    exposure: str | None = None,
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
        are then matched with the names of the columns (with or without a common beginning such as ``p_``). A name that
        is no column stands for those that begin with it ("p": p_cat, p_dog, ...), and "p_*" for those that it fits.
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
    prediction : str, optional
        In the place of `probability`: the column of predicted means, with `response`.
    response : {"binary", "real", "count"}
        What is predicted: an event, any number (amounts, scores, soft labels), or a count.
    exposure : str, optional
        Column of exposures; the prediction is then a rate a unit of exposure.

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
    probability = one_prediction(probability, prediction, response)
    roles = ReadRoles(
        outcome, probability, weight, count, cluster, id, positive, logit, clip, response, exposure
    )
    return roles.read(source, columns)


def one_prediction(probability: Any, prediction: Any, response: str) -> Any:
    """The column of what was predicted, by either of its names; None where it was not named."""
    if probability is not None and prediction is not None:
        got = f"got probability={probability!r} and prediction={prediction!r}"
        raise refusal("cannot go with 'probability'", "'prediction'", got=got, hint="name the column once")
    if check_response(response) != "binary" and not isinstance(probability, (str, type(None))):
        raise refusal("must name one column", "'prediction'", got=f"got {probability!r}")
    return prediction if probability is None else probability


def _opened(source: Any) -> tuple[list[str], Any]:
    """Names of the columns, and a function that loads some of them."""
    if isinstance(source, (str, PathLike)):
        file = TableFile(fspath(source))
        unique(file.names, file.where)
        return file.names, lambda only: frame_of(file.load(only), file.where)
    if isinstance(source, Predictions):
        raise refusal("must be a table or a path", "'source'", got="got Predictions, which are read already")
    names = [str(name) for name in names_of(source, "'source'")]
    unique(names, "the table")
    return names, lambda only: frame_of(source, "the table", only)


def unnamed(where: str, names: Sequence[str], role: str = "probability") -> MiscalError:
    """The refusal for a table whose outcome and probability were not named; it lists the columns there are."""
    shown = listed([f"'{name}'" for name in names], 12)
    what = f"needs the names of the outcome and {role} columns"
    hint = f"say {parameter('outcome', 'NAME')} and {parameter(role, 'NAME')}"
    return refusal(what, where, got=f"the columns are {shown}", hint=hint)


@dataclass(frozen=True)
class ReadRoles:
    """Which column plays which part, as `read` was told."""

    outcome: str
    probability: Any
    weight: str | None = None
    count: str | None = None
    cluster: str | None = None
    id: str | None = None
    positive: Any = None
    logit: bool = False
    clip: float = 0.0
    response: str = "binary"
    exposure: str | None = None
    units: Units | None = None  # of the whole table, known before its parts are read

    @property
    def probabilities(self) -> list[str]:
        """Columns of the probabilities, in the order given."""
        given = self.probability
        if isinstance(given, Mapping):
            return list(given.values())
        return list(given) if isinstance(given, (list, tuple)) else [given]

    @property
    def named(self) -> list[tuple[str, Any]]:
        """Every part that is played, with its column."""
        parts = [("outcome", self.outcome), *(("probability", name) for name in self.probabilities)]
        others = [(role, getattr(self, role)) for role in ("weight", "count", "exposure", "cluster", "id")]
        return parts + [(role, name) for role, name in others if name is not None]

    @property
    def names(self) -> list[str]:
        """All columns that play a part, each once."""
        return list(dict.fromkeys(name for _, name in self.named))

    def read(self, source: Any, columns: Iterable[str] | None = None, part: str = "") -> Predictions:
        """Read a whole table; or one batch of a larger one, called `part`: without what only all rows together tell.

        Rows of weight 0 are left out and a batch may have none left.
        """
        names, load = _opened(source)
        roles = replace(self, probability=expanded(self.probability, names))
        roles.check(names)
        checks.truth("logit", self.logit)
        checks.number("clip", self.clip, 0.0, 0.5, below=True, hint="a small tolerance, such as 1e-6")
        kept = _kept(columns, names, roles)
        table = load(list(dict.fromkeys([*roles.names, *kept])))
        wanted = self.outcome, *roles.probabilities
        vectors = {name: flat(table[name], f"column '{name}'") for name in wanted}
        checks.check_lengths({f"column '{name}'": vector for name, vector in vectors.items()})
        labels = vectors.pop(self.outcome)
        if self.response != "binary" and (self.logit or self.clip):
            raise refusal(f"needs {needed_response(Response.BINARY)}", "'logit'" if self.logit else "'clip'")
        classes, event = _classes_of(roles, labels)
        beside = {role: table[name] for role, name in self.named if role not in ("outcome", "probability")}
        return Predictions.validated(
            RawPredictions(
                labels,
                probabilities_given(vectors, logit=self.logit, clip=self.clip),
                **beside,
                columns={name: table[name] for name in kept},
                classes=classes,
                positive=event,
                names=roles.words(),
                response=self.response,
                units=self.units,
                part=bool(part),
            )
        )

    def check(self, names: list[str]) -> None:
        """Refuse what is not the name of a column, and a column that plays two parts; a cluster may also be the id."""
        if not self.probabilities:
            raise refusal("must name at least one column", "'probability'", got=f"got {self.probability!r}")
        if self.outcome is None or self.probability is None:
            raise unnamed("the table", names)
        taken: dict[str, str] = {}
        for role, name in self.named:
            check_named([name], names, f"{parameter(role)}: the table")
            if name in taken and {role, taken[name]} != {"cluster", "id"}:
                got = f"column '{name}' is also '{taken[name]}'"
                raise refusal("must be a column of its own", f"'{role}'", got=got)
            taken[name] = role

    def words(self) -> dict[str, str]:
        """How messages name the parts."""
        words = {role: f"column '{name}'" for role, name in self.named}
        if len(self.probabilities) > 1:
            words["probability"] = "the probabilities " + ", ".join(
                f"'{name}'" for name in self.probabilities
            )
        return NAMES | words


def _kept(columns: Any, names: list[str], roles: ReadRoles) -> list[str]:
    if columns is None:
        return [name for name in names if name not in roles.names]
    if isinstance(columns, str) or not hasattr(columns, "__iter__"):
        raise refusal("must be a list of names", "'columns'", got=f"got {columns!r}")
    kept = list(columns)
    check_named(kept, names, "'columns': the table")
    if roles.outcome in kept:
        raise refusal("must not hold the outcome", "'columns'", got=f"'{roles.outcome}' is the outcome")
    unique(kept, "'columns'")
    return kept


def _classes_of(roles: ReadRoles, labels: Vector) -> tuple[Any, Any]:
    """Classes and event: stated in the mapping, or read from the names of the columns when the labels are words."""
    stated = tuple(roles.probability) if isinstance(roles.probability, Mapping) else None
    names, positive = roles.probabilities, roles.positive
    if len(names) == 1 and stated is not None:
        if positive is not None and positive != stated[0]:
            got = f"got {positive!r} beside a probability of {stated[0]!r}"
            raise refusal("must be the class whose probability is given", "'positive'", got=got)
        return None, stated[0]
    if len(names) == 1 or stated is not None or roles.count is not None or not outcomes.are_words(labels):
        return stated, positive
    # Without what all names begin with, up to the last mark: p_cat, p_dog become cat, dog.
    heads = {name[: -len(tail)] for name in names if (tail := name.replace(".", "_").rpartition("_")[2])}
    common = len(heads.pop()) if len(heads) == 1 else 0
    short = tuple(name[common:] for name in names)
    return (short if set(map(str, factorise(labels)[1])) <= set(short) else None), positive


def probabilities_given(vectors: Mapping[str, Vector], *, logit: bool, clip: float = 0.0) -> Any:
    """The columns as probabilities yet to be checked: one vector, several by name, or what logits stand for."""
    if logit:
        what, most = "must hold logits, finite numbers", np.finfo(np.float64).max
        made = [
            checks.bounded(vector, f"column '{name}'", what, -most, most) for name, vector in vectors.items()
        ]
        if made[0].size >= SUSPICIOUS and all(checks.inside(each, 0.0, 1.0) for each in made):
            names = ", ".join(f"'{name}'" for name in vectors)
            leave_out = f"then leave {parameter('logit', 'True')} out"
            warn(f"every value of {names} lies in [0, 1]: probabilities already? {leave_out}")
        if len(made) == 1:
            return sigmoid(made[0])
        return special.softmax(np.column_stack(made), axis=1)
    given = dict(vectors)
    for name, vector in vectors.items() if clip else ():
        values = checks.numbers(vector, f"column '{name}'", checks.PROBABILITY)
        held = np.clip(values, 0.0, 1.0)
        given[name] = np.where(np.abs(values - held) <= clip, held, values)
    first, *others = given.values()
    return given if others else first
