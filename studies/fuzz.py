"""Generated calls of the library, every pair of odd values tried: each ends in an answer or a refusal.

    python -m studies.fuzz [--quick] --cases 5000 --audits 200

The cases are those of `tests/data_input/fuzz_cases.py`, of which the tests run 600.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.data_input.fuzz_cases import AUDIT, FACTORS, cases, counted

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="60 cases and one audit; nothing is written")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.cases, arguments.audits = 60, 1
    made = cases(arguments.cases, arguments.seed)
    record = {}
    for name, some in (("calls", made), ("audits", [{**case, "function": AUDIT} for case in made[: arguments.audits]])):
        ends, bad = counted(some)
        record[name] = {"cases": len(some), **ends, "bad_cases": [[case, end] for case, end in bad]}
    record["values"] = {name: len(values) for name, values in FACTORS.items()}
    if not arguments.quick:
        (RESULTS / "fuzz.json").write_text(json.dumps(record, indent=1, default=str) + "\n")
        (RESULTS / "fuzz.md").write_text(markdown(record))
    print(markdown(record))
    if record["calls"]["bad_cases"] or record["audits"]["bad_cases"]:
        raise SystemExit("some ended in neither an answer nor a refusal")


def markdown(record: dict) -> str:
    lines = [
        "| what was called | cases | answered | refused | no such table | anything else |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("calls", "audits"):
        found = record[name]
        counts = [found.get(word, 0) for word in ("answered", "refused", "not a table", "bad")]
        lines.append(f"| {name} | {found['cases']:,} | " + " | ".join(f"{count:,}" for count in counts) + " |")
    values = ", ".join(f"{count} of {name}" for name, count in record["values"].items())
    return "\n".join([*lines, "", f"Values tried, every two together: {values}.", ""])


if __name__ == "__main__":
    main()
