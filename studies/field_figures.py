"""Figures of the page on fields, from the loans of the study.

MISCAL_DATA=folder python -m studies.field_figures --networks folder
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

import miscal
from miscal.plots.base import BAND, INK, QUIET, SERIES, pyplot
from miscal.recalibrate import IsotonicCalibration, IsotonicLinePlotScaling, PlattScaling
from studies import harness
from studies.field_calibration import RESULTS, held, sba_loans

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def save(figure, name):
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / f"field-{name}.png", dpi=110)
    pyplot().close(figure)


def levels(networks):
    data = sba_loans()
    two = int(0.8 * len(data.y))
    base = held(1 / (1 + np.exp(-np.load(networks / "sba_loans_ours.npz")["model1"].astype(float))))
    one = int(0.6 * len(data.y))
    X = data.X.iloc[two:]
    columns = {name: X[name].to_numpy(dtype=object, na_value=None) for name in ("Bank", "State", "naics2")}
    test = miscal.Predictions(data.y[two:], base[two - one :], columns=columns)
    valid = base[: two - one], data.y[one:two]
    return test, valid


def maps(valid):
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
    save(figure, "maps")


def methods():
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
    save(figure, "methods")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", type=Path, required=True)
    test, valid = levels(parser.parse_args().networks)
    banks = miscal.by_field(test, "Bank")
    print(banks.sentence(), banks.method, dict(banks.extra["differences"]), banks.extra["spread"])
    save(banks.plot(kind="funnel").figure_, "funnel")
    save(banks.plot(kind="caterpillar").figure_, "caterpillar")
    save(miscal.by_field(test, ["State", "naics2"]).plot(kind="map").figure_, "map")
    maps(valid)
    methods()


if __name__ == "__main__":
    main()
