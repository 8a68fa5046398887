"""Recalibrators made of others: one after another, and their weighted geometric mean."""

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from sklearn.base import clone

from miscal.data.arrays import Array, Floats, sigmoid
from miscal.data.checks import whole
from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.data.libraries import optimize
from miscal.export import formula as nodes
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.cross_fitting import cross_fitted
from miscal.recalibrate.parameters import check_list, check_that, parameter, state
from miscal.recalibrate.probability_arrays import normalised_matrix
from miscal.recalibrate.softmax_fit import clipped_log, softmax
from miscal.recalibrate.training_sample import TrainingSample
from miscal.stats.isotonic import assign_folds

MIN_BLEND_WEIGHT = 0.05  # a member of less weight is left out
MAX_SLSQP_ITERATIONS = 200


def _are_weights(given: Any) -> bool:
    return np.ndim(given) == 1 and all(0.0 <= each <= 1.0 for each in given) and abs(sum(given) - 1.0) <= 1e-6


LIST_REQUIREMENT = "must be a list of recalibrators, such as [SamplingCorrection(rate=0.1), PlattScaling()]"


class Chain(Recalibrator):
    """Fit recalibrators one after another, each on the probabilities that those before it give.

    The first may be a correction that learns nothing, such as `SamplingCorrection`. All are fitted on the same rows.
    Keeps the ranking if all of them do.

    Parameters
    ----------
    steps : list of recalibrators
        Those given are not changed.

    Attributes
    ----------
    steps_ : list of fitted recalibrators

    Examples
    --------
    >>> from miscal.recalibrate import Chain, HistogramBinning, SamplingCorrection
    >>> fixed = Chain([SamplingCorrection(rate=0.5), HistogramBinning(bins=2)]).fit(
    ...     [0.5, 0.6, 0.9], [0, 1, 1]
    ... )
    >>> fixed.predict_proba([0.55])[:, 1]
    array([0.5])
    """

    moves_certain_scores = False  # its steps do

    steps: Any = parameter(check_list, Recalibrator, 1, LIST_REQUIREMENT)
    steps_: list[Recalibrator] = state("inner")

    @property
    def uses_columns(self) -> bool:  # type: ignore[override]
        """Whether X is looked at."""
        return any(step.uses_columns for step in self.steps)

    def check_state(self) -> None:
        """Refuse steps that do not belong to the parameters."""
        if [type(step) for step in self.steps_] != [type(step) for step in self.steps]:
            raise ValueError("the fitted steps are not those of the parameters")

    def _fit(self, sample: TrainingSample) -> None:
        self.steps_ = []
        probability = sample.probability
        for step in self.steps:
            made = step.fit_copy(replace(sample, probability=probability))
            self.steps_.append(made)
            probability = _next_probability(made, probability, sample.columns)

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        for step in self.steps_:
            probability = _next_probability(step, probability, columns)
        return normalised_matrix(probability)

    def _keeps_ranking(self) -> bool:
        return all(step.keeps_ranking for step in (self.steps_ if self.is_fitted() else self.steps))

    def _formula(self) -> nodes.Formula:
        return reduce(nodes.then, [step.formula() for step in self.steps_])


