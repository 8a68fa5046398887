"""The glossary of the documentation: its functions exist and compute what it says, its pages name the term."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import optimize, special
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import miscal
from miscal import metrics, plots, recalibrate
from tests.unit.glossary import Entry, described, entries

ENTRIES = entries()
NAMES = [name for entry in ENTRIES for name in entry.names]
BY_ID = [pytest.param(entry, id=entry.names[0]) for entry in ENTRIES]

# What a reader of the five papers or of the field searches: none of it may leave the glossary.
WANTED = [
    "ILPS", "ICI", "ECCE", "ECCE-R", "ECCE-MAD", "WVR", "ACE", "IQV", "LoRe", "MLCE", "SLCE", "LCE", "PRR", "MMCE",
    "VECE", "VCE", "UCE", "Field-ECE", "Field-RCE", "Prob-ECE", "Model-1", "Model-2", "multi-ablate", "ECE", "MCE",
    "SCE", "smECE", "RMSCE", "Spiegelhalter", "Hosmer-Lemeshow", "O/E", "A/E", "E50", "E90", "scaling-binning",
    "multicalibration", "multiaccuracy", "NLL", "calibration-in-the-large", "KCE", "Venn-Abers", "Algorithm 1",
    "reward ratio", "variable-based calibration plot", "probability calibration tree", "classwise ECE",
    "adaptive ECE", "Brier score", "log loss", "calibration slope", "reliability diagram", "calibration curve",
    "temperature scaling", "Platt scaling", "isotonic regression", "beta calibration", "Dirichlet calibration",
    "vector scaling", "histogram binning", "Definition 5.3", "calibration belt",
]  # fmt: skip


def sample() -> dict[str, Any]:
    """What the calls of the glossary take, under the names that its first lines give."""
    rng = np.random.default_rng(5)
    rows = 400
    p = rng.uniform(0.02, 0.98, rows)
    age = rng.integers(18, 80, rows).astype(float)
    columns = {"age": age, "state": rng.choice(["CA", "NV", "NY"], rows), "sex": rng.choice(["f", "m"], rows)}
    y = (rng.random(rows) < p**1.3).astype(int)
    p_classes = rng.dirichlet([1.0, 0.8, 0.6], rows)
    y_classes = (p_classes.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    return {
        "np": np, "miscal": miscal, "metrics": metrics, "plots": plots, "recalibrate": recalibrate,
        "y": y, "p": p, "y_classes": y_classes, "p_classes": p_classes, "age": age, "state": columns["state"],
        "X": {"age": age}, "predictions": miscal.Predictions(y, p, columns=columns),
    }  # fmt: skip


SAMPLE = sample()


def evaluated(code: str) -> Any:
    """The value of a call of the glossary; of `name = call` that of the call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", miscal.MiscalWarning)  # a few hundred rows leave some bins empty
        return eval(re.sub(r"^\w+ = ", "", code), dict(SAMPLE))


# ------------------------------------------------------------------------------------------------------- the page
def test_every_name_that_is_searched_has_an_entry():
    assert [name for name in WANTED if name not in NAMES] == []


def test_no_name_has_two_entries():
    lowered = [name.lower() for name in NAMES]
    assert sorted({name for name in lowered if lowered.count(name) > 1}) == []


@pytest.mark.parametrize("entry", BY_ID)
def test_calls_of_an_entry_run(entry: Entry):
    assert entry.calls, "an entry names a function, or what to use instead of one"
    for code in entry.calls:
        evaluated(code)


@pytest.mark.parametrize("entry", BY_ID)
def test_an_entry_begins_with_its_call_or_says_that_there_is_none(entry: Entry):
    assert entry.text.startswith(("`", "No function", "Two different errors"))


@pytest.mark.parametrize("entry", BY_ID)
def test_pages_of_an_entry_exist_and_have_one_of_its_names(entry: Entry):
    assert entry.pages or entry.references or not entry.has_function
    texts = {page.name: page.read_text(encoding="utf-8") for page in entry.pages}
    texts |= {name: described(name) for name in entry.references if entry.has_function}
    lacking = [page for page, text in texts.items() if not any(named(name, text) for name in entry.names)]
    assert lacking == []


@pytest.mark.parametrize("entry", BY_ID)
def test_references_of_an_entry_are_public_names(entry: Entry):
    for name in entry.references:
        module, _, attribute = name.rpartition(".")
        assert attribute in importlib.import_module(module).__all__


def named(name: str, text: str) -> bool:
    """Whether a text has a name, lines and dashes apart; acronyms as they are written."""
    plain = re.sub(r"[\s-]+", " ", text)
    wanted = re.sub(r"[\s-]+", " ", name)
    flags = re.NOFLAG if wanted.isupper() else re.IGNORECASE
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", plain, flags) is not None


