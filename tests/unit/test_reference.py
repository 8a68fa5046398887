"""Every name of miscal that a how-to uses is in the reference."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [*sorted((DOCS / "how-to").glob("*.md")), DOCS / "concepts.md", DOCS / "security.md", DOCS.parent / "README.md"]


def reference() -> str:
    spec = importlib.util.spec_from_file_location("docs_conf", DOCS / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    return "\n".join(conf.reference_pages().values())


def used_in(text: str) -> set[str]:
    """Names that the Python of a page takes from miscal: imported, or as `miscal.name`.

    >>> sorted(used_in("```python\\nfrom miscal.metrics import a\\nimport miscal\\nmiscal.plots.b(1)\\n```"))
    ['miscal.metrics.a', 'miscal.plots.b']
    """
    found: set[str] = set()
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "miscal":
                found |= {f"{node.module}.{one.name}" for one in node.names}
            elif isinstance(node, ast.Attribute):
                found.add(ast.unparse(node))
    whole = {name for name in found if re.fullmatch(r"miscal(\.\w+)+", name)}
    return {name for name in whole if not any(other.startswith(f"{name}.") for other in whole)}


def thing_of(name: str) -> object:
    """What a dotted name stands for; a method is its class."""
    parts = name.split(".")
    for depth in range(len(parts) - 1, 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:depth]))
        except ImportError:
            continue
        for part in parts[depth:]:
            inner = getattr(thing, part)
            if inspect.isclass(thing):
                return thing
            thing = inner
        return thing
    raise AssertionError(name)


@pytest.fixture(scope="module")
def described() -> list[object]:
    names = re.findall(r"auto(?:class|function|data):: ([\w.]+)", reference())
    return [thing_of(name) for name in names]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_what_a_page_uses_is_described(page, described):
    for name in sorted(used_in(page.read_text(encoding="utf-8"))):
        thing = thing_of(name)
        assert inspect.ismodule(thing) or any(thing is one for one in described), name


def test_pages_use_names_at_all():
    every = {name for page in PAGES for name in used_in(page.read_text(encoding="utf-8"))}
    assert "miscal.recalibrate.on_spark.recalibrated" in every
    assert len(every) > 10
