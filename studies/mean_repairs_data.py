"""Repairs of means on real tables: claims with exposure, and a judge's scores against people's votes.

    MISCAL_DATA=folder python -m studies.mean_repairs_data

Claims: Norwegian motor policies of one year (CASdatasets, norauto). A Poisson regression is fitted on a fifth of the
policies from sex and distance limit alone, as if region and age were not known to it; two fifths choose and fit a
repair, the last two judge it. Judge: a network's confidence in the label it gives to 9,767 images, against the share
of about 50 people each who give the same label (CIFAR-10H); half of the images repair, half judge.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from miscal.recalibrate import Recalibrator, choose
from miscal.recalibrate.outcome_families import FAMILIES
from studies import harness
from studies.needs import need

NAME = "mean_repairs_data"
VOTES = [f"human_count_{k}" for k in range(10)]
SCORES = [f"prob_{k}" for k in range(10)]
Rows = tuple[np.ndarray, np.ndarray, pd.DataFrame, np.ndarray]  # predicted, outcome, columns, exposure


def claims() -> tuple[Rows, Rows]:
    """The policies that repair, and those that judge."""
    from sklearn.linear_model import PoissonRegressor

    frame = pd.read_parquet(folder() / "norauto_claims.parquet")
    frame["Age"] = np.where(frame.pop("Young") == 1, "below 26", "26 and more")
    fifth = np.random.default_rng(0).permutation(len(frame)) % 5
    known = pd.get_dummies(frame[["Male", "DistLimit"]], dtype=float)
    rate, years, first = frame["NbClaim"] / frame["Expo"], frame["Expo"], fifth == 0
    model = PoissonRegressor(alpha=0.0, max_iter=1000).fit(known[first], rate[first], sample_weight=years[first])
    frame["predicted"] = model.predict(known)
    parts = frame[(fifth == 1) | (fifth == 2)], frame[fifth > 2]
    names = ["Male", "Age", "DistLimit", "GeoRegion"]
    repairs, judges = (
        (part["predicted"].to_numpy(), part["NbClaim"].to_numpy(), part[names], part["Expo"].to_numpy())
        for part in parts
    )
    return repairs, judges


def votes() -> tuple[Rows, Rows]:
    """The images that repair, and those that judge."""
    frame = pd.read_parquet(folder() / "cifar10h_densenet_rt.parquet")
    label, place = frame[SCORES].to_numpy().argmax(axis=1), np.arange(len(frame))
    people = frame[VOTES].to_numpy(dtype=float)
    agree = people[place, label] / people.sum(axis=1)
    columns = pd.DataFrame({"label": label.astype(str), "reaction": frame["median_rt"]})
    half = np.random.default_rng(0).permutation(len(frame)) % 2 == 0
    score = frame[SCORES].to_numpy(dtype=float)[place, label]
    repairs, judges = ((score[at], agree[at], columns[at], np.ones(at.sum())) for at in (half, ~half))
    return repairs, judges


def folder() -> Path:
    return Path(os.environ["MISCAL_DATA"])


def repaired(rows: Rows, response: str) -> Recalibrator:
    """What `choose` takes."""
    predicted, outcome, columns, exposure = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = exposure if response == "count" else None
        return choose(predicted, outcome, columns, response=response, exposure=given)


def judged(rows: Rows, made: Recalibrator, response: str) -> dict[str, Any]:
    """Deviance and observed / predicted before and after, on rows that chose nothing."""
    predicted, outcome, columns, exposure = rows
    family, rate = FAMILIES[response], outcome / exposure
    means = predicted, made.predict(predicted, columns)
    losses = [family.losses(family.link(mean), rate) for mean in means]
    change = losses[1] - losses[0]
    mean = float(np.average(change, weights=exposure))
    error = float(np.sqrt(np.sum((exposure * (change - mean)) ** 2)) / exposure.sum())
    return {
        "loss": [float(np.average(loss, weights=exposure)) for loss in losses],
        "change": mean,
        "low": mean - 1.96 * error,
        "high": mean + 1.96 * error,
        "ratio": [float(outcome.sum() / (exposure * each).sum()) for each in means],
    }


def places(rows: Rows, made: Recalibrator, cells: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """Observed against predicted in each place, before and after."""
    predicted, outcome, columns, exposure = rows
    after = made.predict(predicted, columns)
    return [
        {
            "place": name, "rows": int(here.sum()), "observed": float(outcome[here].sum() / exposure[here].sum()),
            "before": float(np.average(predicted[here], weights=exposure[here])),
            "after": float(np.average(after[here], weights=exposure[here])),
            "ratio_before": float(outcome[here].sum() / (exposure * predicted)[here].sum()),
            "ratio_after": float(outcome[here].sum() / (exposure * after)[here].sum()),
        }
        for name, here in cells.items()
    ]  # fmt: skip


def levels(columns: pd.DataFrame, names: list[str]) -> dict[str, np.ndarray]:
    """Each level of some columns."""
    return {
        f"{name} {each}": (columns[name] == each).to_numpy() for name in names for each in sorted(set(columns[name]))
    }


def thinned(halves: tuple[Rows, Rows], step: int) -> list[Rows]:
    """Every so many rows of both halves."""
    return [
        (predicted[::step], outcome[::step], columns.iloc[::step], exposure[::step])
        for predicted, outcome, columns, exposure in halves
    ]


def study(*, quick: bool = False) -> tuple[Mapping[str, Any], str]:
    """Both data sets; a quick run takes a tenth of their rows."""
    need("MISCAL_DATA")
    step = 10 if quick else 1
    data = (("claims", thinned(claims(), step), "count"), ("judge", thinned(votes(), step), "real"))
    parts, done = [], {}
    for name, (rows, others), response in data:
        made = repaired(rows, response)
        if name == "claims":
            cells = levels(others[2], ["Age", "GeoRegion"])
        else:
            quarter = np.searchsorted(np.quantile(others[2]["reaction"], [0.25, 0.5, 0.75]), others[2]["reaction"])
            words = ("quickest quarter", "second", "third", "slowest quarter")
            cells = {f"reaction time: {word}": quarter == k for k, word in enumerate(words)}
        found = places(others, made, cells)
        done[name] = {
            "name": made.name,
            "reason": made.reason,
            "judged": judged(others, made, response),
            "places": found,
        }
        told = {"place": "place", "rows": "rows", "observed": "observed", "before": "predicted", "after": "repaired",
                "ratio_before": "observed / predicted", "ratio_after": "observed / repaired"}  # fmt: skip
        parts.append(_text(name, done[name], harness.markdown(found, told)))
    for name, text in zip(done, parts, strict=True) if not quick else ():
        (harness.RESULTS / f"{NAME}_{name}.md").write_text(text, encoding="utf-8")
    return done, "\n\n".join(parts)


def _text(name: str, found: Mapping[str, Any], table: str) -> str:
    numbers = found["judged"]
    nearer = sum(abs(each["ratio_after"] - 1) < abs(each["ratio_before"] - 1) for each in found["places"])
    loss = "deviance" if name == "claims" else "squared error"
    return (
        f"`choose` takes `{found['name']}`: {found['reason']}\n\nOn the rows that it has not seen the {loss} goes from "
        f"{numbers['loss'][0]:.4g} to {numbers['loss'][1]:.4g}, by {numbers['change']:.2g} "
        f"({numbers['low']:.2g} to {numbers['high']:.2g}), and observed / predicted from {numbers['ratio'][0]:.3f} to "
        f"{numbers['ratio'][1]:.3f}. In {nearer} of {len(found['places'])} places observed / predicted is nearer to 1 "
        f"than before.\n\n{table}\n"
    )


if __name__ == "__main__":
    harness.main(NAME, study)