def test_a_name_is_seen_as_a_word_only():
    assert named("ICI", "index (ICI; Austin)")
    assert not named("ICI", "by efficiency")
    assert not named("ACE", "a trace or an ace")
    assert named("scaling-binning", "Scaling\n  binning")


# ---------------------------------------------------------------------------------------------------- the formulas
def binned_gaps(y: Any, p: Any, edges: Any) -> tuple[np.ndarray, np.ndarray]:
    """Share of rows and absolute gap of right-closed bins that are not empty."""
    cell = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, len(edges) - 2)
    counts = np.bincount(cell, minlength=len(edges) - 1)
    residual = np.bincount(cell, np.asarray(p) - y, minlength=len(edges) - 1)
    return counts[counts > 0] / len(p), np.abs(residual[counts > 0] / counts[counts > 0])


def ece(y: Any, p: Any, edges: Any = None) -> float:
    share, gap = binned_gaps(y, p, np.arange(16) / 15 if edges is None else edges)
    return float(share @ gap)


def quantiles(p: Any, bins: int = 15) -> np.ndarray:
    return np.quantile(p, np.arange(bins + 1) / bins)


def one_against_rest(error: Callable[[Any, Any], float]) -> float:
    y, p = SAMPLE["y_classes"], SAMPLE["p_classes"]
    return float(np.mean([error(y == k, p[:, k]) for k in range(3)]))


def top() -> tuple[np.ndarray, np.ndarray]:
    """Whether the predicted label of the binary rows is right, and the confidence in it."""
    y, p = SAMPLE["y"], SAMPLE["p"]
    return ((p > 0.5) == y).astype(float), np.maximum(p, 1 - p)


def cumulative() -> np.ndarray:
    order = np.argsort(SAMPLE["p"])
    return np.concatenate([[0.0], np.cumsum((SAMPLE["y"] - SAMPLE["p"])[order]) / order.size])


def local_gaps(y: Any, p: Any) -> np.ndarray:
    x = SAMPLE["age"]
    near = np.exp(-np.abs(x[:, None] - x) / 0.2) * (np.ceil(p[:, None] * 15) == np.ceil(p * 15))
    return (near @ (p - y)) / near.sum(axis=1)


def variation_error(measure: Callable[[np.ndarray], float]) -> float:
    ranked = -np.sort(-SAMPLE["p_classes"], axis=1)
    order = np.argsort(-SAMPLE["p_classes"], axis=1)
    rank = np.eye(3)[np.argmax(order == SAMPLE["y_classes"][:, None], axis=1)]
    cell = np.maximum(np.ceil(np.array([measure(row) for row in ranked]) * 10 - 1e-9), 1)
    means = [(rows.mean(), measure(ranked[rows].mean(axis=0)), measure(rank[rows].mean(axis=0)))
             for rows in (cell == b for b in np.unique(cell))]  # fmt: skip
    return sum(share * abs(predicted - observed) for share, predicted, observed in means)


def by_state(gap: Callable[[np.ndarray], float]) -> float:
    return sum(gap(SAMPLE["state"] == level) for level in ("CA", "NV", "NY"))


def slope_fit() -> np.ndarray:
    fit = LogisticRegression(C=np.inf, tol=1e-10).fit(special.logit(SAMPLE["p"])[:, None], SAMPLE["y"])
    return fit.coef_[0]


def in_the_large() -> float:
    odds, y = special.logit(SAMPLE["p"]), SAMPLE["y"]
    return optimize.brentq(lambda shift: (special.expit(odds + shift) - y).sum(), -5, 5)


def entropy_against_errors() -> float:
    p, y = SAMPLE["p_classes"], SAMPLE["y_classes"]
    return ece(p.argmax(axis=1) != y, special.entr(p).sum(axis=1) / np.log(3), np.arange(11) / 10)


def reward() -> float:
    right, confidence = top()
    return float(np.where(confidence >= 0.9, -10.0 * (1 - right), -1.0).sum())


def rejection() -> float:
    right, confidence = top()
    pairs = np.sign(confidence[right == 1][:, None] - confidence[right == 0])
    return float(pairs.mean())


def kernel_error() -> float:
    residual = SAMPLE["p"] - SAMPLE["y"]
    kernel = np.exp(-np.abs(SAMPLE["p"][:, None] - SAMPLE["p"]) / 0.2)
    return float(np.sqrt(residual @ kernel @ residual) / residual.size)


def largest_by_state() -> float:
    right, confidence = top()
    groups = [SAMPLE["state"] == level for level in ("CA", "NV", "NY")]
    return max(binned_gaps(right[rows], confidence[rows], np.arange(16) / 15)[1].max() for rows in groups)


