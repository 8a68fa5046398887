"""Saved audits and tallies that were changed: refused, and quickly."""

from __future__ import annotations

import copy
import io
import json
import random
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import miscal
from miscal.aggregate.column_roles import ColumnRoles
from miscal.aggregate.summary import Summary
from miscal.auditing.summary_files import tally_of
from miscal.data.errors import MiscalError
from miscal.report.html.page import to_html
from miscal.report.markdown import to_markdown
from tests.commands import run


def table(rows: int = 600) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, rows)
    g, age = rng.choice(["a", "b", "c"], rows), rng.integers(18, 80, rows)
    return {"y": (rng.random(rows) < np.where(g == "a", p / 3, p)).astype(int), "p": p, "g": g, "age": age}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("saved")
    found = miscal.audit(table(), outcome="y", probability="p", effort="quick")
    found.save(folder / "a.miscal")
    found.to_json(folder / "a.json")
    tally_of(table(), ColumnRoles(outcome="y", probability="p")).save(folder / "t.tally")
    return {name: folder / name for name in ("a.miscal", "a.json", "t.tally")}


def load(path: Path) -> Any:
    return Summary.load(path) if path.suffix == ".tally" else miscal.Audit.load(path)


@pytest.mark.parametrize("name", ["a.miscal", "t.tally"])
def test_a_changed_byte_is_refused(saved: dict[str, Path], name: str, tmp_path: Path) -> None:
    content, chance = saved[name].read_bytes(), random.Random(0)
    whole = load(saved[name])
    harmless = 0
    for _ in range(100):
        changed = bytearray(content)
        place = chance.randrange(len(changed))
        changed[place] ^= 1 << chance.randrange(8)
        path = tmp_path / name
        path.write_bytes(changed)
        try:
            again = load(path)
        except MiscalError:
            continue
        harmless += 1  # a date or a flag of the archive: what was loaded is the same
        if name == "t.tally":
            assert again.fingerprint == whole.fingerprint
        else:
            assert again.document == whole.document
    assert harmless < 40


def rewritten(path: Path, change: Any) -> bytes:
    """The file with its header or arrays changed, as somebody would who knows numpy."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["a.miscal", "t.tally"])
def test_other_sums_names_and_arrays_are_refused(saved: dict[str, Path], name: str, tmp_path: Path) -> None:
    changes = [
        lambda header, _: header.update(extra=1),
        lambda header, _: header.pop("digest"),
        lambda _, arrays: arrays.update(unknown=np.zeros(3)),
    ]
    if name == "t.tally":
        changes.append(lambda _, arrays: arrays.update({"score/counts": arrays["score/counts"] + 1}))
    for change in changes:
        (tmp_path / name).write_bytes(rewritten(saved[name], change))
        with pytest.raises(MiscalError, match="damaged"):
            load(tmp_path / name)


@pytest.mark.parametrize("name", ["a.miscal", "t.tally"])
def test_what_unpacks_to_gigabytes_is_refused_before_it_does(saved: dict[str, Path], name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(saved[name].read_bytes())
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("bomb.npy", "w") as entry:
        for _ in range(300):
            entry.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    with pytest.raises(MiscalError, match="too much memory"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 50 << 20
    tracemalloc.stop()


def test_json_changed_by_hand_is_shown_or_refused(saved: dict[str, Path], tmp_path: Path) -> None:
    document, chance = json.loads(saved["a.json"].read_text()), random.Random(1)
    values, shown = [None, -1, "x", [], {}, [None], 1e308, True, [[1]], {"a": 1}], 0
    whole = miscal.Audit.load(saved["a.json"])
    for _ in range(100):
        changed = copy.deepcopy(document)
        parent: Any = changed
        while True:  # walk down to a random place, and put something else there
            keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
            key = chance.choice(keys)
            if not isinstance(parent[key], (dict, list)) or not parent[key] or chance.random() < 0.2:
                break
            parent = parent[key]
        parent[key] = chance.choice(values)
        (tmp_path / "a.json").write_text(json.dumps(changed))
        try:
            found = miscal.Audit.load(tmp_path / "a.json")
            to_html(found.document), to_markdown(found.document)
            to_html(found.suppressed(20).document)
            to_html(whole.with_comparison(found).document)
        except MiscalError:
            continue
        shown += 1
    assert 10 < shown < 100


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("sections", "field", 0, "table", "observed"), 0),  # no column
        (("sections", "field", 0, "table", "gap"), []),  # shorter than the others
        (("sections", "variable", 0, "settings"), {}),
        (("sections", "field", 0, "table", "predicted", 0), 1e308),  # in per cent it is infinite
    ],
)
def test_a_part_changed_by_hand_is_shown_or_refused(
    saved: dict[str, Path], tmp_path: Path, place: tuple[Any, ...], value: Any
) -> None:
    changed: Any = json.loads(saved["a.json"].read_text())
    parent = changed
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    file = tmp_path / "a.json"
    file.write_text(json.dumps(changed))
    for words in (
        ["report", file],
        ["report", file, "--suppress-below", "20"],
        ["report", file, "--baseline", saved["a.json"]],
    ):
        out = tmp_path / "p.html"
        done = run(*words, "--out", out)
        assert done.exit_code in (0, 2), done.output
        assert out.exists() == (done.exit_code == 0)
        out.unlink(missing_ok=True)
