"""Print what CHANGELOG.md says of a version, or fail: `python scripts/release_notes.py 0.2.0`.

Fails if the version is not the one in src/miscal/__init__.py, has no heading, or is still called not released.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def notes(version: str, changes: str) -> str:
    """The section of a version."""
    found = re.search(rf"^## {re.escape(version)}(?P<rest>.*)\n(?P<text>(?:(?!## ).*\n?)*)", changes, re.MULTILINE)
    if not found:
        sys.exit(f"CHANGELOG.md has no heading '## {version}'")
    if "not released" in found["rest"]:
        sys.exit(f"CHANGELOG.md calls {version} not released: give it its date")
    return found["text"].strip()


if __name__ == "__main__":
    asked = sys.argv[1]
    own = subprocess.check_output([sys.executable, ROOT / "scripts" / "version.py"], text=True).strip()
    if asked != own:
        sys.exit(f"the tag says {asked}, src/miscal/__init__.py says {own}")
    print(notes(asked, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
