"""The papers' published tables beside ours: `make reproduce`, or `python -m studies.reproduce [--quick] [NAME ...]`.

Each paper has a script reproduce_<paper>.py here. They read the authors' model outputs from the folder that MISCAL_DATA
names; those files are not part of the repository.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from studies.needs import need
from studies.run import HERE, run


def main() -> int:
    scripts = sorted(path.stem for path in HERE.glob("reproduce_*.py"))
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    chosen = [name for name in scripts if not words or any(word in name for word in words)]
    need("MISCAL_DATA")
    os.environ["MISCAL_DATA"] = str(Path(os.environ["MISCAL_DATA"]).resolve())
    return run(chosen, [word for word in sys.argv[1:] if word.startswith("--")])


if __name__ == "__main__":
    sys.exit(main())
