"""The architecture is kept by machine: imports go downward, and inference stays in its folder."""

from __future__ import annotations

import ast
import re
import shutil
from fnmatch import fnmatch
from pathlib import Path

import pytest

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


# Functions of scipy.special and methods of scipy.stats that give a probability or a quantile of a distribution.
DISTRIBUTIONS = re.compile(
    r"ndtri?|log_ndtr|erfc?(inv)?|stdtr(it|idf)?|(ch|f|b|p|nb)dtr[ci]?|btdtr|(beta|gamma)incc?(inv)?|kolmogorov|smirnov"
    r"|(log)?cdf|(log)?sf|ppf|isf"
)
QUANTILES = frozenset(("quantile", "nanquantile", "percentile", "nanpercentile"))
TAILS = frozenset((0.025, 0.975, 0.05, 0.95, 0.005, 0.995, 2.5, 97.5))
CRITICAL = frozenset((1.64, 1.645, 1.6448536269514722, 1.96, 1.959963984540054, 2.33, 2.576, 2.58, 3.29))


def inferred(source: str) -> list[str]:
    """The expressions in which a p-value, an interval or a noise floor is computed."""
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if _is_inference(node)]


def _is_inference(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        arguments = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
        return bool(DISTRIBUTIONS.fullmatch(name)) or (name in QUANTILES and any(map(_has_tail, arguments)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):  # (1 + draws as large) / (1 + draws)
        return _adds_one(node.left) and _adds_one(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):  # a half-width
        return any(isinstance(side, ast.Name) and side.id == "NORMAL_95" for side in (node.left, node.right))
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value in CRITICAL


def _has_tail(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Constant) and inner.value in TAILS for inner in ast.walk(node))


def _adds_one(node: ast.AST) -> bool:
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
        return False
    return any(isinstance(side, ast.Constant) and side.value == 1 for side in (node.left, node.right))


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("p = 2.0 * special.ndtr(-z)", 1),
        ("p = scipy.stats.norm(0, 1).sf(z)", 1),
        ("from scipy.special import stdtrit\nreach = stdtrit(freedom, level)", 1),
        ("low, high = np.quantile(drawn, [0.025, 0.975], axis=0)", 1),
        ("p = (1.0 + np.count_nonzero(drawn >= value)) / (1.0 + len(drawn))", 1),
        ("p = (fails + 1) / (DRAWS + 1)", 1),
        ("band = 1.96 * error", 1),
        ("band = NORMAL_95 * error", 1),
        ("edges = np.quantile(values, np.linspace(0.0, 1.0, bins + 1))", 0),
        ("share = 1.0 / (1.0 + np.exp(-x))", 0),
        ("'a p-value of 1.96 by ndtr(z)'  # erfc(z)", 0),
    ],
)
def test_computed_p_values_and_intervals_are_seen(source: str, number: int) -> None:
    assert len(inferred(source)) == number


# Points of a curve that are compared, where they lie between the ends of a variable.
NOT_INFERENCE = "np.quantile(values, np.linspace(0.025, 0.975, "


def test_p_values_and_intervals_are_made_in_one_folder() -> None:
    computed = {}
    for path in LIBRARY.rglob("*.py"):
        name = path.relative_to(LIBRARY)
        if name.parts[0] in ("stats", "kernels"):
            continue
        candidates = inferred(path.read_text(encoding="utf-8"))
        expressions = {expression for expression in candidates if not expression.startswith(NOT_INFERENCE)}
        if expressions:
            computed[name.as_posix()] = expressions
    assert computed == {}


def test_an_upward_import_is_seen(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.parquet"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src/miscal/kernels/wrong.py").write_text("from miscal.data import errors\n")
    done = lint_imports(tmp_path)
    assert done.returncode != 0
    assert "miscal.kernels.wrong -> miscal.data.errors" in done.stdout.replace("\n", " ")
