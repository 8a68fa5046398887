"""Choose a recalibrator by cross-fitting, and leave the predictions as they are where nothing helps significantly.

The flow: recalibrators offer candidates (`candidates_for`), each predicts held-out rows and is scored (`held_out`), and
`_decide` takes one by the scores alone. It says why as a `Choice`, a record of codes and numbers; `reason`, the
sentence, is made from it by `miscal.words`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from miscal import recalibrate
from miscal.codes.data import Response
from miscal.codes.recalibration import Change, Choice, ChoiceReason
from miscal.data.arrays import Array, Floats
from miscal.data.checks import number, whole
from miscal.data.columns import Columns
from miscal.data.errors import check_named, refusal
from miscal.data.predictions import METRIC, Predictions, RawPredictions
from miscal.export import formula as nodes
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.held_out import (
    CandidateScore,
    blended_predictions,
    candidate_score,
    held_out_predictions,
    paired_difference,
    top_label_growth_p_value,
    weighted_mean,
)
from miscal.recalibrate.identity import Identity
from miscal.recalibrate.outcome_families import FAMILIES
from miscal.recalibrate.parameters import check_list, named_columns, parameter, state
from miscal.recalibrate.training_sample import TrainingSample
from miscal.results import Table
from miscal.stats.isotonic import assign_folds

Progress = Callable[[float, str], None]
#: Fewest rows, and rows outside the most frequent class, to compare candidates on.
MIN_ROWS_TO_CHOOSE = 50
MIN_ROWS_OUTSIDE_MODE = 10
#: Probability of changing calibrated probabilities; studies/choose_false_alarms.py counts how often it happens.
CHOICE_LEVEL = 0.05
#: Share of that level for the blend: its members were compared on rows that its weights were fitted to.
BLEND_LEVEL_SHARE = 0.2
#: The name of the candidate that leaves predictions as they are; it is always the first.
UNCHANGED = "Identity"
#: Decimals of the error by audited columns, in units of the outcome: smaller differences are chance.
AUDITED_ERROR_DECIMALS = 3


def choose(
    y_prob: Any,
    y: Any,
    X: Any = None,
    *,
    by: Sequence[str] | None = None,
    allowed: Sequence[str] | None = None,
    candidates: str | Mapping[str, Recalibrator] | Sequence[Recalibrator] = "auto",
    cv: int = 5,
    sample_weight: Any = None,
    random_state: int = 0,
    cluster: Any = None,
    top_error: float | None = None,
    progress: Progress | None = None,
    response: str = "binary",
    exposure: Any = None,
) -> Recalibrator:
    """Compare recalibrators on held-out rows and return the best one, fitted on all rows.

    Each candidate is fitted on all folds but one and predicts the one left out. With "auto" a `Blend` of them (without
    the isotonic ones, which give probabilities of exactly 0 and 1) is compared too, with weights from the other folds.

    A candidate is eligible only if its held-out log loss is below that of the probabilities as they are, and the gain
    is larger than expected if these were right (one-sided: 1% for the blend, 4% with Bonferroni correction for all
    others; 5% for these where there is no blend). An eligible blend wins, unless one of its members has all the weight
    or a single candidate is better by more than a standard error. Otherwise, among the eligible candidates within one
    standard error of the best, the one with the smallest error by the audited columns wins, then the earlier (simpler)
    one.

    Parameters
    ----------
    y_prob : (n,) or (n, K) array
        The model's probabilities on rows that it was not trained on. Where `response` is not binary, predicted means.
    y : (n,) array
        0/1, truth values or class indices; numbers or counts where `response` says so.
    X : frame, mapping or (n, d) array, optional
        The columns that errors are measured by and that recalibrators may use.
    by : list of str, optional
        Columns by which errors are measured; all of X by default.
    allowed : list of str, optional
        Columns that recalibrators may use; all of X by default. Audit by race, recalibrate without race.
    candidates : "auto", list of Recalibrator, or dict of str to Recalibrator
        What is compared.
    cv : int, default=5
        Number of folds.
    sample_weight : (n,) array, optional
        A row of weight 2 counts as two rows.
    random_state : int, default=0
        Seed of the folds.
    cluster : (n,) array, optional
        Labels. Rows of one cluster share a fold and count as one in standard errors.
    top_error : float, optional
        Several classes: by how much the expected calibration error of the top label may grow on held-out rows (0: not
        at all). Without it, `reason` says where that error grows significantly, since a lower log loss does not rule
        it out.
    progress : callable, optional
        Called with the share done and the candidate's name before each candidate.
    response : {"binary", "real", "count"}, default="binary"
        What the outcome is. Other than binary, no blend is tried and `predict` of the result gives means.
    exposure : (n,) array, optional
        Numbers above 0. `y_prob` is then a rate per unit of exposure, and `y` what was counted.

    Returns
    -------
    Recalibrator
        Fitted, with `name`, `table` (one row per candidate), `choice` (why, as a `miscal.codes.recalibration.Choice`)
        and `reason` (the same as a sentence). `Identity` where nothing helps.

    Notes
    -----
    If the probabilities p were right, the loss saved by a map q that has not seen a row would be on average
    -KL(p, q), the divergence at that row. What a row saves beyond that, ln(q_y / p_y) + KL(p, q), then has mean 0, and
    its mean over rows is compared with its standard error. For two classes it is (y - p) times the change of the logit,
    so that the test asks whether residuals have the sign of the correction. For means m it is (y - m) times the change
    of m (of its logarithm, for counts), whatever the variance of y, and the loss is squared error or Poisson deviance.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.recalibrate import choose
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(2, 3, 3000)
    >>> choose(p, (rng.random(3000) < p).astype(int)).name
    'Identity'
    >>> choose(p, (rng.random(3000) < p**2).astype(int)).name != "Identity"
    True
    >>> years = rng.uniform(0.1, 1, 3000)
    >>> claims = rng.poisson(1.5 * p * years)
    >>> choose(p, claims, response="count", exposure=years)
    MeanScaling() fitted on 3,000 rows: factor 1.41
    """
    chooser = Choose(by, allowed, candidates, cv, random_state, top_error)
    chooser.check_parameters()
    raw = RawPredictions(
        y,
        y_prob,
        sample_weight,
        cluster=cluster,
        columns=chooser._validated_columns(X),  # noqa: SLF001  # as its `fit`
        names=METRIC,
        response=response,
        exposure=exposure,
    )
    return chooser.choose_for(Predictions.validated(raw), progress)


def refit_choice(chosen: Recalibrator, sample: TrainingSample) -> Recalibrator:
    """Fit what `choose` gave again on other rows: the same method (a blend: with the same weights).

    Parameters
    ----------
    chosen : Recalibrator
        What `choose` returned.
    sample : TrainingSample
        The rows to fit on.

    Returns
    -------
    Recalibrator
        A fitted copy with the same name, table and choice.
    """
    return _with_choice(chosen.fit_copy_quietly(sample), chosen)


def _with_choice(recalibrator: Recalibrator, source: Recalibrator) -> Recalibrator:
    """Give a recalibrator the name, table and choice of another."""
    recalibrator.name, recalibrator.table, recalibrator.choice = source.name, source.table, source.choice
    return recalibrator


# ------------------------------------------------------------------------------------------------------- candidates
def candidates_for(sample: TrainingSample) -> dict[str, Recalibrator]:
    """What each recalibrator offers for such rows, by name, the simplest first.

    Parameters
    ----------
    sample : TrainingSample
        The rows: their response, classes and columns decide what is offered.

    Returns
    -------
    dict of str to Recalibrator
        None of them fitted.
    """
    offered: dict[str, Recalibrator] = {}
    for name in recalibrate.kinds():
        kind = getattr(recalibrate, name)
        if sample.response in kind.responses:
            offered |= kind._candidates(sample)  # noqa: SLF001  # its registration
    return offered


def _named_candidates(candidates: Any, sample: TrainingSample) -> dict[str, Recalibrator]:
    """The candidates by name, leaving the predictions as they are first."""
    if _is_automatic(candidates):
        candidates = candidates_for(sample)
    elif isinstance(candidates, Sequence):
        names = [type(candidate).__name__ for candidate in candidates]
        if len(set(names)) < len(names):
            hint = "give a dict: {'my name': recalibrator}"
            raise refusal("must have different names", "'candidates'", hint=hint)
        candidates = dict(zip(names, candidates, strict=True))
    if not isinstance(candidates, Mapping) or not all(
        isinstance(candidate, Recalibrator) for candidate in candidates.values()
    ):
        raise refusal("must be 'auto' or recalibrators", "'candidates'", got=f"got {candidates!r}")
    unchanged: dict[str, Recalibrator] = {UNCHANGED: Identity()}
    return unchanged | dict(candidates) | unchanged  # the first of all, and ours if another has its name


def _is_automatic(candidates: Any) -> bool:
    return isinstance(candidates, str) and candidates == "auto"


def _column_names(columns: Columns, names: Sequence[str] | None, where: str) -> list[str]:
    known = list(columns)
    check_named(names or (), known, f"X, named in {where},")
    return known if names is None else list(names)


# --------------------------------------------------------------------------------------------------------- decision
def _decide(
    scores: Sequence[CandidateScore], rows: Predictions, top_error: float | None
) -> tuple[CandidateScore, Choice]:
    """The candidate that is taken, and why; the first score is that of the predictions as they are."""
    unchanged, *others = scores
    helpful = [score for score in others if _is_helpful(score, others)]
    if not helpful:
        return unchanged, _no_gain(others, rows)
    eligible = helpful
    if top_error is not None and rows.n_classes > 2:
        reference = unchanged.scores["expected"]
        eligible = [score for score in helpful if score.scores["expected"] - reference <= top_error]
    if not eligible:
        choice = _choice(
            ChoiceReason.TOP_LABEL_LIMIT,
            rows,
            n_candidates=len(others),
            n_helpful=len(helpful),
            top_error_limit=top_error,
        )
        return unchanged, choice
    winner = _best(eligible, rows)
    return winner, _gain(winner, unchanged, rows, n_candidates=len(others), n_helpful=len(helpful))


def _is_helpful(score: CandidateScore, others: Sequence[CandidateScore]) -> bool:
    """Whether the held-out loss is below that of the predictions as they are, significantly."""
    n_blends = sum(other.candidate.is_blend for other in others)
    blend_share = BLEND_LEVEL_SHARE * n_blends
    share = blend_share if score.candidate.is_blend else (1.0 - blend_share) / (len(others) - n_blends)
    if score.change == -math.inf:
        return True
    return score.change < 0 and score.p_value <= CHOICE_LEVEL * share


def _best(eligible: Sequence[CandidateScore], rows: Predictions) -> CandidateScore:
    """Among those within a standard error of the lowest loss the blend, or that of least error by audited columns."""
    lowest = min(eligible, key=lambda score: score.mean_loss)
    tied = []
    for score in eligible:
        difference, error = paired_difference(np.asarray(score.loss), np.asarray(lowest.loss), rows)
        if difference <= error:
            tied.append(score)
    unit = 1.0
    if rows.response != Response.BINARY:
        unit = max(weighted_mean(np.abs(rows.outcome), rows), 1e-300)
    return min(
        tied,
        key=lambda score: (
            not score.candidate.is_blend,
            round(score.audited_error / unit, AUDITED_ERROR_DECIMALS),
        ),
    )


def _choice(reason: ChoiceReason, rows: Predictions, **fields: Any) -> Choice:
    """The record of a choice, with what it says of the rows."""
    return Choice(
        reason,
        FAMILIES[rows.response].loss,
        rows=rows.rows,
        rows_outside_mode=_rows_outside_mode(rows),
        probabilities=rows.response == Response.BINARY,
        **fields,
    )


def _rows_outside_mode(rows: Predictions) -> int:
    """Rows outside the most frequent class."""
    return int(rows.rows - np.unique(rows.outcome, return_counts=True)[1].max())


def _cannot_compare(rows: Predictions) -> Choice | None:
    """Why no candidates can be compared, if so."""
    if rows.cluster is not None and np.unique(rows.cluster).size < 2:
        return _choice(ChoiceReason.ONE_CLUSTER, rows)
    if rows.rows < MIN_ROWS_TO_CHOOSE or _rows_outside_mode(rows) < MIN_ROWS_OUTSIDE_MODE:
        return _choice(ChoiceReason.TOO_FEW_ROWS, rows)
    return None


def _no_gain(others: Sequence[CandidateScore], rows: Predictions) -> Choice:
    """Why none of the candidates is taken."""
    finite = [score for score in others if math.isfinite(score.change)]
    if not finite:
        return _choice(ChoiceReason.NO_FINITE_LOSS, rows, n_candidates=len(others))
    best = min(finite, key=lambda score: score.mean_loss)
    return _choice(
        ChoiceReason.NO_SIGNIFICANT_GAIN, rows, n_candidates=len(others), **_candidate_fields(best)
    )


def _gain(winner: CandidateScore, unchanged: CandidateScore, rows: Predictions, **counts: int) -> Choice:
    """Why a candidate is taken, and what it does besides lowering the loss."""
    audited_error = None
    if winner.audited_errors:
        audited_error = Change(unchanged.audited_error, winner.audited_error)
    return _choice(
        ChoiceReason.LOWEST_LOSS,
        rows,
        audited_error=audited_error,
        top_label_error=_top_label_growth(winner, unchanged, rows),
        **counts,
        **_candidate_fields(winner),
    )


def _candidate_fields(score: CandidateScore) -> dict[str, Any]:
    """What a choice says of a candidate."""
    candidate = score.candidate
    return {
        "candidate": candidate.name,
        "gain": -score.change,
        "gain_low": -score.change_high,
        "gain_high": -score.change_low,
        "weights": tuple(sorted(candidate.weights.items(), key=lambda item: -item[1])),
        "keeps_ranking": candidate.keeps_ranking,
    }


def _top_label_growth(winner: CandidateScore, unchanged: CandidateScore, rows: Predictions) -> Change | None:
    """The top label's expected calibration error on held-out rows, where it grows significantly."""
    if rows.n_classes == 2:
        return None
    change = Change(unchanged.scores["expected"], winner.scores["expected"])
    if change.after <= change.before:
        return None
    if top_label_growth_p_value(winner.candidate, unchanged.candidate, rows) > CHOICE_LEVEL:
        return None
    return change


