# Written by scripts/stubs.py from the tables in __init__.py; do not edit.

from miscal.metrics.curves import variable_calibration_curve as variable_calibration_curve
from miscal.metrics.field import field_calibration_error as field_calibration_error
from miscal.metrics.field import field_relative_calibration_error as field_relative_calibration_error
from miscal.metrics.field import probability_calibration_error as probability_calibration_error
from miscal.metrics.losses import abstention_reward as abstention_reward
from miscal.metrics.losses import brier_score as brier_score
from miscal.metrics.losses import calibration_slope_intercept as calibration_slope_intercept
from miscal.metrics.losses import integrated_calibration_index as integrated_calibration_index
from miscal.metrics.losses import log_loss as log_loss
from miscal.metrics.losses import prediction_rejection_ratio as prediction_rejection_ratio
from miscal.metrics.losses import score_decomposition as score_decomposition
from miscal.metrics.neighbourhood_errors import (
    average_local_calibration_error as average_local_calibration_error,
)
from miscal.metrics.neighbourhood_errors import local_calibration_error as local_calibration_error
from miscal.metrics.neighbourhood_errors import (
    maximum_local_calibration_error as maximum_local_calibration_error,
)
from miscal.metrics.score_errors import classwise_calibration_error as classwise_calibration_error
from miscal.metrics.score_errors import expected_calibration_error as expected_calibration_error
from miscal.metrics.score_errors import (
    groupwise_expected_calibration_error as groupwise_expected_calibration_error,
)
from miscal.metrics.score_errors import (
    groupwise_maximum_calibration_error as groupwise_maximum_calibration_error,
)
from miscal.metrics.score_errors import kuiper_calibration_error as kuiper_calibration_error
from miscal.metrics.score_errors import maximum_calibration_error as maximum_calibration_error
from miscal.metrics.score_errors import mean_kernel_calibration_error as mean_kernel_calibration_error
from miscal.metrics.score_errors import smooth_calibration_error as smooth_calibration_error
from miscal.metrics.subpopulation_errors import low_prevalence_weights as low_prevalence_weights
from miscal.metrics.subpopulation_errors import multicalibration_error as multicalibration_error
from miscal.metrics.subpopulation_errors import proportional_weights as proportional_weights
from miscal.metrics.variable import rank_variables as rank_variables
from miscal.metrics.variable import variable_calibration_error as variable_calibration_error
from miscal.metrics.variation import uncertainty_calibration_error as uncertainty_calibration_error
from miscal.metrics.variation import variation_calibration_error as variation_calibration_error
