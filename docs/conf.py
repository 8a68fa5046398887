"""How the documentation is built. The reference is written from the public names, so no name can be forgotten."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

import miscal

sys.path.insert(0, str(Path(__file__).parent))  # for the extension mathml beside this file

project = "miscal"
author = "The miscal developers"
copyright = "2026, The miscal developers"
release = miscal.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]
html_math_renderer = "mathml"
myst_enable_extensions = ["amsmath", "dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "how-to/shipping.md", "how-to/run.md"]
html_theme = "furo"
html_title = "miscal"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # an attribute that is also a property is described once
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries = False
suppress_warnings = [
    "ref.python"
]  # words in the types of parameters are looked up as names; an ambiguous word is no fault

# Where public names live, in the order in which a reader wants them.
MODULES = {
    "miscal": "Data, results and the audit",
    "miscal.metrics": "Metrics",
    "miscal.recalibrate": "Recalibrators",
    "miscal.plots": "Displays",
    "miscal.aggregate": "Carriers",
    "miscal.datasets": "Data sets",
}
# The classes of results, which no module above offers: a user meets them as what the `by_` functions return.
RESULTS = {
    "miscal.results": ("CellResult", "Estimate", "Histogram", "CumulativeCurve"),
    "miscal.metrics.cell_evaluation": ("WorstCell",),
    "miscal.metrics.score": ("ScoreResult", "CertainPredictions"),
    "miscal.metrics.variable": ("VariableResult",),
    "miscal.metrics.field": ("FieldResult", "CommonShift"),
    "miscal.metrics.variation": ("VariationResult",),
    "miscal.metrics.neighbourhood": ("NeighbourhoodResult", "LocalMap", "MapGrid"),
    "miscal.metrics.subpopulation": ("SubpopulationResult", "DescribedSubpopulation"),
    "miscal.metrics.specs": ("ClassResult",),
    "miscal.auditing.periods": ("PeriodResult",),
}
# Classes that are only returned: their constructors are not shown.
RETURNED = {("miscal", "Audit"), ("miscal", "Finding"), ("miscal", "Result")}
# Names that a how-to uses and no module above offers.
FURTHER = {
    "miscal.recalibrate.out_of_core": ("fit_to", "apply_to", "load_model"),
    "miscal.recalibrate.on_spark": ("recalibrated",),
}
HERE = Path(__file__).parent


def public_names(module: ModuleType, seen: set[int]) -> list[str]:
    """The names a module offers that no earlier module has offered, modules themselves left out."""
    names = []
    for name in getattr(module, "__all__", []):
        thing = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(thing) or id(thing) in seen:
            continue
        seen.add(id(thing))
        names.append(name)
    return names


def entry(module: str, name: str) -> str:
    """The directive that documents one name."""
    thing = getattr(importlib.import_module(module), name)
    if inspect.isclass(thing):
        return f".. autoclass:: {module}.{name}\n   :members:\n"
    return f".. autofunction:: {module}.{name}\n" if callable(thing) else f".. autodata:: {module}.{name}\n"


def reference_pages() -> dict[str, str]:
    """One page a module from its `__all__`, and the list of those pages."""
    seen: set[int] = set()
    pages = {}
    for module, title in MODULES.items():
        names = public_names(importlib.import_module(module), seen)
        if names:
            entries = "\n".join(entry(module, name) for name in names)
            pages[module] = f"# {title}\n\n`{module}`\n\n```{{eval-rst}}\n{entries}```\n"
    entries = "\n".join(entry(module, name) for module, names in RESULTS.items() for name in names)
    introduction = "What the `by_` functions return; `Result` has what all share, and is described with the data."
    pages["results"] = f"# Results\n\n{introduction}\n\n```{{eval-rst}}\n{entries}```\n"
    entries = "\n".join(entry(module, name) for module, names in FURTHER.items() for name in names)
    pages["beyond-memory"] = f"# Beyond memory\n\n```{{eval-rst}}\n{entries}```\n"
    pages["command-line"] = command_page()
    listing = "```{toctree}\n" + "".join(f"{page}\n" for page in pages) + "```\n" if pages else ""
    return pages | {"index": f"# Reference\n\nEvery public name, from the code's own text.\n\n{listing}"}


def command_page() -> str:
    """Every command with its help, as the command prints it."""
    import click

    from miscal.cli import main

    parts = ["# The command line\n\nAlso as `python -m miscal`.\n"]
    with click.Context(main, info_name="miscal") as outer:
        for name in main.list_commands(outer):
            command = main.get_command(outer, name)
            assert command is not None
            with click.Context(command, parent=outer, info_name=name) as context:
                parts.append(f"## miscal {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def write_reference(_app: object) -> None:
    """Write the pages that changed and remove those that are no more, so that two builds do not disturb each other."""
    folder = HERE / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    pages = reference_pages()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for old in folder.glob("*.md"):
        if old.stem not in pages:
            old.unlink(missing_ok=True)


def skip_generated(_app: object, _what: str, name: str, _thing: object, skip: bool, _options: object) -> bool:
    """Leave out the methods that scikit-learn writes for every estimator; their text points into its own pages."""
    return skip or (name.startswith("set_") and name.endswith("_request")) or name == "get_metadata_routing"


def hide_constructor(
    _app: object, what: str, name: str, _thing: object, _options: object, signature: str, returned: str
) -> tuple[str, str]:
    """Show results, audits and findings without the arguments of their constructors: no user calls these."""
    module, _, class_name = name.rpartition(".")
    hidden = what == "class" and ((module, class_name) in RETURNED or class_name in RESULTS.get(module, ()))
    return ("", "") if hidden else (signature, returned)


def setup(app: object) -> None:
    """Write the reference before Sphinx looks for pages."""
    app.connect("builder-inited", write_reference)  # type: ignore[attr-defined]
    app.connect("autodoc-skip-member", skip_generated)  # type: ignore[attr-defined]
    app.connect("autodoc-process-signature", hide_constructor)  # type: ignore[attr-defined]
