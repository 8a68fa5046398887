"""Ask a solver, of many tables, whether a small cell follows from what a suppressed audit shows.

    python -m studies.suppression [--quick] [--tables 40]

Tables and solver are those of `tests/auditing/test_suppression.py`: every row count of the JSON is an equation, every
combination of values an unknown that is not negative; a cell of fewer than 20 rows is given away if its least and its
greatest possible count are the same.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import miscal
from miscal.report.codec import plain
from tests.auditing.test_suppression import BELOW, given_away, small_table

RESULTS = Path(__file__).parent / "results"


def shown_rows(document: dict[str, Any]) -> int:
    """How many counts of cells are shown."""
    tables = [result["table"].get("rows", []) for results in document["sections"].values() for result in results]
    return sum(rows is not None for table in tables for rows in table)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--quick", action="store_true", help="one table; nothing is written")
    options = parser.parse_args()
    tables = 1 if options.quick else options.tables
    counted = dict.fromkeys(
        ("given away without", "given away with", "findings", "findings shown", "counts", "counts shown"), 0
    )
    for seed in range(tables):
        frame = small_table(seed)
        found = miscal.audit(frame, outcome="y", probability="p", time="when", every="month", effort="normal")
        full, shown = (plain(each.document) for each in (found, found.suppressed(BELOW)))
        counted["given away without"] += bool(given_away(frame, full, full))
        counted["given away with"] += bool(given_away(frame, full, shown))
        counted["findings"] += len(full["findings"])
        counted["findings shown"] += len(shown["findings"])
        counted["counts"] += shown_rows(full)
        counted["counts shown"] += shown_rows(shown)
    record = {"tables": tables, "below": BELOW, **counted}
    lines = ["| of the tables | without suppression | with it |", "|---|---|---|"]
    lines.append(f"| give a small cell away | {counted['given away without']} | {counted['given away with']} |")
    lines.append(f"| findings shown | {counted['findings']} | {counted['findings shown']} |")
    lines.append(f"| counts of cells shown | {counted['counts']:,} | {counted['counts shown']:,} |")
    text = "\n".join([f"{tables} tables, cells of fewer than {BELOW} rows hidden.", "", *lines, ""])
    if not options.quick:
        (RESULTS / "suppression.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / "suppression.md").write_text(text)
    print(text)
    if counted["given away with"]:
        raise SystemExit("a small cell follows from what is shown")


if __name__ == "__main__":
    main()
