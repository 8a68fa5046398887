"""One row through the network of `NeuralCalibration`: its tensors are read once, then a few products of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import Any

import numpy as np

from miscal.recalibrate.base import Floats
from miscal.recalibrate.by_columns.neural_inputs import FIRST, FURTHEST, MISSING, OTHER
from miscal.recalibrate.export.row import General, Number, Row, level, number


def one_row(made: Any) -> Callable[[float, Row], float]:
    """A function from a probability and a row to the event's probability."""
    run = _network(made)
    return lambda p, row: float(run(np.array([p]), row)[1])


def several(made: Any) -> Callable[[Sequence[float], Row], Sequence[float]]:
    """A function from the probabilities of several classes and a row to better ones."""
    run = _network(made)
    return lambda p, row: run(np.array([p]), row).tolist()


def _network(made: Any) -> Callable[[Floats, Row], Floats]:
    parts = made.parts()
    if parts is None:
        raise General  # a module of the user's own
    values, tables, layers = parts
    readers: list[Callable[[Row], Any]] = []
    numbers: list[tuple[Number, float, float]] = []
    for name, nominal, levels in zip(map(str, made.names_), made.nominal_, made.levels_, strict=True):
        if nominal:
            readers.append(level(name, levels, MISSING - FIRST, OTHER - FIRST))
        else:
            k = len(numbers)
            numbers.append((number(name), float(made.centre_[k]), float(made.scale_[k])))
    maps = np.arange(len(values))

    def run(probability: Floats, row: Row) -> Floats:
        found = [table[FIRST + read(row)] for table, read in zip(tables, readers, strict=True)]
        x = np.concatenate([*found, _scaled(numbers, row)])
        for weight, bias in zip(layers[0:-2:2], layers[1:-2:2], strict=True):
            x = np.maximum(weight @ x + bias, 0.0)
        place, part = made.places(probability)
        below, above = values[maps, place[0]], values[maps, place[0] + 1]
        logits = below + part[0] * (above - below) + (layers[-2] @ x + layers[-1])
        found_row: Floats = made.probabilities(logits[None, :])[0]
        return found_row

    return run


def _scaled(numbers: list[tuple[Number, float, float]], row: Row) -> Any:
    """Numbers centred, scaled and held, then the flags of missing ones; in single precision, as in training."""
    width = len(numbers)
    out = np.zeros(2 * width, np.float32)
    for k, (read, centre, scale) in enumerate(numbers):
        value = read(row)
        if isnan(value):
            out[width + k] = 1.0
        else:
            out[k] = min(max((value - centre) * scale, -FURTHEST), FURTHEST)
    return out
