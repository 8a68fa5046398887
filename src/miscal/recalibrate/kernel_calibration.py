"""Temperature or Platt scaling with the kernel calibration error (MMCE) in its loss."""

import numpy as np

from miscal.data.arrays import Floats
from miscal.data.checks import number, one_of
from miscal.data.libraries import optimize
from miscal.export import formula as nodes
from miscal.kernels.neighbours import laplacian_energy
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.logistic_curves import PlattScaling
from miscal.recalibrate.logistic_fit import fit_logistic
from miscal.recalibrate.parameters import parameter, state
from miscal.recalibrate.probability_arrays import as_two_columns
from miscal.recalibrate.softmax_fit import MAX_POWER, MIN_POWER, fit_power, power_formula, power_scaled
from miscal.recalibrate.training_sample import TrainingSample, warm_started

#: Bandwidth of the kernel, as in Kumar, Sarawagi and Jain.
KERNEL_BANDWIDTH = 0.2
#: Penalty of the slope to start from, against the mean loss: separated classes get a finite curve.
START_RIDGE = 2e-9
#: Largest slope and intercept of the logit.
MAX_PLATT_COEFFICIENT = 1e6
NELDER_MEAD_OPTIONS = {"xatol": 1e-6, "fatol": 1e-10, "maxiter": 400}


class KernelCalibration(Recalibrator):
    r"""Scale the score so that log loss plus a multiple of the kernel calibration error is least (MMCE).

    .. math:: \frac1W \sum_i w_i \ell_i + \lambda \Big(\frac1{W^2} \sum_{i,j} w_i w_j (r_i - c_i)(r_j - c_j)\,
        e^{-|r_i - r_j|/0.2}\Big)^{1/2}

    with r the confidence after scaling and c whether it was right (Kumar, Sarawagi and Jain 2018). The double sum costs
    one sort and one sweep. "temperature": one temperature (several classes: of the most probable one). "platt": slope
    and intercept of the logit, several classes each against the rest; r is then P(class) and c whether it was observed.

    Keeps the ranking with a temperature, and with "platt" when binary and the slope is not negative.

    Parameters
    ----------
    base : {"temperature", "platt"}, default="temperature"
        What is fitted.
    weight : float, default=1.0
        Of the kernel error, at least 0; 0 is the log loss alone.

    Attributes
    ----------
    coefficients_ : (1, 2) array
        Slope (1 / temperature) and intercept.
    per_class_ : list of KernelCalibration
        Of several classes and "platt": one fitted recalibrator per class.

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> KernelCalibration().fit(y_prob, y).predict_proba([0.9])[:, 1].round(2)
    array([0.82])
    """

    base: str = parameter(one_of, ("temperature", "platt"), default="temperature")
    weight: float = parameter(number, 0.0, default=1.0)
    coefficients_: Floats = state("float", 1, 2)

    @property
    def one_vs_rest(self) -> bool:  # type: ignore[override]
        """Whether each class has a map of its own."""
        return self.base == "platt"

    def _fit(self, sample: TrainingSample) -> None:
        """Start from the optimum of the log loss; without derivatives, because the error is a root."""
        p, weight = sample.probability, sample.weights
        if self.one_vs_rest:
            theta = np.append(*fit_logistic(sample, PlattScaling(l2=START_RIDGE * sample.total)))
            bounds = [(-MAX_PLATT_COEFFICIENT, MAX_PLATT_COEFFICIENT)] * 2
            label = np.ones(sample.rows, np.intp)
        else:
            bounds = [(MIN_POWER, MAX_POWER)]
            theta = np.clip(warm_started(sample, fit_power, np.ones(1))[0], *bounds[0])
            label = as_two_columns(p).argmax(axis=1)  # the most probable class
        observed = sample.outcome == label

        def objective(theta: Floats) -> float:
            scaled = power_scaled(p, *theta.tolist())
            loss = weight @ sample.losses(scaled) / sample.total
            score = scaled[np.arange(sample.rows), label]
            energy = laplacian_energy(score, weight * (score - observed), KERNEL_BANDWIDTH)
            return float(loss + self.weight * (np.sqrt(max(energy, 0.0)) / sample.total))

        if self.weight:
            theta = optimize.minimize(
                objective, theta, method="Nelder-Mead", bounds=bounds, options=NELDER_MEAD_OPTIONS
            ).x
        self.coefficients_ = np.array([[*theta, 0.0][:2]])

    def _map(self, probability: Floats) -> Floats:
        return power_scaled(probability, *self.coefficients_[0].tolist())

    def _keeps_ranking(self) -> bool:
        return not self.one_vs_rest or (self.is_fitted() and self.coefficients_[0, 0] >= 0)

    def _formula(self) -> nodes.Formula:
        return power_formula(self.n_classes_, *self.coefficients_[0].tolist())
