"""Inputs and answers of the oracles, frozen as JSON: the tests need none of the libraries that gave the answers.

`make oracles` computes the answers again in the peers' environment. Floats are written with all their digits.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def inputs():
    """Arrays by name: y, p (untied), tied (p rounded to .1), weight, labels and classes (n, 4), all of 400 rows."""
    return {name: np.array(values) for name, values in json.loads((HERE / "inputs.json").read_text()).items()}


def save(name, packages, values):
    """Write the answers beside the script that found them."""
    versions = {package: importlib.metadata.version(package) for package in packages}
    content = {"versions": versions, "values": _plain(values)}
    (HERE / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def answers(name):
    """The frozen answers of one oracle."""
    return json.loads((HERE / f"{name}.json").read_text())["values"]


def _plain(value):
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value
