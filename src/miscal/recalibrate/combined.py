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

#: A member of less weight is left out of a blend.
MIN_BLEND_WEIGHT = 0.05
MAX_SLSQP_ITERATIONS = 200
#: How far the sum of given weights may be from 1.
WEIGHT_SUM_TOLERANCE = 1e-6

LIST_REQUIREMENT = "must be a list of recalibrators, such as [SamplingCorrection(rate=0.1), PlattScaling()]"


def _are_weights(value: Any) -> bool:
    if np.ndim(value) != 1 or not all(0.0 <= weight <= 1.0 for weight in value):
        return False
    return bool(abs(sum(value) - 1.0) <= WEIGHT_SUM_TOLERANCE)


class Chain(Recalibrator):
    """Fit recalibrators one after another, each on the probabilities that those before it give.

    The first may be a correction that learns nothing, such as `SamplingCorrection`. All are fitted on the same rows.
    Keeps the ranking if all of them do.

    Parameters
    ----------
    steps : list of Recalibrator
        They are copied, not changed.

    Attributes
    ----------
    steps_ : list of Recalibrator
        Fitted.

    Examples
    --------
    >>> from miscal.recalibrate import Chain, HistogramBinning, SamplingCorrection
    >>> chain = Chain([SamplingCorrection(rate=0.5), HistogramBinning(bins=2)])
    >>> chain.fit([0.5, 0.6, 0.9], [0, 1, 1]).predict_proba([0.55])[:, 1]
    array([0.5])
    """

    moves_certain_scores = False  # its steps do

    steps: Any = parameter(check_list, Recalibrator, 1, LIST_REQUIREMENT)
    steps_: list[Recalibrator] = state("inner")

    @property
    def uses_columns(self) -> bool:  # type: ignore[override]
        """Whether any step uses columns."""
        return any(step.uses_columns for step in self.steps)

    def check_state(self) -> None:
        """Reject steps that do not belong to the parameters."""
        if [type(step) for step in self.steps_] != [type(step) for step in self.steps]:
            raise ValueError("the fitted steps are not those of the parameters")

    def _fit(self, sample: TrainingSample) -> None:
        self.steps_ = []
        probability = sample.probability
        for step in self.steps:
            fitted = step.fit_copy(replace(sample, probability=probability))
            self.steps_.append(fitted)
            probability = _next_probability(fitted, probability, sample.columns)

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        for step in self.steps_:
            probability = _next_probability(step, probability, columns)
        return normalised_matrix(probability)

    def _keeps_ranking(self) -> bool:
        return all(step.keeps_ranking for step in (self.steps_ if self.is_fitted() else self.steps))

    def _formula(self) -> nodes.Formula:
        return reduce(nodes.then, [step.formula() for step in self.steps_])


def _next_probability(step: Recalibrator, probability: Floats, columns: Columns) -> Floats:
    """The probabilities that the next step is given: (n,) of two classes."""
    mapped = step.map_checked(probability, columns)
    return mapped[:, 1].copy() if probability.ndim == 1 else mapped


