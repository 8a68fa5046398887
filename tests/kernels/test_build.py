"""The compiled kernels: every build gives the same bits, nothing is written, and a container may refuse everything."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import miscal
from miscal import kernels
from miscal.kernels import _processor

SOURCES = Path(__file__).parents[2] / "src" / "miscal" / "kernels"
AUDIT = """
import sys
import numpy as np, pandas, miscal
random = np.random.default_rng(7)
p = random.beta(1, 4, 6000)
frame = pandas.DataFrame({"y": random.random(6000) < p**1.1, "p": p, "age": random.integers(18, 90, 6000),
                          "place": random.choice(list("abcde"), 6000)})
audit = miscal.audit(frame, outcome="y", probability="p", effort="normal")
audit.to_json(sys.argv[1])
"""


def run(code: str, built: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "MISCAL_KERNELS": built}
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=known)


def test_a_source_that_says_cython_is_listed_and_nothing_else():
    text = {path.stem: path.read_text(encoding="utf-8") for path in SOURCES.glob("*.py")}
    sources = {name for name, source in text.items() if "\nfrom cython import " in source}
    listed = re.search(r"^kernels = \[(.*?)\]", (SOURCES / "meson.build").read_text(encoding="utf-8"), re.S | re.M)
    assert listed is not None
    assert sources == set(kernels.KERNELS) == set(re.findall(r"'(\w+)'", listed.group(1)))


@pytest.mark.skipif(
    not _processor.has_x86_64_v3() or find_spec("miscal.kernels.any") is None, reason="there is only one build here"
)
def test_both_builds_give_the_same_audit_to_the_bit(tmp_path):
    for built in ("any", "x86_64_v3"):
        done = run(AUDIT, built, str(tmp_path / built))
        assert done.returncode == 0, done.stderr
    documents = [(tmp_path / built).read_text() for built in ("any", "x86_64_v3")]
    assert documents[0] == documents[1]
    assert '"findings"' in documents[0]


def test_a_build_that_is_not_there_is_named():
    answer = run("import miscal.kernels", "sse9")
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].startswith("ImportError: MISCAL_KERNELS=sse9")


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The package as a wheel would lay it out, in a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    package = Path(miscal.__file__).parent
    compiled = Path(_processor.__file__).parent
    shutil.copytree(package, folder / "miscal", ignore=shutil.ignore_patterns("__pycache__"))
    for library in compiled.rglob("*.so"):
        place = folder / "miscal" / "kernels" / library.relative_to(compiled)
        place.parent.mkdir(exist_ok=True)
        shutil.copy(library, place)
    return folder


def test_a_stranger_in_a_read_only_container_gets_an_answer(installed, tmp_path):
    """Nothing may be written, there is no home, and no user where Python lies open to all: an answer all the same."""
    table = tmp_path / "table.csv"
    table.write_text("y,p\n" + "".join(f"{int(k % 10 < k // 100)},{k // 100 / 10}\n" for k in range(1000)))
    for place in (installed, *installed.rglob("*")):
        place.chmod(0o555 if place.is_dir() else 0o444)
    needed = [Path(sys.executable), Path(sys.executable).resolve(), table, installed]
    folders = {folder for place in needed for folder in place.parents}
    open_to_all = all(folder.stat().st_mode & 0o001 for folder in folders)

    def stranger() -> None:
        """Without the rights of an administrator, who may write anywhere: PR_CAPBSET_DROP of CAP_DAC_OVERRIDE."""
        if os.getuid() == 0:
            if ctypes.CDLL(None).prctl(24, 1, 0, 0, 0):
                raise PermissionError("the right to write anywhere cannot be dropped")
            if open_to_all:
                os.setgid(65534)
                os.setuid(65534)

    # Without `site` no editable installation is seen; the packages of the environment are named instead.
    paths = [installed, *(path for path in sys.path if path.endswith("site-packages"))]
    known = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-S", "-m", "miscal", "check", str(table), "--outcome", "y", "--probability", "p"]
    done = subprocess.run(
        [*command, "--max-expected", "0.2"], env=known, cwd="/", preexec_fn=stranger, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert not list(installed.rglob("__pycache__"))
