"""Audits of real tables: a gradient-boosting model trained on one half, audited on the other, a page for each.

    MISCAL_DATA=folder python -m studies.audit_pages OUT [NAME ...]
    MISCAL_DATA=folder python -m studies.audit_pages --quick

The folder holds compas_two_year, credit_default_taiwan, sba_loans and diabetes130 as Parquet files; flights are in
the package.
Of the largest table 240,000 rows are drawn at random, so that half a minute trains its model. Each page's numbers are
written to studies/results/audit_pages.json; docs/figures/report_page.py takes its picture. `--quick` takes a tenth of
the smallest table, and leaves nothing.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import miscal
from miscal.report.codec import report_from
from miscal.report.html.sections.score import verdict
from studies.needs import need

# Columns that tell the outcome, or that no model should see, are dropped.
TABLES: dict[str, dict[str, Any]] = {
    "compas_two_year": {"outcome": "two_year_recid", "drop": ["is_recid", "id", "c_charge_desc"]},
    "credit_default_taiwan": {"outcome": "y", "drop": []},
    "sba_loans": {"outcome": "y", "drop": ["Zip", "NAICS", "FranchiseCode"], "time": "approval_date"},
    "diabetes130": {"outcome": "y", "drop": ["readmitted", "encounter_id"], "cluster": "patient_nbr"},
}
MOST_ROWS = 240_000
RESULTS = Path(__file__).parent / "results" / "audit_pages.json"


def scored(frame: pd.DataFrame, outcome: str, cluster: str | None) -> pd.DataFrame:
    """Train on one half of the rows (of the clusters) and return the other half with its probabilities."""
    rng = np.random.default_rng(0)
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=0).sort_index()
    unit = frame[cluster] if cluster else pd.Series(np.arange(len(frame)), index=frame.index)
    chosen = rng.random(int(pd.factorize(unit)[0].max()) + 1) < 0.5
    train = chosen[pd.factorize(unit)[0]]
    features = frame.drop(columns=[outcome, *([cluster] if cluster else [])])
    coded = features.apply(lambda column: column if column.dtype.kind in "if" else pd.factorize(column)[0])
    model = HistGradientBoostingClassifier(random_state=0).fit(coded[train], frame.loc[train, outcome])
    tested = frame[~train].copy()
    tested["probability"] = model.predict_proba(coded[~train])[:, 1]
    return tested


def audited(name: str, share: float = 1.0) -> tuple[miscal.Audit, int]:
    """The audit of a table or of a share of its rows, and how many rows it has."""
    if name == "flights":
        from miscal.datasets import flights

        table: Any = flights()
        options = {"outcome": "late", "ignore": ["month", "day", "minute"], "time": "date"}
        return miscal.audit(table, probability="probability", source=name, **options), 166_668
    about = TABLES[name]
    frame = pd.read_parquet(Path(os.environ["MISCAL_DATA"]) / f"{name}.parquet").drop(columns=about["drop"])
    outcome, cluster = about["outcome"], about.get("cluster")
    table = scored(frame.sample(frac=share, random_state=0) if share < 1.0 else frame, outcome, cluster)
    result = miscal.audit(
        table, outcome=outcome, probability="probability", cluster=cluster, time=about.get("time"), source=name
    )
    return result, len(table)


def written(name: str, out: Path, share: float = 1.0) -> dict[str, Any]:
    """Audit a table, write its page, print its first findings and return what is recorded."""
    start = time.process_time()
    result, rows = audited(name, share)
    result.to_html(out / f"{name}.html")
    size = (out / f"{name}.html").stat().st_size
    seconds = time.process_time() - start
    print(f"\n{name}: {rows:,} rows, {seconds:.0f} s of CPU with training, page of {size / 1e3:.0f} kB")
    heads = [str(finding) for finding in result.findings if finding.real and not finding.parent]
    for line in heads[:5]:
        print(f"  {line}")
    clean = [entry["where"] for entry in result.clean]
    print(f"  clean: {', '.join(clean)}", flush=True)
    sentence = verdict(report_from(result.document)).sentence
    return {"rows": rows, "page_kb": round(size / 1e3), "verdict": sentence, "findings": heads, "clean": clean}


def main(arguments: list[str]) -> None:
    """Audit each table, write its page and record its numbers."""
    if arguments == ["--quick"]:
        need("MISCAL_DATA")
        with tempfile.TemporaryDirectory() as folder:
            written("compas_two_year", Path(folder), share=0.1)
        return
    out, names = Path(arguments[0]), arguments[1:] or ["flights", *TABLES]
    if names != ["flights"]:
        need("MISCAL_DATA")
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        record = written(name, out)
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        results[name] = record
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