class Blend(Recalibrator):
    """Blend recalibrators: ln P is the weighted mean of their ln P, less a constant that makes rows sum to 1.

    The weights are at least 0, sum to 1 and minimise the log loss of cross-fitted predictions: each member is fitted on
    all folds but one and predicts the one left out. Members whose weight is less than 0.05 are left out and the others'
    weights are fitted again; then the members that are left are fitted on all rows. Probabilities are clipped to at
    least 1e-12. With two classes the blend is a mean of logits. Keeps the ranking where all its members do and there
    are two classes.

    Parameters
    ----------
    recalibrators : list of Recalibrator
        What is blended; they are copied, not changed.
    cv : int, default=5
        Number of folds.
    random_state : int, default=0
        Seed of the folds.
    weights : list of float, optional
        One per recalibrator, with sum 1. With them, none are fitted.

    Attributes
    ----------
    weights_ : (members,) array
        Above 0.
    members_ : list of Recalibrator
        Those with a weight, fitted.

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
        """Whether any member uses columns."""
        return any(recalibrator.uses_columns for recalibrator in self.recalibrators)

    def check_state(self) -> None:
        """Reject weights that do not belong to the members or do not sum to 1."""
        if len(self.weights_) != len(self.members_) or not _are_weights(self.weights_):
            raise ValueError("the weights must be one per member and sum to 1")

    def _fit(self, sample: TrainingSample) -> None:
        if self.weights is None:
            folds = assign_folds(sample.rows, self.cv, random_state=self.random_state)
            held_out = [cross_fitted(recalibrator, sample, folds)[0] for recalibrator in self.recalibrators]
            weights = blend_weights(clipped_log(np.stack(held_out)), sample.outcome, sample.weights)
        else:
            weights = np.asarray(self.weights, np.float64)
        if len(weights) != len(self.recalibrators):
            raise refusal("must be one per recalibrator", "'weights'", got=f"got {len(weights)}")
        members = np.flatnonzero(weights)
        self.weights_ = weights[members]
        self.members_ = [self.recalibrators[member].fit_copy_quietly(sample) for member in members]

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        logs = np.zeros((len(probability), self.n_classes_))
        for weight, member in zip(self.weights_, self.members_, strict=True):
            logs += weight * clipped_log(member.map_checked(probability, columns))
        if probability.ndim == 1:
            return sigmoid(logs[:, 1] - logs[:, 0])
        return softmax(logs)[0]

    def _keeps_ranking(self) -> bool:
        members = self.members_ if self.is_fitted() else self.recalibrators
        return all(member.keeps_ranking for member in members)

    def _formula(self) -> nodes.Formula:
        """The mean of the members' logits; each member has a name, because it is used twice."""
        names = [nodes.Name(f"member_{i}") for i in range(len(self.members_))]
        terms: nodes.Terms = ()
        for weight, name in zip(self.weights_.tolist(), names, strict=True):
            log_event, log_other = nodes.logs_of_classes(name)
            terms += (weight, log_event), (-weight, log_other)
        formula: nodes.Node = nodes.Sigmoid(nodes.Linear(terms))
        for name, member in zip(names, self.members_, strict=True):
            formula = nodes.named(name.name, member.formula(), formula)
        return formula

    def _summary(self) -> str:
        """The members with their weights, the largest first."""
        order = np.argsort(-self.weights_, kind="stable")
        return ", ".join(f"{self.weights_[i]:.0%} {clone(self.members_[i])!r}" for i in order)


def blend_weights(logs: Floats, outcome: Array, weight: Floats) -> Floats:
    """Weights on the simplex of least log loss of a blend; those below 0.05 become 0.

    Parameters
    ----------
    logs : (members, n, K) array
        Log-probabilities of each member.
    outcome : (n,) array of int
        Classes.
    weight : (n,) array
        Of the rows.

    Returns
    -------
    (members,) array
        With sum 1.
    """
    shares = _simplex_minimum(logs, outcome, weight)
    members = np.flatnonzero(shares >= MIN_BLEND_WEIGHT)
    if 0 < len(members) < len(shares):
        refitted = _simplex_minimum(logs[members], outcome, weight)
        shares = np.zeros(len(shares))
        shares[members] = np.where(refitted >= MIN_BLEND_WEIGHT, refitted, 0.0)
    return np.asarray(shares / shares.sum())


def _simplex_minimum(logs: Floats, outcome: Array, weight: Floats) -> Floats:
    """Minimise the convex loss on the simplex."""
    share = weight / weight.sum()
    observed_logs = logs[:, np.arange(len(outcome)), outcome] @ share

    def evaluate(weights: Floats) -> tuple[float, Floats]:
        probability, log_sum = softmax(np.tensordot(weights, logs, axes=1))
        probability *= share[:, None]
        loss = share @ log_sum - weights @ observed_logs
        return loss, np.einsum("mnk,nk->m", logs, probability) - observed_logs

    optimum = optimize.minimize(
        evaluate,
        np.full(len(logs), 1.0 / len(logs)),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(logs),
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1.0, "jac": np.ones_like},
        options={"maxiter": MAX_SLSQP_ITERATIONS, "ftol": 1e-9},
    ).x
    clipped = np.clip(optimum, 0.0, 1.0)
    return np.asarray(clipped / clipped.sum())
