"""A sample of a stream: uniform, seeded, the same for any batches and threads; neighbourhoods of it."""

from __future__ import annotations

import numpy as np
import pytest
from miscal.engines.batches import batches_of
from miscal.engines.rows import Door
from miscal.engines.sampling import SamplePass
from miscal.engines.stream import Stream
from scipy import stats

import miscal
from miscal.data.errors import MiscalError
from tests.engines import tables


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tables.table(20_000)
    made = made.append_column("row", np.arange(20_000)[None].tolist())
    return tables.write(made, tmp_path_factory.mktemp("sample") / "t.parquet", 4000)


def drawn(path, seed=0, batch=1 << 20, threads=1, weight=None):
    job = SamplePass(Door("y", "p", weight), ("row",), 2000, seed)
    return Stream(batches_of(path, batch), threads).run(job).table()["row"].to_numpy()


def test_every_row_is_equally_likely(path):
    """Counts over forty cells of rows against equal ones; a seed draws 2,000 different rows."""
    rows = drawn(path)
    assert np.unique(rows).size == 2000
    counts = np.bincount(rows // 500, minlength=40)
    assert stats.chisquare(counts).pvalue > 1e-4
    many = np.bincount(np.concatenate([drawn(path, seed) for seed in range(20)]), minlength=20_000)
    # Each row is drawn Binomial(20, 0.1) times: the variance over rows is that of the binomial, about 1.8.
    assert abs(many.var() - 1.8) < 0.1


def test_batches_and_threads_change_nothing(path):
    assert np.array_equal(drawn(path), drawn(path, batch=700, threads=3))
    assert not np.array_equal(drawn(path), drawn(path, seed=1))


def test_rows_of_weight_0_are_never_drawn(path):
    import pyarrow.parquet as pq

    weight = pq.read_table(path)["whole_weight"].to_numpy()
    assert (weight[drawn(path, weight="whole_weight")] > 0).all()


def test_neighbourhoods_of_a_stream_are_those_of_its_sample(path):
    options = {"outcome": "y", "probability": "p", "memory": "500MB"}
    spec = miscal.Neighbourhood(["whole", "tied"], bins=3, simulations=49)
    found = miscal.measure(path, spec, sample=1500, **options)[0]
    assert found.settings["sample_rows"] == 1500
    assert found.settings["table_rows"] == 20_000
    assert "a sample of 1,500 of 20,000 rows" in found.method
    again = miscal.measure(path, spec, sample=1500, **options)[0]
    assert (found.value, found.p_value) == (again.value, again.p_value)
    job = SamplePass(Door("y", "p"), ("whole", "tied"), 1500, 0)
    table = Stream(batches_of(path), 1).run(job).table()
    p = miscal.Predictions(table["y"], table["p"], columns=table.select(["whole", "tied"]))
    memory = miscal.by_neighbourhood(p, ["whole", "tied"], bins=3, simulations=49)
    assert (found.value, found.p_value) == (memory.value, memory.p_value)
    with pytest.raises(MiscalError, match="has no column 'height'"):
        miscal.measure(path, miscal.Neighbourhood(["height"]), **options)
