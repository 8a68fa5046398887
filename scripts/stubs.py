"""Write the stubs of the packages whose names load lazily, so that type checkers see what they are.

    python scripts/stubs.py [--write]         # without --write: fail if a stub is not what it would be

The tables in the packages stay the one place for a name; a stub repeats them as plain imports.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import miscal
from miscal import metrics, recalibrate
from miscal.metrics import METRICS

SOURCE = Path(miscal.__file__).parent
HEAD = "# Written by scripts/stubs.py from the tables in __init__.py; do not edit.\n\n"


def imports(homes: Iterable[tuple[str, str]]) -> str:
    """One line a name, sorted by module."""
    return "".join(f"from {home} import {name} as {name}\n" for home, name in sorted(homes))


def stubs() -> dict[Path, str]:
    """The text of each stub."""
    own = [(f"miscal.{home}", name) for name, home in miscal._HOME.items()]  # noqa: SLF001
    packages = [("miscal", name) for name in miscal.__all__ if name not in miscal._HOME]  # noqa: SLF001
    maps = [(f"miscal.recalibrate.{home}", name) for name, home in recalibrate._PUBLIC.items()]  # noqa: SLF001
    numbers = [(f"miscal.metrics.{METRICS[name].home}", name) for name in metrics.__all__]
    return {
        SOURCE / "__init__.pyi": HEAD + imports(own + packages) + "\n__version__: str\n",
        SOURCE / "recalibrate" / "__init__.pyi": HEAD + imports(maps) + "\ndef kinds() -> tuple[str, ...]: ...\n",
        SOURCE / "metrics" / "__init__.pyi": HEAD + imports(numbers),
    }


def stale() -> list[Path]:
    """Stubs that are not what the tables say."""
    return [path for path, text in stubs().items() if not path.exists() or path.read_text(encoding="utf-8") != text]


if __name__ == "__main__":
    if "--write" in sys.argv:
        for path, text in stubs().items():
            path.write_text(text, encoding="utf-8")
    if stale():
        sys.exit(f"run scripts/stubs.py --write: {', '.join(map(str, stale()))}")
