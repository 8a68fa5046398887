"""The order of the rows moves no p-value, floor or error: nothing but the last digits."""

from __future__ import annotations

import pytest

from studies.row_order import differences


@pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
def test_numbers_do_not_depend_on_the_order_of_the_rows() -> None:
    found = differences(orders=2)
    for weight, sizes in found.items():
        assert max(sizes.values(), default=0.0) < 1e-13, (weight, sizes)
    assert not [name for name in found["none"] if "p-value" in name or "floor" in name]
    assert not [name for name in found["whole"] if "p-value" in name or "floor" in name]
