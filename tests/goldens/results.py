"""Results of every `by_*`, under both nulls, with weights, clusters, trials, means and classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import miscal
from tests.goldens import data
from tests.goldens.normalise import Plain, plain

FEATURES = ["state", "age", "amount", "half", "plan", "member", "day"]


def events(rows: int = 900, **roles: str) -> miscal.Predictions:
    """Events with their columns; `roles` names columns of weights or clusters."""
    table = data.binary(rows)
    given = {role: table[name] for role, name in roles.items()}
    return miscal.Predictions(table["y"], table["p"], columns=table.select(FEATURES), **given)


def trials() -> miscal.Predictions:
    """Events among several trials."""
    table = data.trials(600)
    return miscal.Predictions(table["y"], table["p"], count=table["many"], columns=table.select(FEATURES))


def means() -> miscal.Predictions:
    """Real outcomes."""
    table = data.amounts(700)
    return miscal.Predictions(
        table["y"], table["p"], weight=table["weight"], columns=table.select(FEATURES), response="real"
    )


def claims() -> miscal.Predictions:
    """Counts with exposure."""
    table = data.counts(900)
    return miscal.Predictions(
        table["claims"], table["rate"], exposure=table["years"], columns=table.select(FEATURES), response="count"
    )


def classes(rows: int = 700, *, weighted: bool = False) -> miscal.Predictions:
    """Three classes."""
    table = data.classes(rows)
    p = np.stack([table[f"p_c{k}"].to_numpy() for k in range(3)], axis=1)
    weight = {"weight": table["weight"]} if weighted else {}
    return miscal.Predictions(table["y"], p, columns=table.select(FEATURES), classes=["c0", "c1", "c2"], **weight)


POPULATIONS: dict[str, Callable[[], miscal.Predictions]] = {
    "events": events,
    "weights": partial(events, weight="weight"),
    "outcome_weights": partial(events, weight="kept"),
    "clusters": partial(events, cluster="household"),
    "weights_clusters": partial(events, weight="weight", cluster="household"),
    "trials": trials,
    "means": means,
    "claims": claims,
    "classes": classes,
    "classes_weights": partial(classes, weighted=True),
}
EVERY = tuple(POPULATIONS)
MEANS = ("means", "claims")
BOTH = ("bernoulli", "residual")


def measured(population: str, name: str, *what: Any, **options: Any) -> Plain:
    """A result of one `by_*`."""
    return plain(getattr(miscal, name)(POPULATIONS[population](), *what, **options), FEATURES)


def by(
    name: str, *what: Any, of: tuple[str, ...] = tuple(POPULATIONS), **options: Any
) -> dict[str, Callable[[], Plain]]:
    """A case for each population and null, where both apply."""
    made = {}
    for population in of:
        for null in BOTH if population not in MEANS else BOTH[:1]:
            made[f"{name}_{population}_{null}"] = partial(measured, population, name, *what, null=null, **options)
    return made


def case(label: str, population: str, name: str, *what: Any, **options: Any) -> dict[str, Callable[[], Plain]]:
    """One more case, under a label of its own."""
    return {f"{name}_{label}": partial(measured, population, name, *what, **options)}


FEW = ("events", "weights", "outcome_weights", "clusters", "means", "classes")

CASES: dict[str, Callable[[], Plain]] = {
    **by("by_score"),
    **case("uniform_l2", "events", "by_score", bins=10, strategy="uniform", norm="l2"),
    **case("max_edges", "weights", "by_score", bins=[0.0, 0.2, 0.4, 0.6, 1.0], norm="max"),
    **case("class", "classes", "by_score", target=1),
    **case("positive", "classes", "by_score", target="top", random_state=3),
    **by("by_variable", "age"),
    **case("missing", "events", "by_variable", "amount", bins=8, curve=False),
    **case("ties_uniform", "weights", "by_variable", "half", strategy="uniform", norm="l2"),
    **case("date", "events", "by_variable", "day", bins=6),
    **case("class", "classes", "by_variable", "age", target=2),
    **by("by_field", "state"),
    **case("missing", "events", "by_field", "plan"),
    **case("crossed", "events", "by_field", ["state", "member"]),
    **case("parent", "weights", "by_field", "state", parent="plan"),
    **case("bins", "events", "by_field", "age", bins=5, norm="max"),
    **by("by_subpopulation", ["state", "age"], of=FEW, subpopulations=60, simulations=199),
    **case("paths", "events", "by_subpopulation", ["state", "age", "amount"], simulations=99),
    **case("given", "weights", "by_subpopulation", subpopulations=["age >= 60", "state in {NY, CA}"], simulations=99),
    **case("class", "classes", "by_subpopulation", ["state", "age"], target=1, subpopulations=40, simulations=99),
    **case(
        "conjunctions", "events", "by_subpopulation", ["state", "age"],
        subpopulations=miscal.Conjunctions(depth=2, ranges=3), simulations=99,
    ),
    **by("by_variation", of=("events", "weights", "clusters", "classes", "classes_weights")),
    **case("confidence", "classes", "by_variation", variation="confidence", bins=8, bias_correction=True),
    **case("ratio", "classes", "by_variation", variation="variation_ratio"),
    **case("qualitative", "events", "by_variation", variation="qualitative_variation", strategy="quantile"),
    **by("by_neighbourhood", ["age", "amount"], of=("events", "weights", "means", "classes"), simulations=99, bins=6),
    **case("pca", "events", "by_neighbourhood", ["age", "amount", "half"], reduce="pca", dimensions=2, simulations=99),
    **case("gaussian", "events", "by_neighbourhood", ["age"], kernel="gaussian", bandwidth=0.4, simulations=99),
    **{
        f"by_class_{population}_{null}": partial(measured, population, "by_class", miscal.Score(bins=8, null=null))
        for population in ("classes", "classes_weights", "events")
        for null in BOTH
    },
}  # fmt: skip
