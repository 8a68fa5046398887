"""A fixture for tests of a model: `assert_calibrated(frame, outcome=..., probability=..., max_expected=0.02)`."""

from collections.abc import Callable
from typing import Any

import pytest


def check_calibrated(data: Any, **options: Any) -> None:
    """Audit a table and fail with one line for each gate that does not hold.

    Parameters
    ----------
    data : table or path
        The data, as in `miscal.audit`.
    **options
        Gates by name (`max_expected`, `max_findings`, `max_field={"state": 0.03}`, ...), over those of `miscal.toml` or
        `pyproject.toml` in the folder; all others go to `miscal.audit`.

    Examples
    --------
    >>> table = {"late": [0, 1] * 50, "score": [0.2, 0.9] * 50}
    >>> check_calibrated(table, outcome="late", probability="score", max_expected=0.2)
    """
    from miscal import Audit, audit
    from miscal.auditing.gates import GATES, gates_of, judge

    gates = gates_of({name: options.pop(name) for name in GATES if name in options}, "'{1}'")
    baseline = Audit.load(gates.no_new_findings).report if gates.no_new_findings else None
    outcomes = judge(audit(data, **options).report, gates, baseline)
    failed = [f"\n  {outcome.line}" for outcome in outcomes if not outcome.passed]
    if failed:
        pytest.fail(f"not calibrated:{''.join(failed)}", pytrace=False)


@pytest.fixture
def assert_calibrated() -> Callable[..., None]:
    """Fail the test unless the gates hold for a table of predictions (see `check_calibrated`)."""
    return check_calibrated