def brier_score() -> float:
    return float(np.mean((SAMPLE["p"] - SAMPLE["y"]) ** 2))


def squared_gaps() -> float:
    share, gap = binned_gaps(SAMPLE["y"], SAMPLE["p"], np.arange(16) / 15)
    return float(np.sqrt(share @ gap**2))


def variable_error() -> float:
    right, confidence = top()
    cell = np.clip(np.searchsorted(quantiles(SAMPLE["age"], 10), SAMPLE["age"], side="left") - 1, 0, 9)
    return sum(abs((confidence - right)[cell == b].sum()) for b in range(10)) / right.size


Y, P = SAMPLE["y"], SAMPLE["p"]
FORMULAS = {  # the first call of the entry with this name, written plainly
    "ECE": lambda: ece(Y, P),
    "adaptive ECE": lambda: ece(Y, P, quantiles(P)),
    "RMSCE": squared_gaps,
    "MCE": lambda: binned_gaps(Y, P, np.arange(16) / 15)[1].max(),
    "SCE": lambda: one_against_rest(ece),
    "ACE": lambda: one_against_rest(lambda y, p: ece(y, p, quantiles(p))),
    "MMCE": kernel_error,
    "ECCE": lambda: np.ptp(cumulative()),
    "Brier score": brier_score,
    "log loss": lambda: -np.mean(np.log(np.where(Y == 1, P, 1 - P))),
    "calibration slope": lambda: slope_fit()[0],
    "calibration-in-the-large": in_the_large,
    "O/E": lambda: Y.sum() / P.sum(),
    "A/E": lambda: [Y[SAMPLE["state"] == s].sum() / P[SAMPLE["state"] == s].sum() for s in ("CA", "NV", "NY")],
    "VECE": variable_error,
    "WVR": lambda: variation_error(lambda q: 1.5 * (1 - q.max())),
    "IQV": lambda: variation_error(lambda q: 1.5 * (1 - (q**2).sum())),
    "UCE": entropy_against_errors,
    "confidence calibration": lambda: ece(P3.argmax(axis=1) == Y3, P3.max(axis=1)),
    "LCE": lambda: np.abs(local_gaps(*top())),
    "SLCE": lambda: local_gaps(*top()),
    "MLCE": lambda: np.abs(local_gaps(*top())).max(),
    "group-wise MCE": largest_by_state,
    "PRR": rejection,
    "reward ratio": reward,
    "Field-ECE": lambda: by_state(lambda rows: abs((Y - P)[rows].sum()) / Y.size),
    "Field-RCE": lambda: by_state(lambda rows: rows.sum() * abs((Y - P)[rows].sum()) / (Y[rows] + 0.01).sum() / Y.size),
    "Prob-ECE": lambda: ece(Y, P),  # no probability of the sample lies on an edge
}
Y3, P3 = SAMPLE["y_classes"], SAMPLE["p_classes"]


def entry_named(name: str) -> Entry:
    return next(entry for entry in ENTRIES if name in entry.names)


@pytest.mark.parametrize("name", FORMULAS)
def test_the_first_call_of_an_entry_computes_its_formula(name: str):
    value = evaluated(entry_named(name).calls[0])
    np.testing.assert_allclose(getattr(value, "value", value), FORMULAS[name](), rtol=1e-5, atol=1e-9)


def test_the_average_of_the_gaps_of_bins_is_netcals_ace():
    average = evaluated(entry_named("ACE").calls[1])
    assert average == pytest.approx(binned_gaps(Y, P, np.arange(16) / 15)[1].mean(), rel=1e-12)


def test_quantiles_of_the_curve_belong_to_the_ici():
    entry = entry_named("E50")
    curve = evaluated(entry.calls[0])
    distances = eval(CODE_OF_DISTANCES, {"curve": curve, "abs": abs})
    assert CODE_OF_DISTANCES in entry.text
    assert distances.mean() == pytest.approx(evaluated(entry_named("ICI").calls[0]), rel=1e-9)


CODE_OF_DISTANCES = "abs(curve.observed.clip(0, 1) - curve.predicted)"


def test_the_range_is_between_the_largest_cumulative_difference_and_twice_it():
    largest = np.abs(cumulative()).max()
    assert largest <= evaluated(entry_named("ECCE-MAD").calls[0]) * (1 + 1e-12)
    assert evaluated(entry_named("ECCE-MAD").calls[0]) <= 2 * largest


