"""Which null model a p-value belongs to, which test gave it, and what a result says of both.

The values of `Null`, `Method` and `PartialTest` are public: they stand in tables, in `extra` and in JSON.
"""

from enum import StrEnum


class Null(StrEnum):
    """The null model: outcomes drawn from the predictions, or the residuals' signs flipped."""

    BERNOULLI = "bernoulli"
    RESIDUAL = "residual"


class NullReason(StrEnum):
    """Why a call uses its null model."""

    PREDICTIONS = "predictions"  # 0/1 outcomes of independent rows: nothing else is needed
    REQUESTED = "requested"
    CLUSTERS = "clusters"
    MEANS = "means"  # outcomes that are not 0/1
    MEANS_IN_CLUSTERS = "means in clusters"
    OUTCOME_WEIGHTS = "outcome weights"  # weights that depend on the outcome
    OUTCOME_SAMPLING = "outcome sampling"  # the same, and the variance of residuals is known by prediction


class Method(StrEnum):
    """How a p-value was found, or why there is none."""

    EMPTY = "empty"
    CERTAIN = "certain predictions"
    EXACT = "exact"
    MATCHED_BINOMIAL = "matched binomial"
    NORMAL = "normal"
    RESIDUALS = "residuals"  # the studentised sum of residuals, or normal draws of it
    SIGN_FLIPS = "sign flips"
    SIMULATION = "simulation"  # outcomes drawn from the predictions
    CLUSTER_DRAWS = "outcomes drawn by cluster"
    GRID_SIMULATION = "simulation on a grid"
    DAYS = "noise of days"
    BROWNIAN_RANGE = "Brownian range"
    BROWNIAN_RANGE_TIES = "Brownian range, conservative with ties"
    BONFERRONI = "Bonferroni"
    TOO_SMALL = "too small to judge"
    NO_CLUSTER_TEST = "no p-value with clusters"
    FEW_EVENTS = "no p-value: too few events are expected"
    NO_SIMULATIONS = "no simulations were asked for"
    EQUAL_RESIDUALS = "no p-value, because the neighbouring residuals of a subpopulation are all equal"
    LOW_PREVALENCE_WEIGHTS = "no p-value, because low-prevalence weights depend on the outcomes"

    @property
    def simulated(self) -> bool:
        """Whether the p-value is a share of draws, so that it cannot be below 1 / (1 + draws)."""
        return self in (Method.SIMULATION, Method.SIGN_FLIPS, Method.CLUSTER_DRAWS)


class PartialTest(StrEnum):
    """The tests that a combined test is made of."""

    AVERAGE_ERROR = "average error"
    CHI_SQUARE = "chi-square"
    LARGEST_CELL = "largest cell"
    LEVEL_SUM = "sum of all levels"
    EXPECTED_ERROR = "expected error"
    KUIPER = "Kuiper"
    SLOPE_INTERCEPT = "slope and intercept"
    TOTAL = "total"
    TREND = "trend"
    BEND = "bend"
    SMOOTH_CURVE = "smooth curve"
    LARGEST_RANGE = "largest range"


class MethodNote(StrEnum):
    """The sentences that `Result.method` is made of, after that of the `NullReason`."""

    DRAWS = "draws"
    SPARSE_CELLS = "sparse cells"
    COMBINED = "combined"
    WALK = "walk"
    MISSING_ONLY = "missing only"
    RANK_DRAWS = "rank draws"
    CLASS_DRAWS = "class draws"
    CLASS_SIGNS = "class signs"
    SAMPLE = "sample"
    NO_TEST = "no test"
    SEARCH_SIMULATED = "search simulated"
    SEARCH_BONFERRONI = "search by Bonferroni"
    SEGMENTS_TOO_SMALL = "segments too small"
    UNEVEN_WEIGHTS = "uneven weights"
    FEATURES = "features"
    NEIGHBOURHOODS_SIMULATED = "neighbourhoods simulated"
    NEIGHBOURHOODS_TOO_SMALL = "neighbourhoods too small"
    NEIGHBOURHOODS_SAMPLED = "neighbourhoods sampled"
