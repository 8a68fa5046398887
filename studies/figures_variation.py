"""Figures 1, 2 and 3 of paper 001 redrawn, and the rank distributions of an over-confident model.

    python -m studies.figures_variation        # reads studies/results/variation_experiment.json

Figure 2 draws ten million rows anew; `--rows` makes it smaller.
"""

from __future__ import annotations

import argparse
import json

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import miscal
from miscal.plots import VariationDisplay
from miscal.plots.base import BAND, INK, QUIET, SERIES
from studies.harness import images_folder
from studies.variation_experiment import RESULTS, sample

IMAGES = images_folder()
NAMES = {
    "variation": ("Variation error", SERIES[0], "o"),
    "expected": ("Expected error, top label", SERIES[2], "s"),
    "classwise": ("Class-wise error", SERIES[3], "^"),
    "uncertainty": ("Uncertainty error", SERIES[1], "D"),
}


def by_rows(results, strategy, path):
    """Figures 1 and 3: four errors against the number of rows, a panel a scenario."""
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.6), sharex=True, sharey=True, layout="constrained")
    for row, classes in zip(axes, (3, 10), strict=True):
        for ax, shape in zip(row, ("flat", "skewed"), strict=True):
            chosen = [r for r in results["rows"] if (r["classes"], r["alpha"], r["bins"]) == (classes, shape, strategy)]
            sizes = [r["rows"] for r in chosen]
            for name, (label, colour, marker) in NAMES.items():
                ax.plot(sizes, [r[name] for r in chosen], marker + "-", color=colour, label=label, markersize=5)
            if shape == "flat":
                floor = results["uncertainty_floor"][str(classes)]
                ax.axhline(floor, color=INK, linewidth=1, linestyle=(0, (4, 3)))
                ax.text(1.1e4, floor * 1.12, f"closed form {floor:.4f}", fontsize=8, color=INK)
            ax.set(xscale="log", yscale="log", ylim=(5e-5, 1.0))
            alpha = "(1, ..., 1)" if shape == "flat" else "(10, 1, ..., 1)"
            ax.set_title(f"{classes} classes, Dirichlet {alpha}", fontsize=10, color=INK)
            ax.grid(color="#e6ebef", linewidth=0.6)
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
    for ax in axes[1]:
        ax.set_xlabel("Rows", color=INK)
    for ax in axes[:, 0]:
        ax.set_ylabel("Mean error", color=INK)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False, fontsize=9
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)


def reliability(rows, path):
    """Figure 2: three reliability diagrams of the same calibrated predictions."""
    y, p = sample(rows, 3, "flat", 0)
    predictions = miscal.Predictions(y, p)
    by_entropy = miscal.by_variation(predictions)
    by_confidence = miscal.by_variation(predictions, variation="confidence")
    figure, (axes, below) = plt.subplots(
        2, 3, figsize=(12.6, 6.6), height_ratios=(3, 1.2), sharex="col", layout="constrained"
    )
    value = f"error {by_confidence.value:.5f}, noise floor {by_confidence.noise_floor:.5f}"
    VariationDisplay(by_confidence).plot(axes[0], name="Observed")
    axes[0].set_title(f"Expected: {value}", fontsize=10, color=INK)
    VariationDisplay(by_entropy, "uncertainty").plot(axes[1], name="Observed")
    floor = by_entropy.extra["uncertainty_error"]
    axes[1].set_title(f"Uncertainty: error {floor:.5f}, for calibrated predictions", fontsize=10, color=INK)
    VariationDisplay(by_entropy).plot(axes[2], name="Observed")
    value = f"error {by_entropy.value:.5f}, noise floor {by_entropy.noise_floor:.5f}"
    axes[2].set_title(f"Variation: {value}", fontsize=10, color=INK)
    for ax in axes:
        ax.set_aspect("auto")
        ax.set_xlabel("")
    confidence, uncertainty, entropy = by_confidence.table, by_entropy.extra["uncertainty"], by_entropy.table
    magnified(below[0], confidence, "predicted", "observed", "Accuracy - confidence", "Predicted confidence")
    magnified(below[1], uncertainty, "uncertainty", "error", "Error rate - entropy", "Mean entropy")
    magnified(below[2], entropy, "predicted", "observed", "Observed - predicted", "Predicted entropy")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def magnified(ax, table, predicted, observed, ylabel, xlabel):
    """What the diagram above cannot show: differences and their noise band, on a scale of their own."""
    x = table[predicted]
    ax.axhline(0, color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
    ax.fill_between(x, table["band_low"] - x, table["band_high"] - x, color=BAND, alpha=0.9, linewidth=0)
    ax.plot(x, table[observed] - x, "o-", color=SERIES[0], markersize=3.5, linewidth=1)
    ax.set_xlabel(xlabel, color=INK)
    ax.set_ylabel(ylabel, color=INK, fontsize=8)
    ax.tick_params(labelsize=8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def ranks(path):
    """Predicted against observed ranks of predictions that are too sure, in all rows and in two bins."""
    y, p = sample(20_000, 6, "flat", 1)
    sharper = p**1.6
    sharper /= sharper.sum(axis=1, keepdims=True)
    result = miscal.by_variation(miscal.Predictions(y, sharper))
    figure, axes = plt.subplots(1, 4, figsize=(14.4, 3.7), layout="constrained")
    VariationDisplay(result).plot(axes[0])
    VariationDisplay(result, "ranks").plot(axes[1])
    axes[1].set_title("all rows", fontsize=9, color=INK)
    for ax, cell in zip(axes[2:], (4, 8), strict=True):
        VariationDisplay(result, "ranks").plot(ax, cell=cell)
    for ax in axes[2:]:
        ax.get_legend().remove()
    for ax in axes[1:]:
        ax.grid(axis="y", color="#e6ebef", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.tick_params(colors=QUIET)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--quick", action="store_true", help="few rows, figures in a temporary folder")
    options = parser.parse_args()
    rows = 10_000 if options.quick else int(options.rows)
    results = json.loads((RESULTS / "variation_experiment.json").read_text())
    by_rows(results, "uniform", IMAGES / "variation-equal-width.png")
    by_rows(results, "quantile", IMAGES / "variation-equal-frequency.png")
    ranks(IMAGES / "variation-ranks.png")
    reliability(rows, IMAGES / "variation-reliability.png")
    data = miscal.datasets.calibrated_classes(6000, n_classes=12)
    p = data.y_prob.copy()
    p[:, 7] *= 1.5
    p /= p.sum(axis=1, keepdims=True)
    result = miscal.by_class(miscal.Predictions(data.y_true, p), miscal.Score(bins=5))
    result.plot().figure_.savefig(IMAGES / "variation-classes.png", dpi=110)
    print(np.round([result.value, result.noise_floor], 5))


if __name__ == "__main__":
    main()