def _next_probability(step: Recalibrator, probability: Floats, columns: Columns) -> Floats:
    """The probabilities that the next step sees: (n,) of two classes."""
    found = step.map_checked(probability, columns)
    return found[:, 1].copy() if probability.ndim == 1 else found


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
    weights : list of numbers that sum to 1, one a recalibrator, optional
        Given, none are learned.

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

    recalibrators: Any = parameter(check_list, Recalibrator, 1, LIST_REQUIREMENT)
    cv: int = parameter(whole, 2, 1000, default=5)
    random_state: int = parameter(whole, 0, 2**31 - 1, default=0)
    weights: Any = parameter(check_that, _are_weights, "must be at least 0 and sum to 1", default=None)
    weights_: Floats = state("float", "any", low=0.0, high=1.0)
    members_: list[Any] = state("inner")

    @property
    def uses_columns(self) -> bool:  # type: ignore[override]
        """Whether any member looks at columns."""
        return any(each.uses_columns for each in self.recalibrators)

    def check_state(self) -> None:
        """Refuse weights that are none."""
        if len(self.weights_) != len(self.members_) or not _are_weights(self.weights_):
            raise ValueError("the weights must be one a member and sum to 1")

    def _fit(self, sample: TrainingSample) -> None:
        if self.weights is None:
            folds = assign_folds(sample.rows, self.cv, random_state=self.random_state)
            seen = [cross_fitted(each, sample, folds)[0] for each in self.recalibrators]
            weights = blend_weights(clipped_log(np.stack(seen)), sample.outcome, sample.weights)
        else:
            weights = np.asarray(self.weights, np.float64)
        if len(weights) != len(self.recalibrators):
            raise refusal("must be one a recalibrator", "'weights'", got=f"got {len(weights)}")
        kept = np.flatnonzero(weights)
        self.weights_ = weights[kept]
        self.members_ = [self.recalibrators[i].fit_copy_quietly(sample) for i in kept]

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        total = np.zeros((len(probability), self.n_classes_))
        for weight, member in zip(self.weights_, self.members_, strict=True):
            total += weight * clipped_log(member.map_checked(probability, columns))
        if probability.ndim == 1:
            return sigmoid(total[:, 1] - total[:, 0])
        return softmax(total)[0]

    def _keeps_ranking(self) -> bool:
        members = self.members_ if self.is_fitted() else self.recalibrators
        return all(each.keeps_ranking for each in members)

    def _formula(self) -> nodes.Formula:
        """The mean of the members' logits; each member has a name, because it is used twice."""
        names = [nodes.Name(f"member_{i}") for i in range(len(self.members_))]
        terms: nodes.Terms = ()
        for weight, name in zip(self.weights_.tolist(), names, strict=True):
            own, other = nodes.logs_of_classes(name)
            terms += (weight, own), (-weight, other)
        found: nodes.Node = nodes.Sigmoid(nodes.Linear(terms))
        for name, member in zip(names, self.members_, strict=True):
            found = nodes.named(name.name, member.formula(), found)
        return found

    def _summary(self) -> str:
        """The members with their weights, the largest first."""
        order = np.argsort(-self.weights_, kind="stable")
        return ", ".join(f"{self.weights_[i]:.0%} {clone(self.members_[i])!r}" for i in order)


def blend_weights(logs: Floats, outcome: Array, weight: Floats) -> Floats:
    """Weights (members,) on the simplex of least log loss for ln P (members, n, K); those below 0.05 become 0."""
    found = _simplex_minimum(logs, outcome, weight)
    kept = np.flatnonzero(found >= MIN_BLEND_WEIGHT)
    if 0 < len(kept) < len(found):
        again = _simplex_minimum(logs[kept], outcome, weight)
        found = np.zeros(len(found))
        found[kept] = np.where(again >= MIN_BLEND_WEIGHT, again, 0.0)
    return np.asarray(found / found.sum())


def _simplex_minimum(logs: Floats, outcome: Array, weight: Floats) -> Floats:
    """Minimise the convex loss on the simplex."""
    share = weight / weight.sum()
    own = logs[:, np.arange(len(outcome)), outcome] @ share

    def evaluate(weights: Floats) -> tuple[float, Floats]:
        likely, log_sum = softmax(np.tensordot(weights, logs, axes=1))
        likely *= share[:, None]
        return share @ log_sum - weights @ own, np.einsum("mnk,nk->m", logs, likely) - own

    start = np.full(len(logs), 1.0 / len(logs))
    found = optimize.minimize(
        evaluate,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(logs),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        options={"maxiter": MAX_SLSQP_ITERATIONS, "ftol": 1e-9},
    ).x
    held = np.clip(found, 0.0, 1.0)
    return np.asarray(held / held.sum())
