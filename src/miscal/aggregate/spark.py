"""Spark DataFrames: the same passes, one state a partition, by `mapInArrow`; nothing is collected but states.

Each task adds the Arrow batches of its partition with the kernels that a stream uses and sends one packed state back.
A task that is lost with its executor is run again by Spark and sends the same bytes.
"""

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from miscal.aggregate.column_roles import Chunk
from miscal.aggregate.source import Packed, Source, Start
from miscal.data.errors import MiscalError, check_named, refusal
from miscal.data.libraries import pa

ROWS = 1 << 18  # rows that a task adds at a time: Spark's own batches are small
STATES = 8  # states that the driver adds by itself; more are first added by tasks
PARTITION = 40  # bits of the number of a row within its partition
SCHEMA = "state binary, problem string"


def packed(arrays: Packed) -> bytes:
    """Arrays as bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpacked(content: bytes) -> Packed:
    """Arrays from bytes; never code."""
    return dict(np.load(io.BytesIO(content), allow_pickle=False))


def _row(state: bytes | None, problem: str | None = None) -> Any:
    return pa.record_batch(
        [pa.array([state], pa.binary()), pa.array([problem], pa.string())], ["state", "problem"]
    )


def _chunks(batches: Iterator[Any]) -> Iterator[Chunk]:
    """Batches of a partition, joined to a size that is worth a call."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    waiting: list[Any] = []
    first = rows = 0

    def joined() -> Chunk:
        place = f"the Spark frame, partition {number}"
        return Chunk(pa.Table.from_batches(waiting), place, first, (number << PARTITION) + first)

    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROWS:
            yield joined()
            first, rows, waiting = first + rows, 0, []
    if rows:
        yield joined()


def _states(rows: Iterable[Mapping[str, Any]]) -> Iterator[Packed]:
    """States that tasks sent; the problem of one is raised."""
    for row in rows:
        if row["problem"] is not None:
            raise MiscalError(row["problem"])
        yield unpacked(row["state"])


# What Spark's workers say if they run another Python than the driver, or one without this library.
OTHER_PYTHON = ("PYTHON_VERSION_MISMATCH", "different version in worker", "No module named 'miscal'")


def _collected(states: Any) -> Any:
    """The rows that tasks sent; a worker with the wrong Python is refused in words."""
    try:
        return states.collect()
    except Exception as error:
        if not any(words in str(error) for words in OTHER_PYTHON):
            raise
        got = f"the driver runs {sys.executable} (Python {sys.version_info.major}.{sys.version_info.minor})"
        hint = (
            "set PYSPARK_PYTHON, before the session starts, to an interpreter that has miscal on every worker"
        )
        raise refusal(
            "must run the driver's Python, with miscal", "Spark's workers", got=got, hint=hint
        ) from error


def _task(start: Start, *, joins: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The task of a pass: one state for a partition, of its rows or (`joins`) of the states that it holds."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        state = None
        sent = (row for batch in batches for row in batch.to_pylist())
        items: Iterator[Any] = _states(sent) if joins else _chunks(batches)
        try:
            for item in items:
                state = start() if state is None else state
                (state.merge if joins else state.add)(item)
        except MiscalError as error:
            yield _row(None, str(error))
            return
        if state is not None:
            yield _row(packed(state.arrays()))

    return run


class SparkSource(Source):
    """A Spark DataFrame as a source: partitions are added where they are, states come back."""

    words, held = "the Spark frame", True

    def __init__(self, frame: Any) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self.frame = frame
        self.types = {field.name: field.type for field in to_arrow_schema(frame.schema)}

    @cached_property
    def rows(self) -> int:
        """How many rows there are; Spark counts them."""
        return int(self.frame.count())

    @cached_property
    def parts(self) -> int:
        """How many partitions there are."""
        try:
            return int(self.frame.rdd.getNumPartitions())
        except Exception:  # noqa: BLE001  # a remote session has no RDD: suppose many
            return STATES + 1

    def whole(self, columns: Sequence[str]) -> Any:
        """All rows of some columns."""
        return self._chosen(columns).toArrow()

    def _chosen(self, columns: Sequence[str]) -> Any:
        return self.frame.select(*[f"`{name.replace('`', '``')}`" for name in columns])

    def run(self, start: Start) -> Any:
        """Add every partition; the state of all of them."""
        self.passes += 1
        total = start()
        states = self._chosen(total.columns).mapInArrow(_task(start, joins=False), SCHEMA)
        if self.parts > STATES:
            states = states.repartition(max(2, round(self.parts**0.5))).mapInArrow(
                _task(start, joins=True), SCHEMA
            )
        for state in _states(_collected(states)):
            total.merge(state)
        return total


def recalibrated(
    frame: Any,
    model: Any,
    probability: str | Sequence[str],
    *,
    column: str = "recalibrated",
    logit: bool = False,
) -> Any:
    """A Spark DataFrame with one more column: the recalibrated probability of the event, or one for each class.

    Parameters
    ----------
    frame : Spark DataFrame
    model : fitted recalibrator
    probability : column of the probability, or columns of the classes
    column : name of the new column, followed by the class where there are several
    logit : whether the column holds log-odds
    """
    from pyspark.sql.types import DoubleType, StructField, StructType

    names = [probability] if isinstance(probability, str) else list(probability)
    check_named(names, frame.columns, "the Spark frame")
    text = model.to_json()
    made = model.output_names(column)
    schema = StructType(
        [*frame.schema.fields, *(StructField(name, DoubleType(), nullable=False) for name in made)]
    )

    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        from importlib import import_module

        streamed = import_module("miscal.recalibrate.out_of_core")  # above this layer: known by name alone
        fitted = streamed.model_from(text)
        for chunk in _chunks(batches):
            yield from streamed.with_columns(fitted, chunk, names, made, logit=logit).to_batches()

    return frame.mapInArrow(apply, schema)
