"""Choose a recalibrator by cross-fitting, and leave the probabilities alone when nothing helps beyond noise."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from miscal import recalibrate
from miscal.data.arrays import Floats
from miscal.data.checks import number, whole
from miscal.data.columns import Columns
from miscal.data.errors import check_named, refusal
from miscal.data.predictions import METRIC, Predictions, RawPredictions
from miscal.export import formula as nodes
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.held_out import Judged, chance_of_growth, difference, judge, mean_of, measure, mixed
from miscal.recalibrate.identity import Identity
from miscal.recalibrate.outcome_families import FAMILIES
from miscal.recalibrate.parameters import check_list, named_columns, parameter, state
from miscal.recalibrate.training_sample import TrainingSample
from miscal.results import Table
from miscal.stats.isotonic import assign_folds

Progress = Callable[[float, str], None]
LEAST_ROWS = 50
LEAST_EVENTS = 10
LEVEL = 0.05  # of touching calibrated probabilities, counted in studies/choose_false_alarms.py
# Of that level: a blend's weights have seen, through its members, a little of what judges them.
BLEND_SHARE = 0.2


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
    """Compare recalibrators on rows they have not seen and return the best one, fitted on all rows.

    Each candidate is fitted on all folds but one and judged on the one left out. With "auto" a `Blend` of them (the
    isotonic ones left out: they give certainties) stands beside them, judged with weights from the other folds. A
    candidate is eligible only if its held-out log loss is below that of leaving the probabilities alone and the gain is
    more than noise would give if the probabilities were right as they are (one-sided: 1% for the blend, 4% with
    Bonferroni for all others; 5% for these where there is no blend). An eligible blend wins, unless one of its members
    has all the weight or a single candidate is better by more than a standard error. Else, among the eligible ones
    within one standard error of the best, the one with the smallest error by the audited columns wins, then the earlier
    (simpler) one.

    If the probabilities p were right, the loss saved by a repair q that has not seen a row would be on average minus
    KL(p, q), the divergence at that row; what a row saves beyond that, ln(q_y / p_y) + KL(p, q), has mean 0, and its
    mean over rows is compared with its standard error. Two classes: it is (y - p) times the change of the logit, so
    that this asks whether residuals go the way of the repair. Of means it is (y - m) times the change of m (of its
    logarithm, for counts), whatever the spread of y, and the loss is squared error or Poisson's deviance.

    Parameters
    ----------
    y_prob, y, sample_weight : as in `fit`
    X : frame or mapping; the columns that audits and repairs may look at
    by : columns by which errors are measured; all of X by default
    allowed : columns that the repair may use; all of X by default. Audit by race, repair without race.
    candidates : "auto", or recalibrators of your own, by name or in a list
    cv : number of folds
    cluster : (n,) labels, optional; rows of one cluster share a fold and count as one in the noise of differences
    top_error : float, optional; of several classes the most by which the expected calibration error of the top label
        may grow on unseen rows (0: not at all): candidates beyond it are not eligible. Without, `reason` says where it
        grows beyond noise, since a lower log loss does not rule that out.
    progress : function of a share done and a name, called before each candidate
    response : {"binary", "real", "count"}; other than binary, `y_prob` holds predicted means, no blend is tried, and
        `predict` of what is returned gives means
    exposure : (n,) numbers above 0, optional; then `y_prob` is a rate a unit of exposure, and `y` what was counted

    Returns
    -------
    Recalibrator
        Fitted, with `name`, `table` (one row a candidate) and `reason` (a sentence). `Identity` when nothing helps.

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
    asked = Choose(by, allowed, candidates, cv, random_state, top_error)
    asked.check_parameters()
    columns = asked._validated_columns(X)  # noqa: SLF001  # as its `fit`
    given = RawPredictions(
        y,
        y_prob,
        sample_weight,
        cluster=cluster,
        columns=columns,
        names=METRIC,
        response=response,
        exposure=exposure,
    )
    return asked.chosen(Predictions.validated(given), progress)


def _too_few(rows: Predictions) -> str:
    """Why nothing can be chosen, if so."""
    beside = rows.rows - np.unique(rows.outcome, return_counts=True)[1].max()
    if rows.cluster is not None and np.unique(rows.cluster).size < 2:
        return "There is one cluster only, and no rows beside it to judge by."
    if rows.rows >= LEAST_ROWS and beside >= LEAST_EVENTS:
        return ""
    what = "class" if rows.response == "binary" else "outcome"
    return f"There are too few rows to choose by: {rows.rows:,} rows, {beside} beside the commonest {what}."


