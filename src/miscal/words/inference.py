"""The words of `miscal.codes.inference`."""

from collections.abc import Sequence

from miscal.codes.inference import Method, MethodNote, Null, NullReason, PartialTest
from miscal.words import sentence, templates

_SIGNS = "Null distribution: random signs of the residuals"
_WEIGHTS = f"{_SIGNS}, because the weights depend on the outcome"

templates(
    {
        Null.BERNOULLI: "outcomes simulated from the predictions",
        Null.RESIDUAL: "random signs of the residuals",
    }
)

templates(
    {
        NullReason.PREDICTIONS: "Null distribution: outcomes simulated from the predictions.",
        NullReason.REQUESTED: f"{_SIGNS}.",
        NullReason.CLUSTERS: "Null distribution: whole clusters, because the rows of a cluster are correlated.",
        NullReason.MEANS: f"{_SIGNS}, because the observed values are not 0 and 1.",
        NullReason.MEANS_IN_CLUSTERS: f"{_SIGNS}, one sign per cluster.",
        NullReason.OUTCOME_WEIGHTS: f"{_WEIGHTS}.",
        NullReason.OUTCOME_SAMPLING: (
            f"{_WEIGHTS}; no cell counts as less variable than is usual for its predictions."
        ),
    }
)

templates(
    {
        Method.EMPTY: "empty",
        Method.CERTAIN: "probabilities of exactly 0 or 1",
        Method.EXACT: "exact",
        Method.MATCHED_BINOMIAL: "matched binomial",
        Method.NORMAL: "normal approximation",
        Method.RESIDUALS: "sum of residuals",
        Method.SIGN_FLIPS: "random signs of the residuals",
        Method.SIMULATION: "outcomes simulated from the predictions",
        Method.CLUSTER_DRAWS: "outcomes drawn by cluster",
        Method.GRID_SIMULATION: "simulation on a grid of the score",
        Method.DAYS: "variation between days",
        Method.BROWNIAN_RANGE: "range of Brownian motion",
        Method.BROWNIAN_RANGE_TIES: "range of Brownian motion, conservative with ties",
        Method.BONFERRONI: "Bonferroni correction",
        Method.TOO_SMALL: "too small to test",
        Method.NO_CLUSTER_TEST: "no p-value with clusters",
        Method.FEW_EVENTS: "no p-value: fewer than {events:.0f} events are expected",
        Method.NO_SIMULATIONS: "no p-value, because no simulations were requested",
        Method.EQUAL_RESIDUALS: (
            "no p-value, because the neighbouring residuals of a subpopulation are all equal"
        ),
        Method.LOW_PREVALENCE_WEIGHTS: ("no p-value, because low-prevalence weights depend on the outcomes"),
    }
)

templates({test: test.value for test in PartialTest})

templates(
    {
        MethodNote.DRAWS: "{draws} draws.",
        MethodNote.SPARSE_CELLS: "Cells with few events are drawn from the predictions.",
        MethodNote.COMBINED: "p-value: {tests} combined, on {draws} common draws.",
        MethodNote.WALK: "Cumulative differences along the column: {method}.",
        MethodNote.MISSING_ONLY: "The p-value is that of the missing values: there are no others.",
        MethodNote.RANK_DRAWS: (
            "{draws} draws of the ranks. There is no interval, because the error is not a norm of residuals."
        ),
        MethodNote.CLASS_DRAWS: "{draws} draws, one class drawn per row.",
        MethodNote.CLASS_SIGNS: "{draws} draws, with the same signs for all classes.",
        MethodNote.SAMPLE: "Of a sample of {sample:,} of {rows:,} rows, drawn with equal probability.",
        MethodNote.NO_TEST: "There is no test: {reason}.",
        MethodNote.SEARCH_SIMULATED: (
            "The whole search was repeated on {draws} simulations ({method}): "
            "p = (1 + {exceedances}) / (1 + {draws})."
        ),
        MethodNote.SEARCH_BONFERRONI: (
            "There are too many rows to simulate: Bonferroni over the Brownian-range p-values of {tests:,} "
            "subpopulations with at least {events:.0f} expected events; the noise floor is that of as many "
            "independent ones."
        ),
        MethodNote.SEGMENTS_TOO_SMALL: "{count:,} more were too small to test.",
        MethodNote.UNEVEN_WEIGHTS: (
            "Weights are uneven, and the largest weight determines which subpopulations are too small: "
            "a lower min_information tests more of them."
        ),
        MethodNote.FEATURES: "Features: {features}.",
        MethodNote.NEIGHBOURHOODS_SIMULATED: (
            "The largest studentised gap of {centres:,} neighbourhoods was simulated {draws} times: "
            "p = (1 + {exceedances}) / (1 + {draws})."
        ),
        MethodNote.NEIGHBOURHOODS_TOO_SMALL: "{count:,} of {rows:,} neighbourhoods were too small to test.",
        MethodNote.NEIGHBOURHOODS_SAMPLED: (
            "The noise floor is that of the noisiest and of randomly chosen neighbourhoods."
        ),
    }
)


def combined_tests(tests: Sequence[PartialTest], draws: int) -> str:
    """Name the tests that a combined p-value is made of.

    Parameters
    ----------
    tests : sequence of PartialTest
        At least two.
    draws : int
        Draws that they have in common.

    Returns
    -------
    str
        A sentence.
    """
    *others, last = map(sentence, tests)
    return sentence(MethodNote.COMBINED, tests=f"{', '.join(others)} and {last}", draws=draws)
