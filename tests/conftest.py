"""What every test may ask for: seeded numbers, files that are not part of the repository, a browser."""

from __future__ import annotations

import os

# A worker has one processor. A second thread of BLAS or OpenMP beside it would wait in a loop: scikit-learn's
# checks take four times the processor time with it. Said before numpy is loaded, and to processes that tests start.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import atexit
import gc
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests import databases

ROOT = Path(__file__).resolve().parents[1]
# The longest files, begun first: at the end of a run no worker is left alone with one of them.
LONGEST = (
    "test_scripts_run", "test_spark", "test_page", "test_audit_study", "test_recalibrator_laws", "test_parity",
    "test_unusual_tables", "test_beyond_memory", "test_explained_by", "test_lore", "test_search_limits",
    "test_recalibrator_json", "test_streams", "test_power_study", "test_audit_stream", "test_stream_study",
    "test_sampled_by_outcome", "test_audit", "test_field_false_alarms", "test_false_alarms_variable", "test_choose",
    "test_any_mean", "test_mean_repair_laws", "test_plots", "test_audit_periods", "test_types",
    "test_by_subpopulation", "test_mean_recalibration", "test_report_page", "test_false_alarms_score",
    "test_column_choice",
    "test_goldens", "test_goldens_spark", "test_docs_search",
)  # fmt: skip
FEW_DRAWS = 9  # of 199
LEFT = (".html", ".json", ".csv", ".parquet", ".tally", ".miscal", ".md", ".png")

# Deterministic: a failure that one run finds, every run finds. `HYPOTHESIS_PROFILE=deep` looks further.
_COMMON = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "print_blob": False,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
settings.register_profile("ci", max_examples=50, **_COMMON)
settings.register_profile("quick", max_examples=10, **_COMMON)
settings.register_profile("deep", max_examples=2000, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A local Spark talks to itself; without this it asks the machine's name and waits where that name does not resolve.
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def pytest_collectstart() -> None:
    """What tests import stays: there is no rubbish to look for while they are collected."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order in which workers take files; from here on there is rubbish, but not among what was imported."""
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)  # so that libraries end as they expect to
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


@pytest.fixture(autouse=True)
def nothing_is_left_in_the_working_directory() -> Iterator[None]:
    """No test leaves a page, a table or a model where it was started."""
    here = Path.cwd()
    before = set(here.iterdir())
    yield
    left = [path.name for path in set(here.iterdir()) - before if path.suffix in LEFT]
    assert not left, f"{left} in {here}: give --out, or change to a folder of the test's own"


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, new for each test."""
    return np.random.default_rng(20260701)


@pytest.fixture(scope="module", autouse=True)
def few_smooth_draws(request: pytest.FixtureRequest) -> Iterator[None]:
    """The noise of SmoothECE from few draws: all of them take more than half of the time of a small audit.

    No finding reads it, and all of its code is still walked through. A module that asks for the numbers themselves
    says ALL_SMOOTH_DRAWS = True.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not getattr(request.module, "ALL_SMOOTH_DRAWS", False):
            patch.setattr("miscal.stats.smooth_ece.SMOOTH_DRAWS", FEW_DRAWS)
        yield


@pytest.fixture
def without_smooth_noise() -> Iterator[None]:
    """Audits without the draws of SmoothECE, which no finding reads: a fifth of the time of a small one."""
    from studies import harness  # not where a wheel is tested: there nobody asks for it

    with harness.without_smooth_noise():
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of files that reproductions of published tables read."""
    named = os.environ.get("MISCAL_DATA", "")
    if not named:
        pytest.skip("MISCAL_DATA is not set: the published data are not part of the repository")
    folder = (ROOT / named).resolve()  # a relative name is relative to the repository, an absolute one stays
    if not folder.is_dir():
        pytest.skip(f"MISCAL_DATA={named} is not a folder")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """The system's Chromium, for playwright's `executable_path`."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no chromium on this machine: apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def java() -> str:
    """A Java runtime, which a local Spark needs."""
    found = shutil.which("java")
    if found is None:
        pytest.skip("no java on this machine: apt-get install openjdk-17-jre-headless")
    return found


@pytest.fixture(scope="session")
def postgres() -> Iterator[databases.Run]:
    """A PostgreSQL of the tests' own."""
    with databases.postgres() as run:
        yield run


@pytest.fixture(scope="session", params=databases.DATABASES)
def database(request: pytest.FixtureRequest) -> tuple[str, databases.Run]:
    """The name of a dialect, and what runs it."""
    made = {"duckdb": databases.in_duckdb, "sqlite": databases.in_sqlite}
    return request.param, made.get(request.param) or request.getfixturevalue("postgres")
