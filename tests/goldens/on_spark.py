"""Audits of Spark frames: the JSON of each, of a frame held in memory and of one that is not."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import miscal
from tests.goldens import data
from tests.goldens.audits import CLAIMS, EVENTS, document_of
from tests.goldens.normalise import Plain


def audited(session: Any, table: pa.Table, **options: Any) -> Plain:
    """The JSON of the audit of a frame of one partition, whose rows come in their order."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(table, path)
        frame = session.read.parquet(str(path)).coalesce(1)
        return document_of(miscal.audit(frame, **options), table.column_names)


def events(session: Any) -> Plain:
    """Events with weights, of a frame that fits."""
    table = data.binary(1500).select(["y", "p", "weight", "state", "age"])
    return audited(session, table, **EVENTS, weight="weight")


def counts(session: Any) -> Plain:
    """Counts with exposure, of a frame that fits."""
    table = data.counts(1500).select(["claims", "rate", "years", "state", "age"])
    return audited(session, table, **CLAIMS, effort="quick")


CASES: dict[str, Callable[[Any], Plain]] = {"spark_events": events, "spark_counts": counts}
