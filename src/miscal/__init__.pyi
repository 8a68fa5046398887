# Written by scripts/stubs.py from the tables in __init__.py; do not edit.

from miscal import datasets as datasets
from miscal import metrics as metrics
from miscal import plots as plots
from miscal import recalibrate as recalibrate
from miscal.auditing.audit import Audit as Audit
from miscal.auditing.audit import audit as audit
from miscal.auditing.repair import repair as repair
from miscal.cells.subpopulations import Conjunctions as Conjunctions
from miscal.data.errors import MiscalError as MiscalError
from miscal.data.errors import MiscalWarning as MiscalWarning
from miscal.data.predictions import Predictions as Predictions
from miscal.data.sources import read as read
from miscal.metrics.field import by_field as by_field
from miscal.metrics.neighbourhood import by_neighbourhood as by_neighbourhood
from miscal.metrics.score import by_score as by_score
from miscal.metrics.specs import Field as Field
from miscal.metrics.specs import Neighbourhood as Neighbourhood
from miscal.metrics.specs import Score as Score
from miscal.metrics.specs import Subpopulation as Subpopulation
from miscal.metrics.specs import Variable as Variable
from miscal.metrics.specs import Variation as Variation
from miscal.metrics.specs import by_class as by_class
from miscal.metrics.specs import measure as measure
from miscal.metrics.subpopulation import by_subpopulation as by_subpopulation
from miscal.metrics.variable import by_variable as by_variable
from miscal.metrics.variation import by_variation as by_variation
from miscal.report.findings import Finding as Finding
from miscal.results import Result as Result

__version__: str
