"""Draw the figures of paper 002 from the committed results: docs/images/neighbourhood-*.png.

python -m studies.local_figures
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import miscal
from miscal import datasets, metrics
from miscal.plots import NeighbourhoodDisplay
from studies.displays import BandwidthDisplay, RewardDisplay
from studies.harness import images_folder
from studies.wave import local_wave

matplotlib.use("Agg")
HERE = Path(__file__).parent
IMAGES = images_folder()


def load(name: str) -> dict[str, Any]:
    path = HERE / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(display: Any, name: str) -> None:
    display.figure_.savefig(IMAGES / f"neighbourhood-{name}.png", dpi=130)
    print(name)


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
    for statistic in ("largest", "average"):
        band = None if spread is None else spaces(spread, statistic, out)
        display = BandwidthDisplay(spaces(curves, statistic, out), content["bandwidths"], statistic, band, mark)
        save(display.plot(), f"{name}-{statistic}")


def wave(rows: int) -> None:
    """Figure 1's limits on data whose local error is known: planted waves, largest error against the bandwidth."""
    data = local_wave(rows)
    x = np.column_stack([data.columns["x1"], data.columns["x2"]])
    p = miscal.Predictions(data.y_true, data.y_prob, columns=data.columns)
    result = miscal.by_neighbourhood(p, ["x1", "x2"], simulations=199)
    save(NeighbourhoodDisplay(result, "map").plot(), "map-wave")
    grid = np.geomspace(1e-3, 10.0, 17)
    redrawn = (np.random.default_rng(1).random(data.y_prob.size) < data.y_prob).astype(int)
    outcomes = {"Errors in waves": data.y_true, "The same scores, calibrated": redrawn}
    curves = {
        name: metrics.maximum_local_calibration_error(y, data.y_prob, x, bandwidth=grid) for name, y in outcomes.items()
    }
    save(BandwidthDisplay({f"{rows:,} rows, two features": curves}, grid.tolist()).plot(), "limits")


def flights(rows: int) -> None:
    """The worst neighbourhoods in words."""
    whole = datasets.flights_predictions()
    p = whole.take(np.random.default_rng(0).choice(whole.rows, rows, replace=False))
    names = [name for name in ("hour", "month", "carrier", "distance", "origin") if name in p.columns][:4]
    result = miscal.by_neighbourhood(p, names, bandwidth=0.3, simulations=199)
    print(result.sentence())
    save(NeighbourhoodDisplay(result, "worst").plot(), "worst-flights")


def main() -> None:
    quick = "--quick" in sys.argv
    wave(1_000 if quick else 20_000)
    flights(1_000 if quick else 30_000)
    images = load("local_images")
    for name, short in (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100")):
        if name not in images:
            continue
        content = images[name]
        bandwidths(images, content["curves"], short)
        save(RewardDisplay(content["reward"], images["ratios"]).plot(), f"{short}-reward")
        sample = content["map"]
        p = miscal.Predictions(np.array(sample["right"]), np.array(sample["confidence"]))
        result = miscal.by_neighbourhood(p, np.array(sample["x"]), scale=None, simulations=99)
        save(NeighbourhoodDisplay(result, "map").plot(), f"{short}-map")
    crime = load("crime")
    if crime:
        bandwidths(crime, crime["curves"], "crime", crime["curves sd"])


if __name__ == "__main__":
    main()
