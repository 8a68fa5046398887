# Written by scripts/stubs.py from the tables in __init__.py; do not edit.

from miscal.recalibrate.base import Recalibrator as Recalibrator
from miscal.recalibrate.by_columns.augmented import Augmentation as Augmentation
from miscal.recalibrate.by_columns.augmented import AugmentedBeta as AugmentedBeta
from miscal.recalibrate.by_columns.augmented import AugmentedLogistic as AugmentedLogistic
from miscal.recalibrate.by_columns.boosting import MulticalibrationBoost as MulticalibrationBoost
from miscal.recalibrate.by_columns.groups import GroupWise as GroupWise
from miscal.recalibrate.by_columns.local import LocalRecalibration as LocalRecalibration
from miscal.recalibrate.by_columns.neural import NeuralCalibration as NeuralCalibration
from miscal.recalibrate.by_columns.variable_tree import VariableTree as VariableTree
from miscal.recalibrate.choosing import Choose as Choose
from miscal.recalibrate.choosing import choose as choose
from miscal.recalibrate.classifier import RecalibratedClassifier as RecalibratedClassifier
from miscal.recalibrate.combined import Blend as Blend
from miscal.recalibrate.combined import Chain as Chain
from miscal.recalibrate.curves import BetaCalibration as BetaCalibration
from miscal.recalibrate.curves import Identity as Identity
from miscal.recalibrate.curves import KernelCalibration as KernelCalibration
from miscal.recalibrate.curves import MeanScaling as MeanScaling
from miscal.recalibrate.curves import PlattScaling as PlattScaling
from miscal.recalibrate.curves import SamplingCorrection as SamplingCorrection
from miscal.recalibrate.shapes import HistogramBinning as HistogramBinning
from miscal.recalibrate.shapes import IsotonicCalibration as IsotonicCalibration
from miscal.recalibrate.shapes import IsotonicLinePlotScaling as IsotonicLinePlotScaling
from miscal.recalibrate.shapes import ScalingBinning as ScalingBinning
from miscal.recalibrate.softmax import DirichletCalibration as DirichletCalibration
from miscal.recalibrate.softmax import StructuredScaling as StructuredScaling
from miscal.recalibrate.softmax import TemperatureScaling as TemperatureScaling
from miscal.recalibrate.softmax import VectorScaling as VectorScaling
from miscal.recalibrate.training import kernel_calibration_loss as kernel_calibration_loss

def kinds() -> tuple[str, ...]: ...
