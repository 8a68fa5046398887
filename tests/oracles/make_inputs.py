"""The rows that every oracle is asked about: overconfident scores, so that the errors are not just noise."""

from __future__ import annotations

import json

import numpy as np
from frozen import HERE, _plain

ROWS = 400


def main():
    rng = np.random.default_rng(42)
    p = rng.beta(0.8, 1.4, ROWS).clip(0.001, 0.999)
    truth = 1.0 / (1.0 + ((1.0 - p) / p) ** 0.6)
    classes = rng.dirichlet([0.8, 0.6, 0.5, 0.4], ROWS)
    mixed = 0.7 * classes + 0.3 * classes.mean(axis=0)
    values = {
        "y": (rng.random(ROWS) < truth).astype(int),
        "p": p,
        "tied": np.round(p, 1).clip(0.05, 0.95),
        "weight": rng.lognormal(0.0, 0.8, ROWS),
        "labels": (rng.random((ROWS, 1)) > mixed.cumsum(axis=1)[:, :3]).sum(axis=1),
        "classes": classes,
    }
    (HERE / "inputs.json").write_text(json.dumps(_plain(values)) + "\n")


if __name__ == "__main__":
    main()
