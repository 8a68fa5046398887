"""Subpopulations that the data propose: nodes of a tree fitted to the residuals, tested so that the search is paid for.

Tested on the rows they were found on, such nodes alarm in 99.5% of calibrated data sets. So they are found on one half
and tested on the other, or the tree is grown anew in every simulation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from miscal.data.errors import refusal, warn
from miscal.data.predictions import Predictions
from miscal.engines.subpopulations import Ordered, Search, information, search_lists, walk_lists
from miscal.inference.aggregates import max_statistic_p
from miscal.inference.nulls import seed_of
from miscal.inference.subpopulation import MaximumNoise, Steps, noise_of_draws, scaled_errors
from miscal.metrics.subpopulation.inputs import Asked, coded
from miscal.pairs import Pair, pair
from miscal.pooling.subpopulations import Covariate, Definition, ResidualLeaves, check_count, interval_condition


class Grown:
    """A tree on coded columns; levels of a nominal column stand in the order of their mean residual."""

    def __init__(
        self, covariates: list[Covariate], residual: np.ndarray, weight: np.ndarray, asked: ResidualLeaves
    ) -> None:
        from sklearn.tree import DecisionTreeRegressor

        self.covariates = covariates
        self.shuffles = [_level_order(one, residual, weight) for one in covariates]
        features = self.features(covariates)
        tree = DecisionTreeRegressor(max_leaf_nodes=asked.leaves, min_samples_leaf=asked.min_leaf, random_state=0)
        self.tree = tree.fit(features, residual, sample_weight=weight).tree_

    def features(self, covariates: list[Covariate]) -> np.ndarray:
        """Codes as the tree reads them."""
        columns = [
            shuffle[one.codes] if shuffle is not None else one.codes
            for one, shuffle in zip(covariates, self.shuffles, strict=True)
        ]
        return np.stack(columns, axis=1).astype(np.float32)

    def nodes(self, covariates: list[Covariate]) -> list[np.ndarray]:
        """Positions in each node but the root, of rows coded alike."""
        tree, features = self.tree, self.features(covariates)
        found: dict[int, np.ndarray] = {0: np.arange(len(features), dtype=np.int32)}
        for node in range(tree.node_count):
            if tree.children_left[node] >= 0:
                here = found[node]
                left = features[here, tree.feature[node]] <= tree.threshold[node]
                found[int(tree.children_left[node])] = here[left]
                found[int(tree.children_right[node])] = here[~left]
        return [found[node] for node in range(1, tree.node_count)]

    def definitions(self) -> list[Definition]:
        """What each node but the root means."""
        tree = self.tree
        bounds: dict[int, dict[int, tuple[int, int]]] = {0: {}}
        for node in range(tree.node_count):
            if tree.children_left[node] < 0:
                continue
            column, cut = int(tree.feature[node]), int(np.floor(tree.threshold[node])) + 1
            low, high = bounds[node].get(column, (0, self.covariates[column].count))
            bounds[int(tree.children_left[node])] = bounds[node] | {column: (low, min(high, cut))}
            bounds[int(tree.children_right[node])] = bounds[node] | {column: (max(low, cut), high)}
        return [
            Definition(
                tuple(
                    interval_condition(self.covariates[j], low, high, self.shuffles[j]) for j, (low, high) in b.items()
                )
            )
            for node, b in sorted(bounds.items())
            if node > 0
        ]


def _level_order(one: Covariate, residual: np.ndarray, weight: np.ndarray) -> np.ndarray | None:
    if not one.nominal:
        return None
    mass = np.bincount(one.codes, weight, one.count)
    mean = np.bincount(one.codes, weight * residual, one.count) / np.maximum(mass, 1e-300)
    rank = np.empty(one.count, np.int64)
    rank[np.argsort(mean, kind="stable")] = np.arange(one.count)
    return rank


def _checked(asked: ResidualLeaves) -> ResidualLeaves:
    if asked.test not in ("half", "refit"):
        raise refusal("must be 'half' or 'refit'", where="'test' of ResidualLeaves", got=f"got {asked.test!r}")
    return replace(
        asked, leaves=check_count("leaves", asked.leaves, 2), min_leaf=check_count("min_leaf", asked.min_leaf, 1)
    )


def held_out_leaves(
    p: Predictions, names: list[str], asked: ResidualLeaves, target: str | int, nominal: Any, random_state: Any
) -> tuple[Predictions, dict[str, np.ndarray]]:
    """Find nodes on one half of the rows (of the clusters); the other half and the nodes' rows in it."""
    asked = _checked(asked)
    random = np.random.default_rng(random_state)
    if p.cluster is None:
        found_here = random.permutation(p.rows) < p.rows // 2
    else:
        clusters = np.unique(p.cluster)
        found_here = np.isin(p.cluster, random.permutation(clusters)[: clusters.size // 2])
    if found_here.all() or not found_here.any():
        raise refusal("needs at least two rows (or clusters)", where="ResidualLeaves", got=f"there are {p.rows}")
    compared = pair(p, target)
    everyone = Ordered(np.arange(p.rows, dtype=np.int32), np.empty(p.rows))
    covariates = coded(everyone, p.columns, names, nominal, keep=True)
    here, there = np.flatnonzero(found_here), np.flatnonzero(~found_here)
    weight = np.ones(p.rows) if compared.first is None else compared.first
    residual = compared.observed - compared.predicted
    grown = Grown([replace(one, codes=one.codes[here]) for one in covariates], residual[here], weight[here], asked)
    nodes = grown.nodes([replace(one, codes=one.codes[there]) for one in covariates])
    named = {d.words(): rows.astype(np.int64) for d, rows in zip(grown.definitions(), nodes, strict=True)}
    if not named:
        warn("the tree found nothing to split: only the full population is measured")
    return p.take(there), named


def refitted(
    rows: Ordered, asked: Asked, leaves: ResidualLeaves, pair: Pair, null: str, draws: int, statistic: str
) -> tuple[Search, MaximumNoise | None]:
    """Nodes found and measured on all rows; the tree is grown anew in each simulation."""
    leaves = _checked(leaves)
    covariates = asked.covariates(rows)
    weight = rows.weight if rows.weight.size else np.ones(rows.rows)
    grown = Grown(covariates, rows.residual() / weight, weight, leaves)
    found = search_lists(rows, grown.nodes(covariates), grown.definitions(), asked.information)
    if draws == 0:
        return found, None
    source = Steps(rows, pair, null == "residual", seed_of(asked.random_state))
    values = scaled_errors(found.stats, statistic)
    made: list[np.ndarray] = []

    def simulate(first: int, count: int) -> np.ndarray:
        steps = source.block(first, count)
        made.append(np.array([_largest(steps[:, b]) for b in range(count)]))
        return made[-1]

    def _largest(step: np.ndarray) -> float:
        again = Grown(covariates, step / weight, weight, leaves)
        stats = walk_lists(_with_steps(rows, step), [rows.everyone, *again.nodes(covariates)])
        stats = np.concatenate([stats[:1], stats[1:][information(stats[1:]) >= asked.information]])
        return float(scaled_errors(stats, statistic).max())

    summary = max_statistic_p(float(values.max()), simulate, draws, block=16)
    words = f"The tree was grown and the search repeated on each of {summary.draws} simulations"
    return found, noise_of_draws(summary, np.concatenate(made), values, found.stats, words)


def _with_steps(rows: Ordered, step: np.ndarray) -> Ordered:
    """The rows with simulated residuals: responses that differ from their scores by them."""
    weight = rows.weight if rows.weight.size else np.ones(rows.rows)
    score = np.abs(rows.signed)
    return replace(rows, signed=score, observed=score + step / weight, how=0)
