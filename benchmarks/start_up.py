"""What a user waits for before the first number: `python benchmarks/start_up.py [--quick]`.

A wheel is built (or that of MISCAL_WHEEL taken) and installed with what it needs, and nothing else, into an empty
environment. Each line is a process of its own there: its CPU seconds in the first run after `pip install`, in the
second, and in the first after an installer that leaves it to Python to compile the modules, as uv does unless
UV_COMPILE_BYTECODE=1. The peers are those of the environment that runs this file. A quick run installs nothing: this
interpreter runs each line once.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

ROOT = Path(__file__).resolve().parent.parent
ROWS = 10_000
ROLES = ["--outcome", "late", "--probability", "probability"]
TABLE = f"""
import numpy, pyarrow.parquet, miscal.datasets
flights = miscal.datasets.flights()
rows = numpy.linspace(0, flights.num_rows - 1, {ROWS}).astype(int)
pyarrow.parquet.write_table(flights.take(rows), "flights.parquet")
"""
FIRST = f"import numpy as np; p, q = np.random.default_rng(0).random((2, {ROWS})); y = (q < p).astype('u1'); "
# What is run, and at most how many CPU seconds it may take the first time.
OURS = {
    "import": (["-c", "import miscal"], 0.1),
    "first expected error": (["-c", FIRST + "import miscal.metrics as m; m.expected_calibration_error(y, p)"], 1.0),
    "check --max-expected": (["-m", "miscal", "check", "flights.parquet", *ROLES, "--max-expected", "0.5"], 1.5),
    "audit of three columns": (
        ["-m", "miscal", "audit", "flights.parquet", *ROLES, "--by", "carrier", "--by", "hour", "--by", "distance"],
        3.0,
    ),
    "audit of all columns": (["-m", "miscal", "audit", "flights.parquet", *ROLES], 3.0),
}  # fmt: skip
THEIRS = {
    "import": {
        "numpy": "import numpy",
        "scikit-learn": "import sklearn.calibration",
        "relplot": "import relplot",
        "netcal": "import netcal.metrics",
        "MAPIE": "import mapie.metrics.calibration",
    },
    "first expected error": {
        "relplot": FIRST + "import relplot.metrics; relplot.metrics.binnedECE(p, y, 15)",
        "scikit-learn": FIRST + "import sklearn.calibration as c; c.calibration_curve(y, p, n_bins=15)",
        "netcal": FIRST + "from netcal.metrics import ECE; ECE(15).measure(p, y)",
    },
}
MOST_MB = 500  # of the whole installation


def installed(folder: Path) -> Path:
    """The interpreter of a new environment that holds the wheel of this clone and what it needs, nothing compiled."""
    wheel = os.environ.get("MISCAL_WHEEL")
    if not wheel:
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
        subprocess.run(build, check=True)
        (wheel,) = map(str, folder.glob("*.whl"))
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", wheel], check=True)
    return python


def cpu_seconds(python: Path | str, arguments: list[str], folder: Path, **environment: str) -> float:
    """CPU seconds of a process that finds miscal where it was installed alone."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    return harness.process_seconds(python, arguments, folder, known)


def megabytes(python: Path) -> dict[str, float]:
    """Size of each installed folder, the largest first; pip itself left out."""
    (packages,) = (python.parent.parent / "lib").glob("python*/site-packages")
    sizes = {
        part.name: sum(file.stat().st_size for file in part.rglob("*") if file.is_file()) / 1e6
        for part in packages.iterdir()
        if part.is_dir() and not part.name.startswith(("pip", "setuptools"))
    }
    return dict(sorted(sizes.items(), key=lambda entry: -entry[1]))


def row(operation: str, ours: float, peer: str = "", theirs: float = math.nan, goal: str = "", note: str = "") -> dict:
    return {
        "operation": operation, "size": ROWS, "ours_cpu_s": ours, "peer": peer, "peer_cpu_s": theirs,
        "ratio": theirs / ours, "goal": goal, "note": note,
    }  # fmt: skip


def against_peers(operation: str, ours: float, folder: Path, repeats: int) -> list[dict]:
    """A line for each peer that this environment has."""
    found = []
    for peer, code in THEIRS.get(operation, {}).items():
        try:
            theirs = min(cpu_seconds(sys.executable, ["-c", code], folder) for _ in range(repeats))
        except subprocess.CalledProcessError:
            continue
        found.append(row(operation, ours, peer, theirs))
    return found


def rows(quick: bool = False) -> list[dict]:
    if quick:
        return rows_here()
    repeats, found = 3, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = installed(folder)
        nothing_kept = {"PYTHONDONTWRITEBYTECODE": "1"}
        cpu_seconds(python, ["-c", TABLE], folder, **nothing_kept)
        bare = {what: cpu_seconds(python, run, folder, **nothing_kept) for what, (run, _) in OURS.items()}
        subprocess.run([python, "-m", "compileall", "-q", str(python.parent.parent)], check=False, capture_output=True)
        sizes = megabytes(python)
        first = {what: cpu_seconds(python, run, folder) for what, (run, _) in OURS.items()}
        for what, (run, most) in OURS.items():
            second = min(cpu_seconds(python, run, folder) for _ in range(repeats))
            said = f"at most {most:g} {'met' if first[what] <= most else 'MISSED'}"
            note = f"second run {second:.2f}; not compiled to bytecode {bare[what]:.2f}"
            found += [row(what, first[what], goal=said, note=note), *against_peers(what, second, folder, repeats)]
    total = sum(sizes.values())
    said = f"at most {MOST_MB} MB {'met' if total <= MOST_MB else 'MISSED'}"
    largest = json.dumps({package: round(size) for package, size in list(sizes.items())[:6]})
    found.append(row("installation", math.nan, goal=said, note=f"{total:.0f} MB with bytecode: {largest}"))
    return found


def rows_here() -> list[dict]:
    """Each line once, by the interpreter that runs this file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cpu_seconds(sys.executable, ["-c", TABLE], folder)
        return [row(what, cpu_seconds(sys.executable, run, folder)) for what, (run, _) in OURS.items()]


if __name__ == "__main__":
    harness.main("start_up", rows)
