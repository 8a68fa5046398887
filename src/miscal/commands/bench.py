"""`miscal bench`: what the main metrics cost on this machine, beside the time of merely reading the rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

REPEATS = 5


@click.command()
@click.option(
    "--rows", default=1_000_000, show_default=True, type=click.IntRange(1000, 100_000_000), help="Rows to time."
)
def bench(rows: int) -> None:
    """Time the main metrics here: seconds, rows a second, and times the cost of reading the rows once."""
    from rich.console import Console
    from rich.table import Table

    from miscal.kernels.threads import thread_count

    timings = _timings(rows)
    floor = timings.pop("read the rows once")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    table = Table(
        title=f"{rows:,} rows, {thread_count()} threads, load {load:.1f}; least of {REPEATS} runs",
        title_justify="left",
        show_edge=False,
        pad_edge=False,
    )
    for name in ("metric", "milliseconds", "million rows a second", "times reading once"):
        table.add_column(name, justify="left" if name == "metric" else "right")
    for name, seconds in timings.items():
        speed, times = rows / seconds / 1e6, seconds / floor
        table.add_row(name, f"{1e3 * seconds:,.2f}", f"{speed:,.0f}", f"{times:,.1f}")
    Console().print(table)


def _timings(rows: int) -> dict[str, float]:
    """Least wall seconds of each metric on scores of a beta distribution."""
    from miscal import metrics

    rng = np.random.default_rng(0)
    p = rng.beta(0.8, 1.6, rows)
    y = (rng.random(rows) < p).astype(np.int64)
    level = rng.integers(0, 1000, rows)
    calls: dict[str, Callable[[], Any]] = {
        "read the rows once": lambda: p.sum() + y.sum(),
        "expected calibration error, 15 bins": lambda: metrics.expected_calibration_error(y, p),
        "the same, bins of equal support": lambda: metrics.expected_calibration_error(y, p, strategy="quantile"),
        "SmoothECE": lambda: metrics.smooth_calibration_error(y, p),
        "Kuiper": lambda: metrics.kuiper_calibration_error(y, p),
        "along a variable": lambda: metrics.variable_calibration_error(y, p, p * p),
        "by a field of 1,000 levels": lambda: metrics.field_calibration_error(y, p, level),
    }
    return {name: min(_seconds(call) for _ in range(REPEATS + 1)) for name, call in calls.items()}


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
