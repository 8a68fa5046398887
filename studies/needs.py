"""What a script needs that not every machine has: the list, and the exit of a script that lacks something of it.

A script that cannot run without one of these calls `need`, which ends it with the status 77 and one line. A script that
can leave a part out asks `lacks`. `python -m scripts.smoke` accepts both only for what is listed here and is absent.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

NOT_RUN = 77  # the status by which test runners know what was not run
NOT_RUN_LINE = "not run here: needs "
LEFT_OUT_LINE = "left out here: needs "
PEERS_FILE = Path(__file__).parents[1] / "requirements" / "peers.txt"


def _folder(variable: str) -> bool:
    return Path(os.environ.get(variable) or "/nonexistent").is_dir()


def _cuda() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def chromium() -> str | None:
    """Path of the system's Chromium or Chrome, None where there is none."""
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return next((path for path in found if path), None)


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def peers() -> list[str]:
    """Distributions that only the peers' environment is sure to have, as requirements/peers.txt spells them."""
    return re.findall(r"^([A-Za-z][\w.-]*)==", PEERS_FILE.read_text(encoding="utf-8"), re.MULTILINE)


def _of_peer(name: str) -> Callable[[], bool]:
    return lambda: _installed(name)


# Name of a need, and whether this machine has it.
LISTED: dict[str, Callable[[], bool]] = {
    "MISCAL_DATA": lambda: _folder("MISCAL_DATA"),
    "MISCAL_PEERS": lambda: Path(os.environ.get("MISCAL_PEERS") or "/nonexistent").is_file(),
    "a CUDA device": _cuda,
    "Chromium": lambda: chromium() is not None,
    "Java": lambda: shutil.which("java") is not None,
    "/proc": lambda: Path("/proc/self/status").exists(),
    **{f"package {name}": _of_peer(name) for name in peers()},
}


def absent(*names: str) -> list[str]:
    """Those of the named needs that this machine has not; a name that is not listed is an error."""
    unknown = [name for name in names if name not in LISTED]
    if unknown:
        raise KeyError(f"{unknown} is not among the needs listed in {Path(__file__).name}: {list(LISTED)}")
    return [name for name in names if not LISTED[name]()]


def need(*names: str) -> None:
    """End the script with status 77 and one line where this machine lacks any of the named needs."""
    missing = absent(*names)
    if missing:
        print(NOT_RUN_LINE + ", ".join(missing), file=sys.stderr, flush=True)
        raise SystemExit(NOT_RUN)


def lacks(*names: str) -> bool:
    """Whether this machine lacks any of the named needs; one line says so, and the script goes on without the part."""
    missing = absent(*names)
    if missing:
        print(LEFT_OUT_LINE + ", ".join(missing), file=sys.stderr, flush=True)
    return bool(missing)
