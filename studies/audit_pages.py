"""Audits of real tables: a gradient-boosting model trained on one half, audited on the other, a page for each.

    MISCAL_DATA=folder python studies/audit_pages.py OUT [NAME ...]

The folder holds compas_two_year, credit_default_taiwan, sba_loans and diabetes130 as Parquet files.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import miscal

# Columns that tell the outcome, or that no model should see, are dropped.
TABLES: dict[str, dict[str, Any]] = {
    "compas_two_year": {"outcome": "two_year_recid", "drop": ["is_recid", "id", "c_charge_desc"]},
    "credit_default_taiwan": {"outcome": "y", "drop": []},
    "sba_loans": {"outcome": "y", "drop": ["Zip", "NAICS", "FranchiseCode"]},
    "diabetes130": {"outcome": "y", "drop": ["readmitted", "encounter_id"], "cluster": "patient_nbr"},
}
MOST_ROWS = 60_000


def scored(frame: pd.DataFrame, outcome: str, cluster: str | None) -> pd.DataFrame:
    """Train on one half of the rows (of the clusters) and return the other half with its probabilities."""
    rng = np.random.default_rng(0)
    unit = frame[cluster] if cluster else pd.Series(np.arange(len(frame)), index=frame.index)
    chosen = rng.random(int(pd.factorize(unit)[0].max()) + 1) < 0.5
    train = chosen[pd.factorize(unit)[0]]
    features = frame.drop(columns=[outcome, *([cluster] if cluster else [])])
    coded = features.apply(lambda column: column if column.dtype.kind in "if" else pd.factorize(column)[0])
    model = HistGradientBoostingClassifier(random_state=0).fit(coded[train], frame.loc[train, outcome])
    tested = frame[~train].copy()
    tested["probability"] = model.predict_proba(coded[~train])[:, 1]
    return tested.iloc[:MOST_ROWS]


def main(out: Path, names: list[str]) -> None:
    """Audit each table and print its first findings."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names or list(TABLES):
        about = TABLES[name]
        frame = pd.read_parquet(Path(os.environ["MISCAL_DATA"]) / f"{name}.parquet").drop(columns=about["drop"])
        outcome, cluster = about["outcome"], about.get("cluster")
        table = scored(frame, outcome, cluster)
        start = time.process_time()
        found = miscal.audit(table, outcome=outcome, probability="probability", cluster=cluster, source=name)
        found.to_html(out / f"{name}.html")
        size = (out / f"{name}.html").stat().st_size
        print(f"\n{name}: {len(table):,} rows, {time.process_time() - start:.1f} s of CPU, page of {size / 1e3:.0f} kB")
        for finding in [f for f in found.findings if f.real and not f.parent][:5]:
            print(f"  {finding}")
        print(f"  clean: {', '.join(entry['where'] for entry in found.clean)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
