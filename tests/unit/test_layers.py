"""The architecture is kept by machine: imports go downward, and inference stays in its folder."""

from __future__ import annotations

import re
import shutil
from fnmatch import fnmatch
from pathlib import Path

from scripts.house import LIBRARY
from scripts.lint_imports import lint_imports
from scripts.mutants import FAULTS

ROOT = Path(__file__).resolve().parents[2]


def test_imports_go_downward():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_architecture_names_is_there():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    files = {str(path.relative_to(ROOT)) for path in ROOT.glob("[std]*/**/*.*")}
    named = set(re.findall(r"`([\w/*]+\.(?:py|md|json|build))\b", text))
    lost = [name for name in named if not any(fnmatch(path, f"*/{name}") or path == name for path in files)]
    assert len(named) > 20
    assert lost == []
    folders = set(re.findall(r"`([\w/]+)/`", text))
    assert [name for name in folders if not any(f"/{name}/" in f"/{path}" for path in [*files, "tests/papers/x"])] == []
    classes = set(re.findall(r"`([A-Z]\w+[a-z]\w*)`", text))
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert [name for name in classes if not re.search(rf"^class {name}\b", source, re.MULTILINE)] == []


def test_planted_faults_follow_the_words_of_the_code():
    texts = [((LIBRARY / file).read_text(encoding="utf-8"), said, made) for file, said, made, _ in FAULTS]
    assert len(texts) >= 20
    assert [said for text, said, _ in texts if said not in text] == []
    assert [made for text, said, made in texts if text.replace(said, made) == text] == []
    assert [
        tests for *_, tests in FAULTS if not all((ROOT / test.partition("::")[0]).exists() for test in tests.split())
    ] == []


MADE = re.compile(
    r"\b(ndtri?|erfc|stdtr(it)?|chdtrc?|bdtrc?|pdtrc?|betainc|log_ndtr|0\.975|1\.96|1\.959\d*)\b|/ \(1(\.0)? \+ len\b"
)


def inferred(source: str) -> list[str]:
    """The lines in which a p-value or an interval is computed, without text and comments."""
    bare = re.sub(r'"""[\s\S]*?"""', "", source)
    return [line for line in bare.splitlines() if MADE.search(line.split("#")[0])]


def test_p_values_and_intervals_are_made_in_one_folder():
    found = {
        path.relative_to(LIBRARY).as_posix(): lines
        for path in LIBRARY.rglob("*.py")
        if not {"stats", "kernels"}.intersection(path.relative_to(LIBRARY).parts)
        and (lines := inferred(path.read_text(encoding="utf-8")))
    }
    # The points of a curve that are compared, where they lie between the ends of a variable.
    assert {name: len(lines) for name, lines in found.items()} == {"auditing/search/collect.py": 1}
    assert inferred("band = 1.96 * error\nreach = -special.ndtri(0.5)\nvalue = 3.0")[1:] == [
        "reach = -special.ndtri(0.5)"
    ]


def test_an_upward_import_is_seen(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.parquet"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src/miscal/kernels/wrong.py").write_text("from miscal.data import errors\n")
    done = lint_imports(tmp_path)
    assert done.returncode != 0
    assert "miscal.kernels.wrong -> miscal.data.errors" in done.stdout.replace("\n", " ")
