"""Run every study, benchmark and figure script with `--quick`: what each costs, and how each ends.

    python -m scripts.smoke [--write] [--separate] [--workers 2] [NAME ...]

The list is made of the folders: each file that has a `__main__` block. A script is run in a fork of a process that has
imported the large libraries, so that it pays for its own work only; `--separate` starts an interpreter for each.
`--write` leaves the log in studies/results/smoke_test.md. NAME is part of a path, such as `field_` or `benchmarks`.

A script ends in one of three ways: it ran; it was not run here, which counts only for a need that studies/needs.py
lists and that this machine lacks; or it failed. Writing into the repository is a failure.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import importlib
import json
import os
import platform
import runpy
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from studies import needs

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("studies", "benchmarks", "docs/figures")
BLOCK = '\nif __name__ == "__main__":'
# Scripts that start others: one of theirs is enough, for each has its own line in the log.
RUNNERS = {
    "studies/run.py": ["suppression"],
    "studies/reproduce.py": ["paper_004"],
    "benchmarks/run.py": ["variable"],
}
PRELOADED = (
    "numpy", "scipy.stats", "scipy.optimize", "pandas", "polars", "pyarrow.parquet", "matplotlib.pyplot", "duckdb",
    "sklearn.ensemble", "sklearn.linear_model", "sklearn.calibration", "miscal.metrics", "miscal.recalibrate",
    "miscal.auditing", "miscal.plots", "miscal.report", "torch", "lightgbm",
)  # fmt: skip
THREADS = ("MISCAL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
# A script takes a few seconds. A limit of CPU seconds (RLIMIT_CPU) would leave the process clock with the resolution of
# the scheduler, 4 ms, and benchmarks would measure 0.
WALL_SECONDS = 300
BUDGET_SECONDS = 360.0  # of CPU in all: three minutes of two cores
# Settings of a full run that a quick one must not see.
SETTINGS = ("MISCAL_STUDY_CACHE", "MISCAL_STUDY_PART")
UNGUARDED = {".venv", ".venv-peers", "build", ".git"}
LOG = ROOT / "studies" / "results" / "smoke_test.md"


@dataclass(frozen=True)
class Outcome:
    """How a script ended.

    Attributes
    ----------
    script : str
        Path of the script, relative to the repository.
    word : str
        "ran", "not run here" or "failed".
    about : str
        Needs that were absent, or the last line of an error.
    cpu : float
        CPU seconds of the script and of the processes that it started.
    output : str
        What it printed, both streams.
    """

    script: str
    word: str
    about: str
    cpu: float
    output: str = field(repr=False)


def scripts(root: Path = ROOT) -> list[str]:
    """Every script of the folders, as paths relative to the repository."""
    found = []
    for folder in FOLDERS:
        files = sorted((root / folder).rglob("*.py"))
        chosen = (path for path in files if path.name == "__main__.py" or BLOCK in path.read_text(encoding="utf-8"))
        found += [path.relative_to(root).as_posix() for path in chosen]
    return found


def judged(script: str, status: int, output: str, cpu: float) -> Outcome:
    """The outcome of a script by its exit status and its lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1] if lines else "no output"
    try:
        left_out = [name for line in lines for name in _needs(line, needs.LEFT_OUT_LINE)]
        if status == 0:
            return Outcome(script, "ran", f"without {', '.join(left_out)}" if left_out else "", cpu, output)
        if status == needs.NOT_RUN:
            named = _needs(last, needs.NOT_RUN_LINE)
            if named:
                return Outcome(script, "not run here", f"needs {', '.join(named)}", cpu, output)
            last = f"exit status {needs.NOT_RUN} without a line that names a need; last line: {last}"
    except ValueError as error:
        last = str(error)
    return Outcome(script, "failed", last if status >= 0 else f"killed by signal {-status}: {last}", cpu, output)


def _needs(line: str, start: str) -> list[str]:
    """Needs that a line names; an error where one is not listed, or is there."""
    named = line.removeprefix(start).split(", ") if line.startswith(start) else []
    for name in named:
        if name not in needs.LISTED:
            raise ValueError(f"{name!r} is no need that studies/needs.py lists")
        if not needs.absent(name):
            raise ValueError(f"the script says that it needs {name}, which is here")
    return named


def command(script: str) -> list[str]:
    """The words after `python` that run a script."""
    if script.startswith("benchmarks/"):
        return [script]
    return ["-m", script.removesuffix(".py").removesuffix("/__main__").replace("/", ".")]