def refitted(chosen: Recalibrator, sample: TrainingSample) -> Recalibrator:
    """What `choose` gave, fitted again on other rows: the same method (a blend: with the same weights)."""
    return _told(chosen.fit_copy_quietly(sample), chosen.name, chosen.table, chosen.reason)


def _named(columns: Columns, names: Sequence[str] | None, where: str) -> list[str]:
    known = list(columns)
    check_named(names or (), known, f"X, named in {where},")
    return known if names is None else list(names)


def _candidates(given: Any, sample: TrainingSample) -> dict[str, Recalibrator]:
    if isinstance(given, str) and given == "auto":
        given = candidates_for(sample)
    elif isinstance(given, Sequence):
        names = [type(each).__name__ for each in given]
        if len(set(names)) < len(names):
            hint = "give a dict: {'my name': recalibrator}"
            raise refusal("must have different names", "'candidates'", hint=hint)
        given = dict(zip(names, given, strict=True))
    if not isinstance(given, Mapping) or not all(isinstance(each, Recalibrator) for each in given.values()):
        raise refusal("must be 'auto' or recalibrators", "'candidates'", got=f"got {given!r}")
    alone = {"Identity": Identity()}
    return alone | dict(given) | alone  # the first of all, and our own


def candidates_for(sample: TrainingSample) -> dict[str, Recalibrator]:
    """What each recalibrator offers for such rows, the simplest first."""
    found: dict[str, Recalibrator] = {}
    for name in recalibrate.kinds():
        kind = getattr(recalibrate, name)
        if sample.response in kind.responses:
            found |= kind._candidates(sample)  # noqa: SLF001  # its registration
    return found


def _choice(judged: list[Judged], rows: Predictions, top_error: float | None) -> tuple[Judged, str]:
    """The winner and why."""
    alone = judged[0]
    helpful = [each for each in judged[1:] if _helps(each, judged)]
    if not helpful:
        return alone, _nothing(judged[1:], rows)
    eligible = helpful
    if top_error is not None and rows.n_classes > 2:
        eligible = [each for each in helpful if each.row["expected"] - alone.row["expected"] <= top_error]
    if not eligible:
        all_of = f"All {len(helpful)} that lower the log loss on unseen rows raise the top label's expected"
        return alone, f"{all_of} error by more than {top_error:.2%}, so the probabilities are left alone."
    best = min(eligible, key=lambda each: mean_of(each.loss, rows))
    apart = [difference(each.loss, best.loss, rows) for each in eligible]
    near = [each for each, (mean, error) in zip(eligible, apart, strict=True) if mean <= error]
    unit = 1.0 if rows.response == "binary" else max(mean_of(np.abs(rows.outcome), rows), 1e-300)
    # The blend, or by the audited columns in steps of a tenth of a point of the unit: smaller differences are noise.
    winner = min(near, key=lambda each: (not each.weights, round(_by_columns(each) / unit, 3)))
    return winner, _because(winner, alone, len(judged) - 1, rows)


def _helps(each: Judged, judged: list[Judged]) -> bool:
    """Whether a candidate's held-out log loss is below that of doing nothing, by more than right scores would allow."""
    blended = bool(judged[-1].weights)
    singles = len(judged) - 1 - blended
    share = BLEND_SHARE * blended
    level = LEVEL * (share if each.weights else (1.0 - share) / singles)
    mean = each.change[0]
    return mean == -math.inf or (mean < 0 and each.row["p_value"] <= level)


def _top_label(winner: Judged, alone: Judged, rows: Predictions) -> str:
    """A warning where the top label's calibration error of unseen rows has grown beyond noise."""
    if rows.n_classes == 2 or winner is alone:
        return ""
    before, after = (each.row["expected"] for each in (alone, winner))
    if after <= before or chance_of_growth(winner, alone, rows) > LEVEL:
        return ""
    grows = f"grows from {before:.2%} to {after:.2%}, beyond noise: top_error=0 rules such repairs out."
    return f" The top label's expected calibration error {grows}"


def _by_columns(each: Judged) -> float:
    """Mean error by the audited columns; 0 without any."""
    errors = [value for name, value in each.row.items() if name.startswith("by ")]
    return float(np.mean(errors)) if errors else 0.0


def _nothing(judged: list[Judged], rows: Predictions) -> str:
    what = f"{FAMILIES[rows.response].loss} on unseen rows"
    finite = [each for each in judged if math.isfinite(each.change[0])]
    if not finite:
        return f"No candidate has a finite {what}, so the predictions are left alone."
    best = min(finite, key=lambda each: mean_of(each.loss, rows))
    by, low, high = (f"{change:+.4g}" for change in best.change)
    change = f"changes it by {by} ({low} to {high}), so the predictions are left alone."
    return f"Nothing lowers the {what} beyond noise: the best, {best.name}, {change}"


