"""The study of a table that does not fit reads passes and stages off the engine: it must keep up with it."""

from __future__ import annotations

import os

import pytest

from studies import stream_large as study

ROWS, MEMORY = 1 << 20, "1GB"


@pytest.mark.slow
def test_the_study_sees_both_passes_and_their_stages(tmp_path, monkeypatch) -> None:
    # Clocks are not what is asked here: nothing need be compiled apart.
    monkeypatch.setattr(study, "environment", lambda _: dict(os.environ))
    path = tmp_path / "table.parquet"
    study.generate(path, ROWS)
    audit = study.measured(study.AUDIT.format(path=str(path), memory=MEMORY), 2, tmp_path)
    assert [set(columns) >= {"y", "p", "age", "advertiser"} for columns in audit["passes"]] == [True, True]
    assert any("age" in where for where in audit["findings"])
    decoded = study.decoded(path, audit["passes"], 1, tmp_path)
    assert [each["rows"] for each in decoded["passes"]] == [ROWS, ROWS]
    stages = study.staged(path, MEMORY, tmp_path)
    assert {entry["pass"] for entry in stages["stages"]} == {0, 1, 2}
    assert stages["passes"] == audit["passes"]
