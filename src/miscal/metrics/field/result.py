"""Calibration by the levels of a field (paper 003)."""

from __future__ import annotations

from collections.abc import Sequence

from miscal.data.predictions import Predictions
from miscal.metrics.norms import Norm
from miscal.metrics.pooled import pooled, worst_cell
from miscal.pairs import pair
from miscal.pooling.columns import crossed, level_pooling, named_columns
from miscal.results import Result


def by_field(
    p: Predictions,
    field: str | Sequence[str],
    *,
    norm: Norm = "l1",
    target: str | int = "auto",
    null: str = "bernoulli",
    random_state: int = 0,
) -> Result:
    """Calibration by the levels of a field, every level tested; several fields are crossed.

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> state = rng.choice(["CA", "NY", "TX"], 3000)
    >>> p = miscal.Predictions(
    ...     rng.random(3000) < np.where(state == "NY", 0.5, 0.3), np.full(3000, 0.3), columns={"state": state}
    ... )
    >>> miscal.by_field(p, "state").table.sort("p_adjusted")["label"][0]
    'NY'
    """
    compared = pair(p, target)
    pooling = crossed([level_pooling(column) for column in named_columns(p.columns, field)])
    found = pooled(compared, pooling, norm=norm, null=null, random_state=random_state)
    return Result(
        name=f"Calibration by {field if isinstance(field, str) else ' and '.join(field)}",
        kind="field",
        value=found.summary.value,
        noise_floor=found.summary.noise_floor,
        p_value=found.summary.p_value,
        interval=found.summary.interval,
        method=f"{found.noise.reason} {found.summary.draws} draws.",
        table=found.table,
        settings={
            "column": field if isinstance(field, str) else list(field),
            "levels": found.table.rows,
            "norm": norm,
            "target": compared.target,
            "null": found.noise.null,
            "random_state": random_state,
            "draws": found.summary.draws,
        },
        extra={"tally": found.tally, "worst": worst_cell(found), "column": field},
    )