def _because(winner: Judged, alone: Judged, rivals: int, rows: Predictions) -> str:
    parts = sorted(winner.weights.items(), key=lambda item: -item[1])
    shares = f" ({', '.join(f'{share:.0%} {name}' for name, share in parts)})" if parts else ""
    saved, high, low = (f"{-change:.4g}" for change in winner.change)
    by = f"by {saved} ({low} to {high})" if math.isfinite(winner.change[0]) else "from infinity"
    text = f"{winner.name}{shares} lowers the {FAMILIES[rows.response].loss} on unseen rows {by}"
    text += f", the best of {rivals} or within noise of it"
    if any(name.startswith("by ") for name in winner.row):
        digits = ".2%" if rows.response == "binary" else ".3g"
        before, after = (f"{_by_columns(each):{digits}}" for each in (alone, winner))
        text += f"; the mean error by the audited columns goes from {before} to {after}"
    return text + ("." if winner.keeps_ranking else "; it does not keep the ranking.")


def _told(fitted: Recalibrator, name: Any, table: Any, reason: Any) -> Recalibrator:
    fitted.name, fitted.table, fitted.reason = name, table, reason
    return fitted


class Choose(Recalibrator):
    """Compare recalibrators on held-out rows and keep the best, or none: `choose` with the methods of the others.

    Columns are looked at where `fit` is given any. See `miscal.recalibrate.choose` for how it is decided.

    Parameters
    ----------
    by, allowed, candidates, cv, random_state, top_error : as in `choose`

    Attributes
    ----------
    chosen_ : list of the one fitted recalibrator
    name, table, reason : as of what `choose` returns; not in JSON

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.recalibrate import BetaCalibration, Choose, PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(2, 3, 3000)
    >>> made = Choose(candidates=[PlattScaling(), BetaCalibration()]).fit(p, rng.random(3000) < p**2)
    >>> made.name
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
        """Whether what was chosen looks at columns."""
        return hasattr(self, "chosen_") and self.chosen_[0].uses_columns

    def check_state(self) -> None:
        """Refuse what is not one map."""
        if len(self.chosen_) != 1:
            raise ValueError("there must be one recalibrator")

    def chosen(self, rows: Predictions, progress: Progress | None = None) -> Recalibrator:
        """What `choose` returns for validated rows."""
        audited = _named(rows.columns, self.by, "'by'")
        allowed = _named(rows.columns, self.allowed, "'allowed'")
        offered = Columns({name: rows.columns[name] for name in allowed})
        sample = TrainingSample.from_predictions(rows, offered)
        named = _candidates(self.candidates, sample)
        reason = _too_few(rows)
        if reason:
            alone = Identity().fit_copy_quietly(sample)
            return _told(alone, "Identity", Table({"name": ["Identity"]}), reason)
        folds = assign_folds(rows.rows, self.cv, cluster=rows.cluster, random_state=self.random_state)
        judged = []
        for at, (name, candidate) in enumerate(named.items()):
            if progress is not None:
                progress(at / len(named), name)
            judged.append(judge(name, candidate, sample, folds))
        if isinstance(self.candidates, str) and rows.response == "binary":
            judged += mixed(judged, sample, folds)
        for each in judged:
            measure(each, judged[0], rows, audited)
        winner, reason = _choice(judged, rows, self.top_error)
        reason += _top_label(winner, judged[0], rows)
        table = Table({key: [each.row.get(key, math.nan) for each in judged] for key in judged[0].row})
        return _told(winner.recalibrator.fit_copy_quietly(sample), winner.name, table, reason)

    def _validated_columns(self, X: Any) -> Columns | None:
        return None if X is None else named_columns(X, "Choose")

    def _fit(self, sample: TrainingSample) -> None:
        asked = self if len(sample.columns) else clone(self).set_params(by=None, allowed=None)
        rows = Predictions(sample.outcome, sample.probability, weight=sample.weight, columns=sample.columns)
        found = asked.chosen(rows)
        self.chosen_ = [found]
        _told(self, found.name, found.table, found.reason)

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        return self.chosen_[0].map_checked(probability, columns)

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.chosen_[0].keeps_ranking

    def _formula(self) -> nodes.Formula:
        return self.chosen_[0].formula()

    def _summary(self) -> str:
        return repr(self.chosen_[0])
