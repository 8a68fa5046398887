"""Draw the figures of paper 002 from the committed results: docs/images/neighbourhood-*.png.

    python -m studies.local_figures [--quick] [wave flights cifar imagenet equal_mass crime]

Without names all of them. `--quick` draws small simulated data and writes nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot

import miscal
from miscal import datasets, metrics
from miscal.plots import BandwidthDisplay, NeighbourhoodDisplay, RewardDisplay
from studies.harness import images_folder
from studies.wave import local_wave

matplotlib.use("Agg")
HERE = Path(__file__).parent
IMAGES = images_folder()
QUICK = "--quick" in sys.argv


def load(name: str) -> dict[str, Any]:
    return json.loads((HERE / "results" / f"{name}.json").read_text(encoding="utf-8"))


def save(display: Any, name: str) -> None:
    """Write a figure; a quick one is only rendered."""
    if QUICK:
        display.figure_.canvas.draw()
    else:
        display.figure_.savefig(IMAGES / f"neighbourhood-{name}.png", dpi=130)
    pyplot.close(display.figure_)
    print(name, flush=True)


def spaces(curves: dict[str, Any], statistic: str, left_out: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    names = {"t-SNE": "t-SNE, two dimensions", "PCA": "Principal components"}
    return {
        words: {m: each[f"{statistic} {key}"] for m, each in curves.items() if m not in left_out}
        for key, words in names.items()
    }


def bandwidths(
    content: dict[str, Any], curves: dict[str, Any], name: str, spread: dict[str, Any] | None = None
) -> None:
    """Figures 5, 8, 9, 17: largest and average error against the bandwidth."""
    out = ("LoRe (raw t-SNE)", "group temperature", "group histogram")
    mark = {"t-SNE, two dimensions": 0.2, "Principal components": 0.4}
    for file, statistic in (("largest", "maximum"), ("average", "average")):
        band = None if spread is None else spaces(spread, file, out)
        display = BandwidthDisplay(spaces(curves, file, out), content["bandwidths"], statistic, band, mark)
        save(display.plot(), f"{name}-{file}")


def wave() -> None:
    """Figure 1's limits on data whose local error is known: planted waves, largest error against the bandwidth."""
    data = local_wave(1000 if QUICK else 20_000)
    x = np.column_stack([data.columns["x1"], data.columns["x2"]])
    p = miscal.Predictions(data.y_true, data.y_prob, columns=data.columns)
    result = miscal.by_neighbourhood(p, ["x1", "x2"], simulations=9 if QUICK else 199)
    save(NeighbourhoodDisplay(result, "map").plot(), "map-wave")
    grid = np.geomspace(1e-3, 10.0, 17)
    redrawn = (np.random.default_rng(1).random(data.y_prob.size) < data.y_prob).astype(int)
    outcomes = {"The same scores, calibrated": redrawn, "Errors in waves": data.y_true}
    curves = {
        name: metrics.maximum_local_calibration_error(y, data.y_prob, x, bandwidth=grid) for name, y in outcomes.items()
    }
    save(BandwidthDisplay({f"{p.rows:,} rows, two features": curves}, grid).plot(), "limits")


def flights() -> None:
    """The worst neighbourhoods in words."""
    whole = datasets.flights_predictions()
    p = whole.take(np.random.default_rng(0).choice(whole.rows, 1000 if QUICK else 30_000, replace=False))
    names = [name for name in ("hour", "month", "carrier", "distance", "origin") if name in p.columns][:4]
    result = miscal.by_neighbourhood(p, names, bandwidth=0.3, simulations=9 if QUICK else 199)
    print(result.sentence())
    save(NeighbourhoodDisplay(result, "worst").plot(), "worst-flights")


def cifar() -> None:
    """Figures 2, 4, 8, 9 and 16 on CIFAR-10 and CIFAR-100."""
    images = load("local_images")
    for name, short in (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100")):
        content = images[name]
        bandwidths(images, content["curves"], short)
        save(RewardDisplay(content["reward"], images["ratios"]).plot(), f"{short}-reward")
        sample = content["map"]
        p = miscal.Predictions(np.array(sample["right"]), np.array(sample["confidence"]))
        result = miscal.by_neighbourhood(p, np.array(sample["x"]), scale=None, simulations=9 if QUICK else 99)
        save(NeighbourhoodDisplay(result, "map").plot(), f"{short}-map")


def imagenet() -> None:
    """Figure 4 on the paper's own classifier."""
    content = load("imagenet_decisions")
    save(RewardDisplay(content["rewards"], content["ratios"]).plot(), "imagenet-reward")


def equal_mass() -> None:
    """Maximum local error after LoRe in bins of equal width and of equal mass (Appendix A)."""
    content = load("equal_mass")
    names = {"none": "Not recalibrated", "equal width": "LoRe, equal width", "equal mass": "LoRe, equal mass"}
    curves = {data: {names[name]: errors for name, errors in each.items()} for data, each in content["curves"].items()}
    mark = dict.fromkeys(curves, 0.4)
    save(BandwidthDisplay(curves, content["bandwidths"], mark=mark).plot(), "equal-mass")


def crime() -> None:
    """Figures 5 and 17."""
    content = load("crime")
    bandwidths(content, content["curves"], "crime", content["curves sd"])


def main() -> None:
    """The parts that are named, or all."""
    parts = {part.__name__: part for part in (wave, flights, cifar, imagenet, equal_mass, crime)}
    asked = [word for word in sys.argv[1:] if not word.startswith("--")]
    for name in asked or parts:
        parts[name]()


if __name__ == "__main__":
    main()
