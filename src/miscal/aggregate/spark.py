"""Spark DataFrames as a source: the same passes, with one state per partition.

Each task of `mapInArrow` adds the Arrow batches of its partition with the kernels that a stream uses, and returns one
packed state. Only states are collected. A task that is lost with its executor is run again by Spark and returns the
same bytes.
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

ROWS_PER_CHUNK = 1 << 18  # Spark's own batches are small
MAX_STATES_ON_DRIVER = 8  # more are first merged by tasks
ROW_BITS = 40  # of the number of a row within its partition; the higher bits are the partition
STATE_SCHEMA = "state binary, error string"


def pack_arrays(arrays: Packed) -> bytes:
    """Arrays as bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack_arrays(content: bytes) -> Packed:
    """Arrays from bytes. Nothing is unpickled, so the bytes cannot run code."""
    return dict(np.load(io.BytesIO(content), allow_pickle=False))


def _state_row(state: bytes | None, error: str | None = None) -> Any:
    return pa.record_batch(
        [pa.array([state], pa.binary()), pa.array([error], pa.string())], ["state", "error"]
    )


def partition_chunks(batches: Iterator[Any]) -> Iterator[Chunk]:
    """The batches of a partition, joined to chunks that are worth a call; within a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    pending: list[Any] = []
    first = rows = 0

    def chunk() -> Chunk:
        location = f"the Spark frame, partition {partition}"
        return Chunk(pa.Table.from_batches(pending), location, first, (partition << ROW_BITS) + first)

    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= ROWS_PER_CHUNK:
            yield chunk()
            first, rows, pending = first + rows, 0, []
    if rows:
        yield chunk()


def _states(rows: Iterable[Mapping[str, Any]]) -> Iterator[Packed]:
    """The states that tasks returned; the error of a task is raised."""
    for row in rows:
        if row["error"] is not None:
            raise MiscalError(row["error"])
        yield unpack_arrays(row["state"])


# Parts of Spark's own messages if workers run another Python than the driver, or one without this library.
WRONG_PYTHON_MESSAGES = (
    "PYTHON_VERSION_MISMATCH",
    "different version in worker",
    "No module named 'miscal'",
)


def _collect(states: Any) -> Any:
    """The rows that tasks returned; a worker with the wrong Python is reported as such."""
    try:
        return states.collect()
    except Exception as error:
        if not any(message in str(error) for message in WRONG_PYTHON_MESSAGES):
            raise
        got = f"the driver runs {sys.executable} (Python {sys.version_info.major}.{sys.version_info.minor})"
        hint = (
            "set PYSPARK_PYTHON, before the session starts, to an interpreter that has miscal on every worker"
        )
        raise refusal(
            "must run the driver's Python, with miscal", "Spark's workers", got=got, hint=hint
        ) from error


def _task(start: Start, *, merges_states: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The task of a pass: one state of a partition's rows or, with `merges_states`, of the states that it holds."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        state = None
        state_rows = (row for batch in batches for row in batch.to_pylist())
        items: Iterator[Any] = _states(state_rows) if merges_states else partition_chunks(batches)
        try:
            for item in items:
                state = start() if state is None else state
                (state.merge if merges_states else state.add)(item)
        except MiscalError as error:
            yield _state_row(None, error.template)
            return
        if state is not None:
            yield _state_row(pack_arrays(state.arrays()))

    return run


class SparkSource(Source):
    """A Spark DataFrame as a source: partitions are added on the executors, only states are collected."""

    description, has_unmeasured_texts = "the Spark frame", False

    def __init__(self, frame: Any) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self.frame = frame
        self.types = {field.name: field.type for field in to_arrow_schema(frame.schema)}

    @cached_property
    def rows(self) -> int:
        """Number of rows; Spark counts them."""
        return int(self.frame.count())

    @cached_property
    def parts(self) -> int:
        """Number of partitions."""
        try:
            return int(self.frame.rdd.getNumPartitions())
        except Exception:  # noqa: BLE001  # a remote session has no RDD: assume many
            return MAX_STATES_ON_DRIVER + 1

    def load_stored(self, columns: Sequence[str]) -> Any:
        """All rows of some columns."""
        return self._select(columns).toArrow()

    def _select(self, columns: Sequence[str]) -> Any:
        return self.frame.select(*[f"`{name.replace('`', '``')}`" for name in columns])

    def run(self, start: Start) -> Any:
        """Run a pass, as `Source.run`; the start call is pickled."""
        self.passes += 1
        total = start()
        states = self._select(total.columns).mapInArrow(_task(start, merges_states=False), STATE_SCHEMA)
        if self.parts > MAX_STATES_ON_DRIVER:
            states = states.repartition(max(2, round(self.parts**0.5))).mapInArrow(
                _task(start, merges_states=True), STATE_SCHEMA
            )
        for state in _states(_collect(states)):
            total.merge(state)
        return total


def append_columns(
    frame: Any, names: Sequence[str], compute: Callable[[Chunk], Any], *, columns: Sequence[str]
) -> Any:
    """A Spark DataFrame with more columns of float64, computed chunk by chunk on the executors.

    Parameters
    ----------
    frame : Spark DataFrame
    names : sequence of str
        The new columns.
    compute : callable
        Returns the table of a chunk with the new columns at its end. It is pickled and sent to the executors.
    columns : sequence of str
        Columns that must be in the frame.
    """
    from pyspark.sql.types import DoubleType, StructField, StructType

    check_named(columns, frame.columns, SparkSource.description)
    new_fields = [StructField(name, DoubleType(), nullable=False) for name in names]

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for chunk in partition_chunks(batches):
            yield from compute(chunk).to_batches()

    return frame.mapInArrow(run, StructType([*frame.schema.fields, *new_fields]))
