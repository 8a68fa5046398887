"""A blend: the weighted geometric mean of several recalibrators, weighed on rows that they have not seen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from miscal.data.columns import Columns
from miscal.data.errors import MiscalWarning, refusal
from miscal.data.vectors import sigmoid
from miscal.inference.beyond import fold_of_rows
from miscal.recalibrate.base import Array, Floats, Recalibrator, Sample, pairs
from miscal.recalibrate.classes.softmax import logs_of, softmax
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.state import Field

LEAST = 0.05  # a member of less weight is left out
MOST_STEPS = 200


class Blend(Recalibrator):
    """Mix recalibrators: ln P is the weighted mean of their ln P, less a constant that makes rows sum to 1.

    The weights are at least 0, sum to 1 and minimise the log loss of cross-fitted predictions: each member is fitted on
    all folds but one and speaks for the one left out. Members that get less than 0.05 are left out and the others are
    weighed again; then the members that are left are fitted on all rows. Probabilities are held at 1e-12 or more. With
    two classes that is a mean of logits. Keeps the ranking where all its members do and there are two classes.

    Parameters
    ----------
    recalibrators : list of Recalibrator
        What is mixed; those given are not changed.
    cv : int
        Number of folds.
    random_state : int
        Of the folds.

    Attributes
    ----------
    weights_ : (members,)
    members_ : list of fitted Recalibrator
        Those with a weight.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.recalibrate import BetaCalibration, Identity
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(2, 3, 3000)
    >>> Blend([Identity(), BetaCalibration()]).fit(p, rng.random(3000) < p**2)
    Blend(recalibrators=[Identity(), BetaCalibration()]) fitted on 3,000 rows: 100% BetaCalibration()
    """

    broken_laws: ClassVar[Mapping[str, str]] = {
        "repetition": "folds are drawn of rows",
        "order": "folds are drawn by the rows' places",
    }
    fields: ClassVar[dict[str, Field]] = {"weights_": Field("float", ("any",), 0.0, 1.0), "members_": Field("inner")}

    weights_: Floats
    members_: list[Recalibrator | None]

    def __init__(self, recalibrators: Any, cv: int = 5, random_state: int = 0) -> None:
        self.recalibrators = recalibrators
        self.cv = cv
        self.random_state = random_state

    @property
    def uses_columns(self) -> bool:  # type: ignore[override]
        """Whether any member looks at columns."""
        return any(each.uses_columns for each in self.recalibrators if isinstance(each, Recalibrator))

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        given = self.recalibrators
        if not isinstance(given, (list, tuple)) or not given or not all(isinstance(g, Recalibrator) for g in given):
            raise refusal("must be a list of recalibrators", where="'recalibrators'", got=f"got {given!r}"[:200])
        for each in given:
            each.check_parameters()
        parameters.whole("cv", self.cv, 2, 1000)
        parameters.whole("random_state", self.random_state, 0, 2**31 - 1)

    def check_state(self) -> None:
        """Refuse weights that are none, and members of other classes."""
        if len(self.weights_) != len(self.members_) or not 0.999999 <= float(self.weights_.sum()) <= 1.000001:
            raise ValueError("the weights must be one a member and sum to 1")
        for member in self.members_:
            if member is None or not member.is_fitted() or member.n_classes_ != self.n_classes_:
                raise ValueError("a member is not fitted to these classes")
            if member.uses_columns and not self.uses_columns:
                raise ValueError("a member looks at columns, which none of the recalibrators does")

    def _fit(self, sample: Sample) -> None:
        folds = fold_of_rows(sample.rows, int(self.cv), random_state=int(self.random_state))
        seen = np.empty((len(self.recalibrators), sample.rows, sample.n_classes))
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            for i, each in enumerate(self.recalibrators):
                seen[i, test] = predicted(fitted_on(each, sample.take(train)), sample.take(test))
        weights = blend_weights(logs_of(seen), sample.outcome, sample.weight)
        kept = np.flatnonzero(weights)
        self.weights_ = weights[kept]
        self.members_ = [fitted_on(self.recalibrators[i], sample) for i in kept]

    @classmethod
    def of(cls, members: Sequence[Recalibrator], weights: Floats, rows: int) -> Self:
        """A blend of fitted members with given weights."""
        made = cls([clone(member) for member in members])
        made.weights_, made.members_ = np.asarray(weights, dtype=np.float64), list(members)
        made.classes_, made.identity_, made.n_rows_ = members[0].classes_, False, rows
        return made

    def _map(self, probability: Floats) -> Floats:
        return self._map_beside(probability, Columns({}))

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        total = np.zeros((len(probability), self.n_classes_))
        for weight, member in zip(self.weights_, self.members_, strict=True):
            assert member is not None
            own = member.predict_proba(probability, columns if member.uses_columns else None)
            total += weight * logs_of(own)
        if probability.ndim == 1:
            return pairs(sigmoid(total[:, 1] - total[:, 0]))
        return softmax(total)[0]

    def _keeps_ranking(self) -> bool:
        members = self.members_ if self.is_fitted() else self.recalibrators
        return all(each is not None and each.keeps_ranking for each in members)

    def _formula(self) -> nodes.Formula:
        """The mean of the members' logits; each member has a name, because it is used twice."""
        names = [nodes.Name(f"member_{i}") for i in range(len(self.members_))]
        terms: list[tuple[float, nodes.Node]] = []
        for weight, name in zip(self.weights_.tolist(), names, strict=True):
            own, other = nodes.logs_of_classes(name)
            terms += [(weight, own), (-weight, other)]
        found: nodes.Node = nodes.Sigmoid(nodes.Linear(tuple(terms), 0.0))
        members: list[Any] = list(self.members_)
        for name, member in zip(names, members, strict=True):
            found = nodes.Named(name.name, member.formula(), found)
        return found

    @classmethod
    def _examples(cls) -> list[Recalibrator]:
        from miscal.recalibrate.by_columns.variable_tree import VariableTree
        from miscal.recalibrate.score.curves import TemperatureScaling

        return [cls([TemperatureScaling(), VariableTree(max_depth=2)], cv=2)]

    def shares(self) -> str:
        """The members with their weights, the largest first, in words."""
        order = np.argsort(-self.weights_, kind="stable")
        return ", ".join(f"{self.weights_[i]:.0%} {clone(self.members_[i])!r}" for i in order)

    def _summary(self) -> str:
        return self.shares()