def guard(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: nothing is written into the repository."""
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
    if event == "open":
        path, _, flags = arguments
        if not (isinstance(flags, int) and flags & writes):
            return
    elif event in {"os.mkdir", "os.remove", "os.rename"}:
        path = arguments[0]
    else:
        return
    if not isinstance(path, (str, os.PathLike)):
        return
    whole = Path(os.fsdecode(path)).absolute()
    parts = whole.relative_to(ROOT).parts if whole.is_relative_to(ROOT) else ()
    if parts and parts[0] not in UNGUARDED and "__pycache__" not in parts:
        raise PermissionError(f"a quick run must not write into the repository: {'/'.join(parts)}")


def _run_in_child(script: str, arguments: list[str], output: int, separate: bool) -> int:
    """Run the script in this process, a new fork, and give its exit status."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    os.setsid()  # so that a script that hangs ends with the processes that it started
    os.chdir(ROOT)
    words = command(script)
    if separate:
        os.execv(sys.executable, [sys.executable, *words, *arguments])
    sys.addaudithook(guard)
    sys.argv = [script, *arguments]
    try:
        if words[0] == "-m":
            sys.path[0] = str(ROOT)
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(ROOT / Path(script).parent)
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def start(script: str, folder: Path, separate: bool) -> int:
    """Start a script in a fork and give its process."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        number = os.open(folder / script.replace("/", "_"), os.O_WRONLY | os.O_CREAT)
        arguments = ["--quick", *RUNNERS.get(script, [])]
        status = _run_in_child(script, arguments, number, separate)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def run(wanted: list[str], workers: int = 2, *, separate: bool = False) -> list[Outcome]:
    """Run scripts, so many at a time, and give the outcome of each in the order of the list."""
    for name in SETTINGS:
        os.environ.pop(name, None)
    # Before numpy is imported: a script has one thread, and figures are drawn without a screen.
    os.environ.update(dict.fromkeys(THREADS, "1"), MPLBACKEND="Agg", SPARK_LOCAL_IP="127.0.0.1")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # processes of scripts would each compile the library again
    if not separate:
        for name in PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        gc.freeze()  # a script that collects rubbish need not look through the libraries
        atexit.register(gc.unfreeze)  # so that libraries end as they expect to
    waiting, running, found = list(wanted), dict[int, tuple[str, float]](), dict[str, Outcome]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "temporary").mkdir()  # of the scripts: a fork that ends removes nothing itself
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "temporary")
        while waiting or running:
            while waiting and len(running) < workers:
                script = waiting.pop(0)
                running[start(script, folder, separate)] = script, time.monotonic()
            child, status, used = os.wait4(-1, os.WNOHANG)
            if child not in running:
                _end_late_ones(running)
                time.sleep(0.05)
                continue
            script, _ = running.pop(child)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # processes that the script left behind
            output = (folder / script.replace("/", "_")).read_text(encoding="utf-8", errors="replace")
            seconds = used.ru_utime + used.ru_stime
            found[script] = judged(script, os.waitstatus_to_exitcode(status), output, seconds)
            print(line(found[script]), file=sys.stderr, flush=True)
    return [found[script] for script in wanted]


def _end_late_ones(running: dict[int, tuple[str, float]]) -> None:
    for child, (_, since) in running.items():
        if time.monotonic() - since > WALL_SECONDS:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)


def line(outcome: Outcome) -> str:
    """One line of the log."""
    about = outcome.about.replace("|", "/")
    return f"| {outcome.script} | {outcome.cpu:.1f} | {outcome.word}{': ' if about else ''}{about} |"


def log(outcomes: list[Outcome]) -> str:
    """The log as a table, with its sums."""
    total = sum(outcome.cpu for outcome in outcomes)
    count = {word: sum(outcome.word == word for outcome in outcomes) for word in ("ran", "not run here", "failed")}
    numbers = ", ".join(f"{number} {word}" for word, number in count.items())
    head = (
        f"Printed by `python -m scripts.smoke --write`. {len(outcomes)} scripts: {numbers}. {total:.0f} CPU seconds in "
        f"all, {total / 2:.0f} s of two cores (at most {BUDGET_SECONDS / 2:.0f}). Python {platform.python_version()}."
    )
    title = "# Every study, benchmark and figure script with `--quick`"
    table = ["| script | CPU s | outcome |", "|---|---:|---|", *map(line, outcomes)]
    return "\n".join([title, "", head, "", *table])


def main() -> int:
    """Run what is asked for; the exit status is 1 when any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--write", action="store_true", help="leave the log in studies/results")
    parser.add_argument("--separate", action="store_true", help="an interpreter for each script")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="leave the outcomes in this file")
    options = parser.parse_args()
    if os.environ.get("MISCAL_DATA"):
        os.environ["MISCAL_DATA"] = str(Path(os.environ["MISCAL_DATA"]).resolve())
    wanted = [name for name in scripts() if not options.names or any(word in name for word in options.names)]
    outcomes = run(wanted, options.workers, separate=options.separate)
    for outcome in outcomes:
        if outcome.word == "failed":
            print(f"\n== {outcome.script}\n{outcome.output[-4000:]}", file=sys.stderr)
    print(log(outcomes))
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes]), encoding="utf-8")
    if options.write:
        LOG.write_text(log(outcomes) + "\n", encoding="utf-8")
    return int(any(outcome.word == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
