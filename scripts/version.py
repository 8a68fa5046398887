#!/usr/bin/env python3
"""Print the version, which stands in src/miscal/__init__.py and nowhere else; the build asks here."""

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "miscal" / "__init__.py"
found = re.search(r'^__version__ = "([^"]+)"$', SOURCE.read_text(encoding="utf-8"), re.MULTILINE)
assert found, f"{SOURCE} has no __version__"
print(found[1])
