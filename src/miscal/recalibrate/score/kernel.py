"""Kernel calibration: a scaling of the score that also makes the kernel calibration error (MMCE) small."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from miscal.data.odds import sigmoid
from miscal.recalibrate.base import Array, Floats, Recalibrator, Sample, normalised
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.fitting.logistic import Binary, Features, binaries, fit_curve
from miscal.recalibrate.score.curves import powered
from miscal.recalibrate.state import Field

BANDWIDTH = 0.2  # of the kernel, as in Kumar, Sarawagi and Jain
STEEPEST = 10.0  # |log of the inverse temperature| at most
GRID = 33
LEAST = 1e-12
RIDGE = 2e-9  # of the slope, against the mean loss: classes that are separated get a finite curve to start from
LOGIT = Features("logit")


class KernelCalibration(Recalibrator):
    r"""Scale the score so that log loss plus a multiple of the kernel calibration error is least (MMCE).

    .. math:: \frac1W \sum_i w_i \ell_i + \lambda \Big(\frac1{W^2} \sum_{i,j} w_i w_j (r_i - c_i)(r_j - c_j)\,
        e^{-|r_i - r_j|/0.2}\Big)^{1/2}

    with r the confidence after scaling and c whether it was right (Kumar, Sarawagi and Jain 2018). The double sum costs
    one sort and one sweep. "temperature": one temperature (several classes: of the most probable one). "platt": slope
    and intercept of the logit, several classes each against the rest; r is then P(class) and c whether it happened.

    Keeps the ranking with a temperature, and with "platt" when binary and the slope is not negative.

    Parameters
    ----------
    base : {"temperature", "platt"}
    weight : float, at least 0
        Of the kernel error; 0 is the log loss alone.

    Attributes
    ----------
    coefficients_ : (maps, 2) slopes and intercepts; one map with a temperature, whose slope is 1 / temperature

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> KernelCalibration().fit(y_prob, y).predict_proba([0.9])[:, 1].round(2)
    array([0.82])
    """

    fields: ClassVar[dict[str, Field]] = {"coefficients_": Field("float", ("any", 2))}

    coefficients_: Floats

    def __init__(self, base: str = "temperature", weight: float = 1.0) -> None:
        self.base = base
        self.weight = weight

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        parameters.one_of("base", self.base, ("temperature", "platt"))
        parameters.number("weight", self.weight, 0.0)

    def check_state(self) -> None:
        """Refuse a wrong number of maps."""
        wanted = self.n_classes_ if self.base == "platt" and self.n_classes_ > 2 else 1
        if len(self.coefficients_) != wanted:
            raise ValueError("'coefficients_' has the wrong number of rows")

    def _fit(self, sample: Sample) -> None:
        if self.base == "temperature":
            self.coefficients_ = np.array([[_temperature(sample, float(self.weight)), 0.0]])
            return
        maps = [np.array([1.0, 0.0]) if rows is None else _platt(rows, float(self.weight)) for rows in binaries(sample)]
        self.coefficients_ = np.array(maps)

    def _map(self, probability: Floats) -> Floats:
        if probability.ndim == 1:
            return LOGIT.map(probability, self.coefficients_[0, :1], float(self.coefficients_[0, 1]))
        if self.base == "temperature":
            return powered(probability, float(self.coefficients_[0, 0]))
        each = zip(probability.T, self.coefficients_, strict=True)
        return normalised(np.stack([LOGIT.map(p, at[:1], float(at[1]))[:, 1] for p, at in each], axis=1), probability)

    def _keeps_ranking(self) -> bool:
        if self.base == "temperature":
            return True
        return self.is_fitted() and self.n_classes_ == 2 and bool(self.coefficients_[0, 0] >= 0)

    def _formula(self) -> nodes.Formula:
        if self.n_classes_ > 2 and self.base == "temperature":
            return nodes.Softmax(self.coefficients_[0, 0] * np.eye(self.n_classes_), np.zeros(self.n_classes_))
        maps = tuple(nodes.curve(Features("logit"), [slope], start) for slope, start in self.coefficients_.tolist())
        return maps[0] if self.n_classes_ == 2 else nodes.Each(maps)

    def _summary(self) -> str:
        if self.base == "temperature":
            return f"temperature {1.0 / self.coefficients_[0, 0]:.3g}"
        if len(self.coefficients_) > 1:
            return f"{len(self.coefficients_)} curves, one a class"
        return f"slope {self.coefficients_[0, 0]:.3g}, intercept {self.coefficients_[0, 1]:.3g}"


def kernel_error(score: Floats, observed: Array, weight: Floats) -> float:
    """MMCE of scores against what was observed, by one sort and one sweep."""
    from miscal.kernels.laplacian import laplacian_energy

    order = np.argsort(score, kind="stable")
    energy = laplacian_energy(score[order], (weight * (score - observed))[order], BANDWIDTH)
    return float(np.sqrt(max(energy, 0.0)) / weight.sum())


def _temperature(sample: Sample, penalty: float) -> float:
    """Inverse temperature: the best of a grid of logarithms, then refined between its neighbours."""
    from scipy.optimize import minimize_scalar

    rows, outcome = np.arange(sample.rows), sample.outcome.astype(np.int64)
    weight = np.ones(sample.rows) if sample.weight is None else sample.weight
    label = sample.probability > 0.5 if sample.n_classes == 2 else sample.probability.argmax(axis=1)
    right = (outcome == label).astype(np.float64)

    def objective(logarithm: float) -> float:
        scaled = powered(sample.probability, float(np.exp(logarithm)))
        loss = -float(weight @ np.log(np.maximum(scaled[rows, outcome], LEAST))) / sample.total
        confidence = scaled[rows, label.astype(np.int64)]
        return loss + (penalty * kernel_error(confidence, right, weight) if penalty else 0.0)

    grid = np.linspace(-4.0, 4.0, GRID)
    values = [objective(float(at)) for at in grid]
    best = int(np.argmin(values))
    low = float(grid[best - 1]) if best else -STEEPEST
    high = float(grid[best + 1]) if best + 1 < GRID else STEEPEST
    found = minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": 1e-8})
    return float(np.exp(found.x if found.fun <= values[best] else grid[best]))


def _platt(rows: Binary, penalty: float) -> Floats:
    """Slope and intercept: from the log loss's own optimum on, without derivatives (the error is a root)."""
    from scipy.optimize import minimize

    slope, intercept = fit_curve(rows, LOGIT, RIDGE * rows.total)
    start = np.array([slope[0], intercept])
    if not penalty:
        return start
    x, y = LOGIT.rows(rows.score)[0], rows.outcome.astype(np.float64)

    def objective(theta: Floats) -> float:
        z = theta[0] * x + theta[1]
        loss = float(rows.weights @ (np.logaddexp(0.0, z) - y * z)) / rows.total
        return loss + penalty * kernel_error(sigmoid(z), y, rows.weights)

    options = {"xatol": 1e-6, "fatol": 1e-10, "maxiter": 400}
    best = minimize(objective, start, method="Nelder-Mead", options=options).x
    return np.asarray(np.clip(best, -1e6, 1e6), dtype=np.float64)
