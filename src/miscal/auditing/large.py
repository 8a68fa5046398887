"""Which tables are audited without being loaded, and how: streams, clusters, and carriers in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from miscal.auditing.record import Audit
from miscal.auditing.streamed import MOST_LEVELS, Seen, audit_of, summarise
from miscal.carriers.summary import Summary
from miscal.data.errors import check_named, refusal
from miscal.data.sources import unnamed
from miscal.data.vectors import library_of
from miscal.engines.batches import is_lazy
from miscal.engines.crowd_search import Limits
from miscal.engines.rows import Door
from miscal.engines.runners import DEFAULT, restarted, runner_for, sums_bytes

TALLY = ".tally"
CACHED = 12 << 20  # bytes of sums of conjunctions that stay in the cache while every row is added
LOADED = 12  # bytes in memory for each byte of a decoded table, while it is audited
TEXT = 3  # bytes decoded for each byte of CSV


def is_large(data: Any, memory: Any = None) -> bool:
    """Whether a table is read in parts: a ceiling, several files, a cluster's frame, or too large to load."""
    if library_of(data) == "pyspark":
        return True
    if isinstance(data, (str, PathLike)):
        path = Path(fspath(data))
        if path.suffix == TALLY or path.is_dir() or (not path.exists() and any(mark in str(path) for mark in "*?[")):
            return True
        return memory is not None or (path.is_file() and _loaded(path) > _available())
    return memory is not None and is_lazy(data)


def _loaded(path: Path) -> float:
    """Bytes of memory that an audit of the loaded table would take, roughly."""
    size = path.stat().st_size
    if size < 1 << 26:
        return 0.0
    if path.suffix.lower() in (".parquet", ".pq"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            metadata = pq.read_metadata(path)
        except (OSError, pa.ArrowException):
            return 0.0  # the reader will say what is wrong
        return float(metadata.num_rows * metadata.num_columns * LOADED)
    return float(size) * TEXT * LOADED / 8


def _available() -> float:
    """Half of the machine's memory."""
    import os

    try:
        return 0.5 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 4e9


def audit_large(
    data: Any,
    *,
    outcome: str | None = None,
    probability: Any = None,
    weight: str | None = None,
    count: str | None = None,
    cluster: str | None = None,
    by: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    target: str | int = "auto",
    level: float = 0.05,
    effort: str = "normal",
    random_state: int = 0,
    time: str | None = None,
    every: str | None = None,
    suppress_below: int = 0,
    source: str | None = None,
    memory: Any = None,
    max_levels: int = MOST_LEVELS,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> Audit:
    """Audit a table in parts, a frame of a cluster, or a file of carriers.

    memory : ceiling, such as "600MB"; 1GB by default
    max_levels : a field with more levels is refused
    """

    def say(what: str) -> None:
        if progress is not None:
            progress(what, 0, 1)

    common: Any = {"level": level, "random_state": random_state, "say": say}
    name = Path(fspath(data)).name if isinstance(data, (str, PathLike)) else None
    if name is not None and name.endswith(TALLY):
        if time is not None:
            raise refusal(
                "needs the rows", where="'time'", got=f"'{name}' keeps sums whose periods are not all known",
                hint="audit the table itself with it",
            )  # fmt: skip
        summary = Summary.load(fspath(data))
        asked: Any = {"weight": weight, "count": count, "cluster": cluster, "by": by, "ignore": ignore, **options}
        _check_tally(summary, name, {"outcome": outcome, "probability": probability}, asked)
        made = audit_of(Seen(summary, {}, {}), source=source or name, **common)
        return made.suppressed(suppress_below) if suppress_below else made
    if outcome is None or probability is None:
        raise unnamed(data)
    if cluster is not None:
        raise refusal(
            "needs all rows of a cluster together", where="'cluster'",
            got="a table read in parts keeps sums by cell, and one by cell and cluster would be as long as the table",
            hint="load the table (leave memory out), or a sample of whole clusters: see the page on large data",
        )  # fmt: skip
    if not (isinstance(max_levels, int) and max_levels >= 1):
        raise refusal("must be a whole number above 0", where="'max_levels'", got=f"it is {max_levels!r}")
    unknown = set(options) - {"logit", "positive", "clip"}
    if unknown:
        raise refusal(
            "are not options of a table read in parts", where=", ".join(f"'{name}'" for name in sorted(unknown))
        )
    door = Door(outcome, probability, weight, count, target=target, **options)
    runner = runner_of(data, memory, door, progress, crossed=effort != "quick")
    limits = Limits(min(sums_bytes(runner, memory), CACHED), passes=3)
    chosen: Any = {"by": by, "ignore": ignore, "most_levels": max_levels, "effort": effort, "limits": limits}
    timed: Any = {"time": time, "every": every}
    seen = restarted(runner, lambda: summarise(runner, door, random_state=random_state, **timed, **chosen))
    found = audit_of(seen, source=source or name, settings={"memory": str(memory or DEFAULT)}, **timed, **common)
    found.document["data"] |= read_as(probability, count, ignore, options)
    return found.suppressed(suppress_below) if suppress_below else found


def read_as(probability: Any, count: str | None, ignore: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """How the table was read, beside its columns: what a command that reads it again must say."""
    positive = options.get("positive")
    columns = [probability] if isinstance(probability, str) else probability
    columns = columns.values() if isinstance(columns, Mapping) else columns or ()
    return {
        "probability_columns": [str(name) for name in columns],
        "count_column": count,
        "positive": None if positive is None else str(positive),
        "logit": bool(options.get("logit", False)),
        "ignore": [str(name) for name in ignore],
    }


def _check_tally(summary: Summary, name: str, roles: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuse what a file of sums cannot follow any more, rather than leave it out of the audit unsaid."""
    for word, value in roles.items():
        kept = summary.about.get(word)
        if value is not None and kept is not None and _listed(value) != _listed(kept):
            raise refusal(f"is {_listed(kept)} in '{name}'", where=f"'{word}'", got=f"{_listed(value)} was asked for")
    for word, value in asked.items():
        if value:
            raise refusal(
                "is settled when a tally is made", where=f"'{word}'", got=f"'{name}' keeps sums, not rows",
                hint="leave it out here, and give it to `miscal tally`, or audit the table itself",
            )  # fmt: skip


def _listed(names: Any) -> str:
    return f"'{names if isinstance(names, str) else ', '.join(map(str, names))}'"


def runner_of(
    data: Any,
    memory: Any,
    door: Door,
    progress: Callable[[str, int, int], None] | None = None,
    *,
    crossed: bool = False,
) -> Any:
    """Who reads the table: a cluster for its own frames, this process for everything else."""
    stream = runner_for(data, memory, progress, crossed=crossed)
    check_named(door.columns, stream.kinds, f"'{data}'", stream.kinds)
    return stream