def predicted(fitted: Recalibrator, sample: Sample) -> Floats:
    """What a fitted one says of rows."""
    return fitted.predict_proba(sample.probability, sample.columns if fitted.uses_columns else None)


def fitted_on(each: Recalibrator, sample: Sample) -> Recalibrator:
    """A copy fitted on the rows; what it has to say of them is for the one who fits it alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MiscalWarning)
        beside = sample.columns if each.uses_columns else None
        made: Recalibrator = clone(each)
        return made.fit(sample.probability, sample.outcome, beside, sample.weight)


def blend_weights(logs: Floats, outcome: Array, weight: Floats | None = None) -> Floats:
    """Weights (members,) on the simplex of least log loss for ln P (members, n, K); those below 0.05 become 0."""
    found = _least(logs, outcome, weight)
    kept = np.flatnonzero(found >= LEAST)
    if 0 < len(kept) < len(found):
        again = _least(logs[kept], outcome, weight)
        found = np.zeros(len(found))
        found[kept] = np.where(again >= LEAST, again, 0.0)
    return np.asarray(found / found.sum())


def _least(logs: Floats, outcome: Array, weight: Floats | None) -> Floats:
    """Minimise the convex loss on the simplex."""
    from scipy.optimize import minimize

    count = len(logs)
    if count == 1:
        return np.ones(1)
    share = np.full(len(outcome), 1.0 / len(outcome)) if weight is None else weight / weight.sum()
    own = np.take_along_axis(logs, outcome.astype(np.int64)[None, :, None], axis=2)[:, :, 0]

    def evaluate(weights: Floats) -> tuple[float, Floats]:
        likely, log_sum = softmax(np.tensordot(weights, logs, axes=1))
        likely *= share[:, None]
        slope = np.einsum("mnk,nk->m", logs, likely) - own @ share
        return float(share @ log_sum - weights @ (own @ share)), slope

    rule = {"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": lambda w: np.ones(len(w))}
    options = {"maxiter": MOST_STEPS, "ftol": 1e-9}
    start, bounds = np.full(count, 1.0 / count), [(0.0, 1.0)] * count
    found = minimize(evaluate, start, jac=True, method="SLSQP", bounds=bounds, constraints=[rule], options=options).x
    held = np.clip(found, 0.0, 1.0)
    return np.asarray(held / held.sum())
