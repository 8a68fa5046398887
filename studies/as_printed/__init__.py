"""What to call to get the digits that each paper prints.

    MISCAL_DATA=folder python -m studies.as_printed [paper_000 ...] [--write]

Each module `paper_*.py` here lists published numbers as `PrintedValue`s: where the number stands in the paper, the
call that gives it, and the number as printed. The calls are Python expressions over the names that the module's
`namespace()` returns, so that the documentation shows exactly what is run. `--write` renews the table on the paper's
page between its two marks; a test runs every call and compares the page.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from studies.needs import need

HERE = Path(__file__).parent
PAGES = HERE.parents[1] / "docs" / "papers"
MARK = "as printed: studies/as_printed/{name}.py"


@dataclass(frozen=True)
class PrintedValue:
    """One number of a paper and the call that gives it.

    Attributes
    ----------
    source : str
        Where the number stands, such as "Table 2, Adult, uncalibrated, VECE".
    call : str
        Python expression over the names of the module's `namespace()`.
    printed : str
        The number as the paper prints it, digit for digit.
    scale : float
        The call's value is multiplied by this before it is rounded: 100 where the paper prints percentages.
    ours : str
        The number that the call gives where it is not the printed one; the `note` then says why.
    note : str
        The choice behind the call, or the reason why the printed number cannot be met.
    """

    source: str
    call: str
    printed: str
    scale: float = 1.0
    ours: str = ""
    note: str = ""

    @property
    def expected(self) -> str:
        """The rounded number that the call must give."""
        return self.ours or self.printed

    def rounded(self, value: float) -> str:
        """A computed value with as many digits as are printed."""
        decimals = len(self.expected.partition(".")[2])
        text = f"{value * self.scale:.{decimals}f}"
        return text.replace("0.", ".", 1) if self.expected.startswith((".", "-.")) else text


def papers() -> list[str]:
    """Modules of this folder that list printed numbers."""
    return sorted(path.stem for path in HERE.glob("paper_*.py"))


def module_of(name: str) -> ModuleType:
    """The module of one paper: `PAGE`, `VALUES` and `namespace(folder)`."""
    return import_module(f"studies.as_printed.{name}")


@cache
def namespace_of(name: str, folder: Path) -> Mapping[str, Any]:
    """The names that the calls of one paper use; data are read once."""
    return module_of(name).namespace(folder)


def computed(name: str, value: PrintedValue, folder: Path) -> str:
    """What the call of one printed number gives, rounded as it is printed."""
    return value.rounded(float(eval(value.call, dict(namespace_of(name, folder)))))


def table(name: str) -> str:
    """The Markdown table of a paper: source, call with its note below, printed and computed number."""
    lines = ["| in the paper | call | printed | computed |", "|---|---|---:|---:|"]
    for value in module_of(name).VALUES:
        call = value.call.replace("|", "\\|")
        note = f"<br>{value.note}" if value.note else ""
        lines.append(f"| {value.source} | `{call}`{note} | {value.printed} | {value.expected} |")
    return "\n".join(lines)


def marked(name: str, text: str) -> re.Match[str]:
    """The part of a page between the two marks of a paper."""
    mark = re.escape(MARK.format(name=name))
    found = re.search(rf"(<!-- {mark} -->\n)(.*?)(\n<!-- end -->)", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"{module_of(name).PAGE} has no marks <!-- {MARK.format(name=name)} --> ... <!-- end -->")
    return found


def write(name: str) -> None:
    """Renew the table on the paper's page."""
    page = PAGES / module_of(name).PAGE
    text = page.read_text(encoding="utf-8")
    part = marked(name, text)
    page.write_text(text[: part.end(1)] + table(name) + text[part.start(3) :], encoding="utf-8")


def main() -> int:
    """Run every call and print what the paper has beside what it gives; the exit status is 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="papers, such as paper_000; all of them if none is given")
    parser.add_argument("--write", action="store_true", help="renew the tables on the papers' pages")
    parser.add_argument("--quick", action="store_true", help="run the first three calls of each paper")
    options = parser.parse_args()
    need("MISCAL_DATA")
    folder = Path(os.environ["MISCAL_DATA"])
    differences = 0
    for name in options.names or papers():
        for value in module_of(name).VALUES[: 3 if options.quick else None]:
            result = computed(name, value, folder.resolve())
            differences += result != value.expected
            print(f"{name}  {value.source}: printed {value.printed}, computed {result}", flush=True)
        if options.write:
            write(name)
    return 1 if differences else 0