def test_spiegelhalters_z_by_hand():
    code = next(code for code in re.findall(r"`([^`]+)`", entry_named("Spiegelhalter").text) if code.startswith("((y"))
    expected = (P * (1 - P)).mean()  # of the Brier score, for a calibrated model
    spread = np.sqrt(((1 - 2 * P) ** 2 * P * (1 - P)).sum()) / P.size
    assert eval(code, dict(SAMPLE)) == pytest.approx((brier_score() - expected) / spread, rel=1e-9)


def test_multicalibration_is_the_largest_scaled_kuiper_statistic_and_multi_ablate_the_largest_unscaled():
    masks = [SAMPLE["state"] == level for level in ("CA", "NV", "NY")]
    every = [np.ones(Y.size, bool), *masks]
    kuiper = [metrics.kuiper_calibration_error(Y[rows], P[rows]) for rows in every]
    noise = [np.sqrt((P * (1 - P))[rows].sum()) / rows.sum() for rows in every]
    scaled = max(d * noise[0] / sigma for d, sigma in zip(kuiper, noise, strict=True))
    assert metrics.multicalibration_error(Y, P, subpopulations=masks) == pytest.approx(scaled, rel=1e-12)
    assert metrics.multicalibration_error(Y, P, subpopulations=masks, normalise=False) == pytest.approx(max(kuiper))


# ------------------------------------------------------------------------------------------------- recalibrators
def fitted(name: str) -> np.ndarray:
    return evaluated(entry_named(name).calls[0]).fit(P, Y).predict_proba(P)[:, 1]


def logistic(features: np.ndarray) -> np.ndarray:
    return LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(features, Y).predict_proba(features)[:, 1]


def tempered() -> np.ndarray:
    odds = special.logit(P)
    loss = lambda scale: -np.log(special.expit(np.where(Y == 1, 1, -1) * scale * odds)).sum()
    return special.expit(optimize.minimize_scalar(loss, bounds=(0.01, 10), options={"xatol": 1e-10}).x * odds)


def bin_rates() -> np.ndarray:
    cell = np.ceil(P * 15).astype(int)
    return (np.bincount(cell, Y) / np.maximum(np.bincount(cell), 1))[cell]


MAPS = {
    "Platt scaling": lambda: logistic(special.logit(P)[:, None]),
    "temperature scaling": tempered,
    "beta calibration": lambda: logistic(np.column_stack([np.log(P), -np.log1p(-P)])),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_recalibrator_of_the_glossary_is_the_usual_one(name: str):
    np.testing.assert_allclose(fitted(name), MAPS[name](), atol=2e-4)


def test_isotonic_regression_and_histogram_binning_without_half_an_event_are_the_usual_ones():
    plain = recalibrate.IsotonicCalibration(smooth=0).fit(P, Y).predict_proba(P)[:, 1]
    np.testing.assert_allclose(plain, IsotonicRegression(out_of_bounds="clip").fit(P, Y).predict(P), atol=1e-12)
    rates = recalibrate.HistogramBinning(smooth=0).fit(P, Y).predict_proba(P)[:, 1]
    np.testing.assert_allclose(rates, bin_rates(), atol=1e-12)


@pytest.mark.parametrize("entry", [e for e in BY_ID if "recalibrate." in e.values[0].text])
def test_recalibrators_of_an_entry_fit_and_predict(entry: Entry):
    for code in entry.calls:
        if not re.fullmatch(r"recalibrate\.[A-Z]\w+\(.*\)", code) or "MeanScaling" in code or "Neural" in code:
            continue
        model = evaluated(code).fit(P, Y, {"age": SAMPLE["age"]})
        assert model.predict_proba(P, {"age": SAMPLE["age"]}).shape == (P.size, 2), code


# ------------------------------------------------------------------------------------- Definition 5.3 on the Adult data
def test_adult_is_not_consistently_overconfident_though_every_range_is(shared_data):
    table = pq.read_table(shared_data / "adult_kelly_mlp_test.parquet", columns=["y", "mlp_prob_1", "age"])
    y, p, age = (table[name].to_numpy() for name in ("y", "mlp_prob_1", "age"))
    curve = metrics.variable_calibration_curve(y, p, age, target="top")
    assert curve.consistent is None
    below = curve.grid[curve.gap < 0]
    assert below.size
    assert below.max() < 20.5
    assert curve.gap_high[0] < 0
    with pytest.warns(miscal.MiscalWarning, match="ties leave"):
        by_score = metrics.expected_calibration_error(y, p, target="top", bins=10, strategy="quantile")
    assert metrics.variable_calibration_error(y, p, age, target="top") == pytest.approx(by_score, abs=1e-12)
    ranges = miscal.by_variable(miscal.Predictions(y, p, columns={"age": age}), "age", target="top").table
    assert np.all(ranges["gap"] > 0)
