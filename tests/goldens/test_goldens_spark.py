"""No answer of a Spark frame has changed."""

from __future__ import annotations

import pytest

from tests.aggregate import spark_session
from tests.goldens import store
from tests.goldens.cases import compute
from tests.goldens.normalise import difference
from tests.goldens.on_spark import CASES

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ALL_SMOOTH_DRAWS = True
CLOSE = 1e-9  # partial sums of the tasks are added in the order in which they end


@pytest.fixture(scope="module")
def spark(java):
    pytest.importorskip("pyspark")
    with spark_session.started() as session:
        yield session


@pytest.mark.parametrize("name", CASES)
def test_the_answer_of_a_frame_is_the_frozen_one(spark, name: str) -> None:
    lines = difference(name, store.read("spark")[name], compute(lambda: CASES[name](spark)), CLOSE)
    assert not lines, "\n" + "\n".join(lines[:12])
