"""What every study shares: counting false alarms against a binomial limit, and writing results.

A test at 5% on N calibrated data sets may alarm at most as often as the 99.9% point of Binomial(N, .05): 73 of 1,000,
13 of 100.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import miscal
from miscal.codes.inference import Method
from miscal.stats.metric_null import NullSummary

RESULTS = Path(__file__).parent / "results"
IMAGES = Path(__file__).parents[1] / "docs" / "images"
CONFIDENCE = 0.999
_temporary: list[tempfile.TemporaryDirectory[str]] = []


def temporary_folder() -> Path:
    """A folder that is removed when the process ends."""
    if not _temporary:
        _temporary.append(tempfile.TemporaryDirectory())
    return Path(_temporary[0].name)


def images_folder() -> Path:
    """Where a script leaves its figures: docs/images, or a temporary folder in a quick run."""
    if "--quick" in sys.argv:
        return temporary_folder()
    IMAGES.mkdir(exist_ok=True)
    return IMAGES


def as_published(recalibrator: Any) -> Any:
    """A recalibrator as its paper has it: no half events, and certainties taken for what they say."""
    plain = {"smooth": 0.0, "keep_certain": True}
    names = {name: name.rpartition("__")[2] for name in recalibrator.get_params()}
    return recalibrator.set_params(**{name: plain[last] for name, last in names.items() if last in plain})


def alarm_limit(trials: int, level: float = 0.05) -> int:
    """Most alarms that a valid test at `level` shows in `trials`, but for one study in a thousand."""
    from scipy.stats import binom

    return int(binom.ppf(CONFIDENCE, trials, level))


def least_hits(trials: int, rate: float) -> int:
    """Fewest successes of at least the rate `rate` in `trials`, but for one study in a thousand."""
    from scipy.stats import binom

    return int(binom.ppf(1.0 - CONFIDENCE, trials, rate))


def alarms(p_values: Sequence[float], level: float = 0.05) -> dict[str, Any]:
    """Count p-values at or below the level; those that are NaN were not judged."""
    values = np.asarray(p_values, dtype=np.float64)
    judged = int(np.count_nonzero(~np.isnan(values)))
    found = int(np.count_nonzero(values <= level))
    limit = alarm_limit(values.size, level)
    return {"alarms": found, "of": values.size, "judged": judged, "limit": limit, "kept": found <= limit}


@contextmanager
def without_smooth_noise() -> Iterator[None]:
    """Results without the draws of SmoothECE, which no other test and no finding reads: half of the time of a score."""
    with patch(
        "miscal.metrics.score.smooth_ece_null",
        lambda _, value, *__, **___: NullSummary.unknown(value, Method.NO_SIMULATIONS),
    ):
        yield


@contextmanager
def tests_only() -> Iterator[None]:
    """Results without warnings and without the draws of SmoothECE."""
    with warnings.catch_warnings(), without_smooth_noise():
        warnings.simplefilter("ignore", miscal.MiscalWarning)
        yield


def counted(found: Sequence[Mapping[str, Any]], tests: Iterable[str], **about: Any) -> dict[str, Any]:
    """One row of a table: alarms of each test at 5% and at 1%, the most there may be, and whether that was kept."""
    levels = (0.05, 0.01)
    limits = [alarm_limit(len(found), level) for level in levels]
    counts = {name: [alarms([each[name] for each in found], level)["alarms"] for level in levels] for name in tests}
    texts = {name: " / ".join(map(str, values)) for name, values in counts.items()}
    kept = bool((np.max(list(counts.values()), axis=0) <= limits).all())
    return {**about, "sets": len(found), **texts, "counts": counts, "limit": " / ".join(map(str, limits)), "kept": kept}


def size_and_power(title: str, rows: Sequence[Any], planted: Sequence[Any], about: Iterable[str]) -> tuple[Any, str]:
    """The content and the text of a study whose rows are `counted`: calibrated tables, and planted errors."""
    shown = [*about, *rows[0]["counts"]]
    seen = [name for name in shown if name in planted[0]]
    text = [
        f"# {title}\n\nAlarms at 5% / at 1% in {rows[0]['sets']} calibrated tables of each design.",
        markdown(rows, {name: name for name in [*shown, "limit", "kept"]}),
        f"Power at 5% / at 1% in {planted[0]['sets']} tables of each design that are off.",
        markdown(planted, {name: name for name in seen}),
    ]
    return {"calibrated": rows, "planted": planted}, "\n\n".join(text)


def progress(items: Iterable[Any], title: str) -> Iterable[Any]:
    """Pass items on, with a line on the standard error when done."""
    start = time.perf_counter()
    yield from items
    print(f"{title}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def markdown(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str] | None = None) -> str:
    """A markdown table; columns maps keys to headings, all keys of the first row when None."""
    columns = columns or {name: name for name in rows[0]}
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(row.get(name)) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def write(name: str, content: Mapping[str, Any], text: str) -> Path:
    """Write results/<name>.json and <name>.md; NaN becomes null."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(_plain(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(text.rstrip() + "\n", encoding="utf-8")
    return path


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def main(name: str, study: Callable[..., tuple[Mapping[str, Any], str]]) -> None:
    """Run a study as a script: `--quick` for a small one, which writes nothing; `--sets=N` of those that have it."""
    quick = "--quick" in sys.argv
    asked = [int(word.partition("=")[2]) for word in sys.argv if word.startswith("--sets=")]
    content, text = study(quick=quick, **({"sets": asked[0]} if asked else {}))
    print(text)
    if not quick:
        print(write(name, content, text))
