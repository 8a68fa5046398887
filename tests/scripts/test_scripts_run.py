"""Every study, benchmark and figure script still runs: with `--quick`, from a list that is made of the folders."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import smoke
from studies import needs
from studies import run as studies_run

SCRIPTS = smoke.scripts()


def state() -> dict[str, tuple[int, int]]:
    """Size and time of every file that a script could overwrite."""
    files = (path for folder in ("studies", "benchmarks", "docs") for path in (smoke.ROOT / folder).rglob("*"))
    kept = (path for path in files if path.is_file() and not {"__pycache__", "_build"} & set(path.parts))
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in kept}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """How each script ended, all of them run once; nothing in the repository is changed by it."""
    answer = tmp_path_factory.mktemp("smoke") / "outcomes.json"
    before = state()
    command = [sys.executable, "-m", "scripts.smoke", "--json", str(answer)]
    done = subprocess.run(command, cwd=smoke.ROOT, capture_output=True, text=True, check=False)
    assert answer.exists(), done.stderr
    assert state() == before
    return {outcome["script"]: outcome for outcome in json.loads(answer.read_text(encoding="utf-8"))}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_the_script_runs(script: str, outcomes: dict[str, dict]) -> None:
    outcome = outcomes[script]
    assert outcome["word"] in {"ran", "not run here"}, f"{outcome['about']}\n{outcome['output'][-4000:]}"
    if outcome["word"] == "not run here":
        pytest.skip(outcome["about"])


@pytest.mark.slow
def test_all_scripts_together_take_three_minutes_of_two_cores(outcomes: dict[str, dict]) -> None:
    assert sum(outcome["cpu"] for outcome in outcomes.values()) < smoke.BUDGET_SECONDS


# ------------------------------------------------------------------------------------------------ the list
def test_a_file_of_the_folders_is_a_script_or_is_imported() -> None:
    """A script that lost its `__main__` block would leave the list unseen."""
    folders = [smoke.ROOT / name for name in smoke.FOLDERS]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    sources = files + [path for name in ("tests", "scripts") for path in (smoke.ROOT / name).rglob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    for path in files:
        if path.relative_to(smoke.ROOT).as_posix() in SCRIPTS or path.name == "__init__.py":
            continue
        name = path.stem
        if name.startswith("paper_") and path.parent.name == "as_printed":  # a table, found by its name
            continue
        imported = re.compile(rf"^\s*(?:from|import) .*\b{name}\b", re.MULTILINE)
        assert any(imported.search(text) for other, text in texts.items() if other != path), path


def test_the_list_of_studies_agrees_with_the_folder() -> None:
    stems = {Path(script).stem for script in SCRIPTS if re.fullmatch(r"studies/\w+\.py", script)}
    assert set(studies_run.names()) == {stem for stem in stems if not stem.startswith(studies_run.OTHERS)}
    assert studies_run.names()


def test_the_list_of_benchmarks_agrees_with_the_folder() -> None:
    known = importlib.util.spec_from_file_location("benchmarks_run", smoke.ROOT / "benchmarks" / "run.py")
    code = "import json, run; print(json.dumps(run.names()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(known.origin).parent, capture_output=True, text=True, check=True
    )
    listed = json.loads(done.stdout)
    assert listed
    assert {f"benchmarks/{name}.py" for name in listed} <= set(SCRIPTS)


def test_a_new_script_is_in_the_list(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "new.py").write_text("import sys\n" + smoke.BLOCK + "\n    print(sys.argv)\n")
    (tmp_path / "benchmarks" / "library.py").write_text("VALUE = 1\n")
    assert smoke.scripts(tmp_path) == ["benchmarks/new.py"]


# ------------------------------------------------------------------------------- what counts as not run here
ABSENT = "MISCAL_PEERS"
FAKES = {
    "runs": "import sys; assert '--quick' in sys.argv; print('fine')",
    "crashes": "raise ValueError('broken')",
    "stops": "raise SystemExit('no such table')",
    "needs_what_is_absent": f"from studies.needs import need; need({ABSENT!r}, 'MISCAL_DATA'); raise ValueError",
    "needs_what_is_here": "from studies.needs import need; need('MISCAL_DATA'); raise ValueError('broken')",
    "claims_what_is_here": "import sys; print('not run here: needs MISCAL_DATA'); sys.exit(77)",
    "claims_what_nobody_lists": "import sys; print('not run here: needs a holiday'); sys.exit(77)",
    "claims_nothing": "import sys; sys.exit(77)",
    "crashes_after_the_line": f"print('not run here: needs {ABSENT}'); raise ValueError('broken')",
    "leaves_a_part_out": f"from studies.needs import lacks; assert lacks({ABSENT!r}); print('fine')",
    "writes": "open('benchmarks/results.json', 'w')",
    "makes_a_folder": "import os; os.mkdir('benchmarks/results')",
}  # fmt: skip
ENDS = {
    "runs": ("ran", ""),
    "crashes": ("failed", "ValueError: broken"),
    "stops": ("failed", "no such table"),
    "needs_what_is_absent": ("not run here", f"needs {ABSENT}"),
    "needs_what_is_here": ("failed", "ValueError: broken"),
    "claims_what_is_here": ("failed", "the script says that it needs MISCAL_DATA, which is here"),
    "claims_what_nobody_lists": ("failed", "'a holiday' is no need that studies/needs.py lists"),
    "claims_nothing": ("failed", "exit status 77 without a line that names a need; last line: no output"),
    "crashes_after_the_line": ("failed", "ValueError: broken"),
    "leaves_a_part_out": ("ran", f"without {ABSENT}"),
    "writes": ("failed", "PermissionError: a quick run must not write into the repository: benchmarks/results.json"),
    "makes_a_folder": ("failed", "PermissionError: a quick run must not write into the repository: benchmarks/results"),
}


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """How scripts of a repository of the test's own end, where MISCAL_DATA is there and the peers are not."""
    root = tmp_path_factory.mktemp("repository")
    (root / "benchmarks").mkdir()
    for name, code in FAKES.items():
        (root / "benchmarks" / f"{name}.py").write_text(code + "\n" + smoke.BLOCK + "\n    pass\n", encoding="utf-8")
    code = (
        "import json, sys; from pathlib import Path; from scripts import smoke; "
        f"smoke.ROOT = Path({str(root)!r}); smoke.PRELOADED = (); "
        "print(json.dumps([[o.script, o.word, o.about] for o in smoke.run(smoke.scripts(smoke.ROOT))]))"
    )
    known = {name: value for name, value in os.environ.items() if name != ABSENT}
    known |= {"MISCAL_DATA": str(root), "PYTHONPATH": str(smoke.ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=smoke.ROOT, env=known, capture_output=True, text=True, check=True
    )
    return {Path(script).stem: (word, about) for script, word, about in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("name", FAKES)
def test_only_a_listed_need_that_is_absent_excuses_a_script(name: str, fakes: dict[str, tuple[str, str]]) -> None:
    assert fakes[name] == ENDS[name]


def test_a_need_must_be_listed() -> None:
    with pytest.raises(KeyError, match="holiday"):
        needs.need("a holiday")


def test_every_peer_is_a_need() -> None:
    lines = needs.PEERS_FILE.read_text(encoding="utf-8").splitlines()
    names = [line.partition("==")[0] for line in lines if line and not line.startswith("#")]
    assert names
    assert [f"package {name}" in needs.LISTED for name in names] == [True] * len(names)
