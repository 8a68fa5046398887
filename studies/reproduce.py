"""The papers' published tables beside ours: `make reproduce`, or `python -m studies.reproduce [NAME ...]`.

Each paper has a script reproduce_<paper>.py here. They read the authors' model outputs from the folder that MISCAL_DATA
names; those files are not part of the repository.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from studies.run import HERE, run


def main() -> int:
    scripts = sorted(path.stem for path in HERE.glob("reproduce_*.py"))
    chosen = [name for name in scripts if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    folder = os.environ.get("MISCAL_DATA", "")
    if not folder or not Path(folder).is_dir():
        print("MISCAL_DATA must name the folder with the authors' model outputs", file=sys.stderr)
        return 2
    os.environ["MISCAL_DATA"] = str(Path(folder).resolve())
    return run(chosen, [])


if __name__ == "__main__":
    sys.exit(main())
