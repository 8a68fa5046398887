"""Check that imports go downward only, in a process that sees the sources and no editable installation of them.

The finder of an editable installation knows modules, not folders, and the linter needs folders.

    python scripts/lint_imports.py [FOLDER]         # this repository when none is given
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the linter on FOLDER/src by the settings of FOLDER/pyproject.toml."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "src"), *packages])}
    command = [sys.executable, "-S", "-c", CODE, "--no-cache"]
    return subprocess.run(command, cwd=folder, env=known, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    done = lint_imports(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve())
    print(done.stdout + done.stderr)
    sys.exit(done.returncode)
