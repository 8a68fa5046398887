# Written by scripts/stubs.py from the tables in __init__.py; do not edit.

from miscal.recalibrate.base import Recalibrator as Recalibrator
from miscal.recalibrate.binning import HistogramBinning as HistogramBinning
from miscal.recalibrate.binning import ScalingBinning as ScalingBinning
from miscal.recalibrate.by_columns.augmentation import Augmentation as Augmentation
from miscal.recalibrate.by_columns.augmented_curves import AugmentedBeta as AugmentedBeta
from miscal.recalibrate.by_columns.augmented_curves import AugmentedLogistic as AugmentedLogistic
from miscal.recalibrate.by_columns.boosting import MulticalibrationBoost as MulticalibrationBoost
from miscal.recalibrate.by_columns.group_wise import GroupWise as GroupWise
from miscal.recalibrate.by_columns.local_recalibration import LocalRecalibration as LocalRecalibration
from miscal.recalibrate.by_columns.neural import NeuralCalibration as NeuralCalibration
from miscal.recalibrate.by_columns.variable_tree import VariableTree as VariableTree
from miscal.recalibrate.choosing import Choose as Choose
from miscal.recalibrate.choosing import choose as choose
from miscal.recalibrate.classifier import RecalibratedClassifier as RecalibratedClassifier
from miscal.recalibrate.combined import Blend as Blend
from miscal.recalibrate.combined import Chain as Chain
from miscal.recalibrate.identity import Identity as Identity
from miscal.recalibrate.identity import SamplingCorrection as SamplingCorrection
from miscal.recalibrate.isotonic import IsotonicCalibration as IsotonicCalibration
from miscal.recalibrate.isotonic import IsotonicLinePlotScaling as IsotonicLinePlotScaling
from miscal.recalibrate.kernel_calibration import KernelCalibration as KernelCalibration
from miscal.recalibrate.kernel_loss import kernel_calibration_loss as kernel_calibration_loss
from miscal.recalibrate.logistic_curves import BetaCalibration as BetaCalibration
from miscal.recalibrate.logistic_curves import PlattScaling as PlattScaling
from miscal.recalibrate.mean_scaling import MeanScaling as MeanScaling
from miscal.recalibrate.softmax_scaling import DirichletCalibration as DirichletCalibration
from miscal.recalibrate.softmax_scaling import StructuredScaling as StructuredScaling
from miscal.recalibrate.softmax_scaling import TemperatureScaling as TemperatureScaling
from miscal.recalibrate.softmax_scaling import VectorScaling as VectorScaling

def kinds() -> tuple[str, ...]: ...
