"""Kernel calibration: a scaling of the score that also makes the kernel calibration error (MMCE) small."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from miscal.recalibrate.base import Array, Floats, Recalibrator, Sample, normalised, pairs
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.fitting.logistic import LOGIT_CLIP, Features
from miscal.recalibrate.state import Field

BANDWIDTH = 0.2  # of the kernel, as in Kumar, Sarawagi and Jain
STEEPEST = 10.0  # |log of the inverse temperature| at most
GRID = 33
LEAST = 1e-12


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
        weight = np.ones(sample.rows) if sample.weight is None else sample.weight
        if self.base == "temperature":
            self.coefficients_ = np.array([[_temperature(sample, weight, float(self.weight)), 0.0]])
            return
        if sample.n_classes == 2:
            self.coefficients_ = _platt(sample.probability, sample.outcome, weight, float(self.weight))[None, :]
            return
        maps = []
        for k in range(sample.n_classes):
            happened = (sample.outcome == k).astype(np.float64)
            mass = float(weight @ happened)
            learnable = 0.0 < mass < float(weight.sum())
            score = np.ascontiguousarray(sample.probability[:, k])
            maps.append(_platt(score, happened, weight, float(self.weight)) if learnable else np.array([1.0, 0.0]))
        self.coefficients_ = np.array(maps)

    def _map(self, probability: Floats) -> Floats:
        if probability.ndim == 1:
            return pairs(_sigmoid(self.coefficients_[0, 0] * _logit(probability) + self.coefficients_[0, 1]))
        if self.base == "temperature":
            return _softened(probability, float(self.coefficients_[0, 0]))
        out = _sigmoid(self.coefficients_[:, 0] * _logit(probability) + self.coefficients_[:, 1])
        return normalised(out, probability)

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


def _logit(probability: Floats) -> Floats:
    held = np.clip(probability, LOGIT_CLIP, 1.0 - LOGIT_CLIP)
    return np.asarray(np.log(held) - np.log1p(-held))


def _sigmoid(x: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(x), dtype=np.float64)


def _softened(probability: Floats, power: float) -> Floats:
    x = power * np.log(np.maximum(probability, LOGIT_CLIP))
    x -= x.max(axis=1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=1, keepdims=True)
    return x


def kernel_error(score: Floats, observed: Array, weight: Floats) -> float:
    """MMCE of scores against what was observed, by one sort and one sweep."""
    from miscal.kernels.smooth import laplacian_energy

    order = np.argsort(score, kind="stable")
    energy = laplacian_energy(score[order], (weight * (score - observed))[order], BANDWIDTH)
    return float(np.sqrt(max(energy, 0.0)) / weight.sum())


def _temperature(sample: Sample, weight: Floats, penalty: float) -> float:
    """Inverse temperature: the best of a grid of logarithms, then refined between its neighbours."""
    from scipy.optimize import minimize_scalar

    rows, outcome = np.arange(sample.rows), sample.outcome.astype(np.int64)
    total = float(weight.sum())
    label = sample.probability > 0.5 if sample.n_classes == 2 else sample.probability.argmax(axis=1)
    right = (outcome == label).astype(np.float64)

    def objective(logarithm: float) -> float:
        power = float(np.exp(logarithm))
        if sample.n_classes == 2:
            scaled = pairs(_sigmoid(power * _logit(sample.probability)))
        else:
            scaled = _softened(sample.probability, power)
        loss = -float(weight @ np.log(np.maximum(scaled[rows, outcome], LEAST))) / total
        confidence = scaled[rows, label.astype(np.int64)]
        return loss + (penalty * kernel_error(confidence, right, weight) if penalty else 0.0)

    grid = np.linspace(-4.0, 4.0, GRID)
    values = [objective(float(at)) for at in grid]
    best = int(np.argmin(values))
    low = float(grid[best - 1]) if best else -STEEPEST
    high = float(grid[best + 1]) if best + 1 < GRID else STEEPEST
    found = minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": 1e-8})
    return float(np.exp(found.x if found.fun <= values[best] else grid[best]))


def _platt(score: Floats, outcome: Array, weight: Floats, penalty: float) -> Floats:
    """Slope and intercept: from the log loss's own optimum on, without derivatives (the error is a root)."""
    from scipy.optimize import minimize

    x, y = _logit(score), np.asarray(outcome, dtype=np.float64)
    total = float(weight.sum())

    def smooth(theta: Floats) -> tuple[float, Floats]:
        z = theta[0] * x + theta[1]
        off = weight * (_sigmoid(z) - y) / total
        loss = float(weight @ (np.logaddexp(0.0, z) - y * z)) / total
        return loss + 1e-9 * float(theta @ theta), np.array([off @ x, off.sum()]) + 2e-9 * theta

    start = minimize(smooth, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=[(-100, 100), (-700, 700)]).x
    if not penalty:
        return np.asarray(start)

    def objective(theta: Floats) -> float:
        return smooth(theta)[0] + penalty * kernel_error(_sigmoid(theta[0] * x + theta[1]), y, weight)

    options = {"xatol": 1e-6, "fatol": 1e-10, "maxiter": 400}
    best = minimize(objective, start, method="Nelder-Mead", options=options).x
    return np.asarray(np.clip(best, -1e6, 1e6), dtype=np.float64)
