"""Is the size that a finding is given, less the luck of having been found, that of the planted error?

    python -m studies.shrunken_sizes [--quick] [--sets=N]

One level of six is off by a shift of the log-odds of so many expected standard errors; audits in which that level is a
finding are judged (the others say nothing of its size). Shown: the mean of the size that is said over the true one, and
of the raw gap over it. The goal is 0.85 to 1.15 in every design. "rare": scores of beta(1, 150); "clusters": the
level's rows in 20 or 60 clusters of a latent correlation of .1, scores of beta(2, 3) as for "common".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

import miscal
from studies import harness

SETS = 60
SIGMAS = (5.0, 7.0)
ROWS = 3000
# (scores, clusters in the level, direction of the shift)
DESIGNS: dict[str, tuple[tuple[float, float], int, float]] = {
    "common, too low": ((2.0, 3.0), 0, 1.0),
    "common, too high": ((2.0, 3.0), 0, -1.0),
    "rare, too low": ((1.0, 150.0), 0, 1.0),
    "20 clusters": ((2.0, 3.0), 20, 1.0),
    "60 clusters": ((2.0, 3.0), 60, 1.0),
}
ALIKE = 0.1


def table(design: str, sigma: float, seed: int) -> tuple[miscal.Predictions, float]:
    """A table and how many events fewer than happen are predicted in its level d, in truth."""
    shape, clusters, way = DESIGNS[design]
    random = np.random.default_rng([seed, int(10 * sigma), len(design)])
    p = np.clip(random.beta(*shape, ROWS), 1e-5, 1 - 1e-5)
    region = random.choice(list("abcdef"), ROWS)
    inside = region == "d"
    cluster = random.integers(0, 6 * clusters, ROWS) if clusters else None
    if clusters:  # whole clusters are in a level
        cluster = np.where(
            inside, random.integers(0, clusters, ROWS), clusters + random.integers(0, 5 * clusters, ROWS)
        )
    own = p[inside]
    noise = np.sqrt(np.sum(own * (1 - own)) * (1.0 if cluster is None else spread(own, clusters)))
    low, high = 0.0, 12.0  # the shift that makes the level so many standard errors off
    for _ in range(50):
        middle = 0.5 * (low + high)
        off = abs(np.sum(shifted(own, way * middle) - own)) / noise
        low, high = (middle, high) if off < sigma else (low, middle)
    truth = np.where(inside, shifted(p, way * high), p)
    latent = random.normal(size=ROWS)
    if cluster is not None:
        latent = np.sqrt(ALIKE) * random.normal(size=6 * clusters)[cluster] + np.sqrt(1 - ALIKE) * latent
    outcome = (latent < ndtri(truth)).astype(int)
    made = miscal.Predictions(outcome, p, columns={"region": region, "x": random.random(ROWS)}, cluster=cluster)
    return made, float(np.sum(p - truth))


def shifted(p: np.ndarray, by: float) -> np.ndarray:
    """Probabilities whose log-odds are higher."""
    return np.asarray(1.0 / (1.0 + np.exp(-by) * (1.0 - p) / p))


def spread(p: np.ndarray, clusters: int) -> float:
    """How much more sums over clusters vary than sums over rows, nearly."""
    density = np.exp(-0.5 * ndtri(p) ** 2) / np.sqrt(2 * np.pi)
    return 1.0 + ALIKE * float(density.mean() ** 2 / np.mean(p * (1 - p))) * (p.size / clusters - 1)


def one(design: str, sigma: float, seed: int) -> tuple[float, float] | None:
    """What is said of the level over the truth, and the raw gap over it; None where it is no finding."""
    made, true = table(design, sigma, seed)
    with harness.tests_only():
        found = miscal.audit(made, effort="quick", random_state=seed).findings
    own = [each for each in found if each.where == "region d"]
    if not own or own[0].shrunken is None:
        return None
    return own[0].shrunken * own[0].weight / true, own[0].events_off / true


def row(design: str, sigma: float, sets: int) -> dict[str, Any]:
    """One design at one size."""
    said = f"{design}, {sigma:g}"
    found = [one(design, sigma, seed) for seed in harness.progress(range(sets), said)]
    judged = np.array([each for each in found if each is not None]).reshape(-1, 2)
    mean, raw = judged.mean(axis=0) if len(judged) else (np.nan, np.nan)
    return {"design": design, "sigma": sigma, "sets": sets, "found": len(judged), "said / true": float(mean),
            "raw / true": float(raw)}  # fmt: skip


def study(quick: bool = False, sets: int = SETS) -> tuple[dict[str, Any], str]:
    """All designs at all sizes, and the mean over the findings of a design."""
    return summed([row(design, sigma, 1 if quick else sets) for design in DESIGNS for sigma in SIGMAS])


def summed(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """The mean over the findings of each design, and the text."""
    means = []
    for design in DESIGNS:
        own = [each for each in rows if each["design"] == design and each["found"]]
        weight = [each["found"] for each in own]
        mean, raw = (
            float(np.average([each[name] for each in own], weights=weight)) for name in ("said / true", "raw / true")
        )
        means.append({"design": design, "findings": sum(weight), "said / true": mean, "raw / true": raw,
                      "kept": abs(mean - 1) <= 0.15})  # fmt: skip
    text = "\n\n".join(["# Sizes that findings are given", harness.markdown(means), harness.markdown(rows)])
    return {"means": means, "rows": rows}, text


if __name__ == "__main__":
    harness.main("shrunken_sizes", study)