# -------------------------------------------------------------------------------------------------------- estimator
class Choose(Recalibrator):
    """Compare recalibrators on held-out rows and take the best, or none: `choose` with the methods of the others.

    Columns are used where `fit` is given any. See `miscal.recalibrate.choose` for how it is decided.

    Parameters
    ----------
    by : list of str, optional
        Columns by which errors are measured; all of X by default.
    allowed : list of str, optional
        Columns that recalibrators may use; all of X by default.
    candidates : "auto", list of Recalibrator, or dict of str to Recalibrator
        What is compared.
    cv : int, default=5
        Number of folds.
    random_state : int, default=0
        Seed of the folds.
    top_error : float, optional
        Several classes: by how much the expected calibration error of the top label may grow on held-out rows.

    Attributes
    ----------
    chosen_ : list of Recalibrator
        The recalibrator that was chosen, fitted on all rows; a list of one.
    name : str
        Name of the chosen candidate; not in JSON.
    table : Table
        One row per candidate; not in JSON.
    choice : miscal.codes.recalibration.Choice
        Why it was chosen, in codes and numbers; not in JSON.
    reason : str
        The same as a sentence; not in JSON.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.recalibrate import BetaCalibration, Choose, PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(2, 3, 3000)
    >>> chooser = Choose(candidates=[PlattScaling(), BetaCalibration()]).fit(p, rng.random(3000) < p**2)
    >>> chooser.name
    'PlattScaling'
    """

    moves_certain_scores = False  # what is chosen does
    by: Any = parameter(check_list, str, 0, "must be a list of names of columns", default=None)
    allowed: Any = parameter(check_list, str, 0, "must be a list of names of columns", default=None)
    candidates: Any = "auto"
    cv: int = parameter(whole, 2, default=5)
    random_state: int = parameter(whole, 0, 2**31 - 1, default=0)
    top_error: float | None = parameter(number, 0.0, default=None)
    chosen_: list[Recalibrator] = state("inner")

    @property
    def uses_columns(self) -> bool:  # type: ignore[override]
        """Whether what was chosen uses columns."""
        return hasattr(self, "chosen_") and self.chosen_[0].uses_columns

    def check_state(self) -> None:
        """Reject a state that is not one recalibrator."""
        if len(self.chosen_) != 1:
            raise ValueError("there must be one recalibrator")

    def choose_for(self, rows: Predictions, progress: Progress | None = None) -> Recalibrator:
        """What `choose` returns for validated rows.

        Parameters
        ----------
        rows : Predictions
            With the columns that errors are measured by and that recalibrators may use.
        progress : callable, optional
            Called with the share done and the candidate's name before each candidate.

        Returns
        -------
        Recalibrator
            Fitted on all rows, with `name`, `table` and `choice`.
        """
        audited = _column_names(rows.columns, self.by, "'by'")
        usable = _column_names(rows.columns, self.allowed, "'allowed'")
        sample = TrainingSample.from_predictions(rows, Columns({name: rows.columns[name] for name in usable}))
        candidates = _named_candidates(self.candidates, sample)
        choice = _cannot_compare(rows)
        if choice is not None:
            unchanged = Identity().fit_copy_quietly(sample)
            unchanged.name, unchanged.table, unchanged.choice = (
                UNCHANGED,
                Table({"name": [UNCHANGED]}),
                choice,
            )
            return unchanged
        folds = assign_folds(rows.rows, self.cv, cluster=rows.cluster, random_state=self.random_state)
        scores = self._scores(candidates, sample, folds, rows, audited, progress)
        winner, choice = _decide(scores, rows, self.top_error)
        chosen = winner.candidate.recalibrator.fit_copy_quietly(sample)
        chosen.name, chosen.table, chosen.choice = winner.candidate.name, _table(scores), choice
        return chosen

    def _scores(
        self,
        candidates: Mapping[str, Recalibrator],
        sample: TrainingSample,
        folds: Array,
        rows: Predictions,
        audited: Sequence[str],
        progress: Progress | None,
    ) -> list[CandidateScore]:
        """The scores of all candidates, and of their blend."""
        predictions = []
        for done, (name, candidate) in enumerate(candidates.items()):
            if progress is not None:
                progress(done / len(candidates), name)
            predictions.append(held_out_predictions(name, candidate, sample, folds))
        if _is_automatic(self.candidates) and rows.response == Response.BINARY:
            blend = blended_predictions(predictions, sample, folds)
            predictions += [] if blend is None else [blend]
        return [candidate_score(candidate, predictions[0], rows, audited) for candidate in predictions]

    def _validated_columns(self, X: Any) -> Columns | None:
        return None if X is None else named_columns(X, "Choose")

    def _fit(self, sample: TrainingSample) -> None:
        chooser = self if len(sample.columns) else clone(self).set_params(by=None, allowed=None)
        rows = Predictions(sample.outcome, sample.probability, weight=sample.weight, columns=sample.columns)
        chosen = chooser.choose_for(rows)
        self.chosen_ = [chosen]
        _with_choice(self, chosen)

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        return self.chosen_[0].map_checked(probability, columns)

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.chosen_[0].keeps_ranking

    def _formula(self) -> nodes.Formula:
        return self.chosen_[0].formula()

    def _summary(self) -> str:
        return repr(self.chosen_[0])


def _table(scores: Sequence[CandidateScore]) -> Table:
    """One row per candidate; a number that a candidate has not is NaN."""
    table_rows = [score.table_row() for score in scores]
    return Table({key: [row.get(key, math.nan) for row in table_rows] for key in table_rows[0]})
