"""A thousand subpopulations of a table read in parts: seconds a row, passes, peak memory, and whether it is exact.

    python -m studies.stream_subpopulations --rows 2000000 --folder BIG

Writes studies/results/stream_subpopulations.json and .md. The table is that of studies/stream_large.py without its
field of 100,000 levels; the subpopulations are a hundred and a thousand of Algorithm 1, over its four numeric columns.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from studies.stream_large import RESULTS, generate, measured

MEASURE = """
import miscal
spec = miscal.Subpopulation(['age', 'income', 'distance', 'hour'], subpopulations={count})
made = miscal.measure({path!r}, spec, outcome='y', probability='p', memory={memory!r})[0]
found = {{
    'subpopulations': made.settings['tested'], 'passes': made.settings['passes'], 'exact': made.settings['exact'],
    'value': made.value, 'at_most': made.extra['at_most'], 'p_value': made.p_value,
    'sample_rows': made.settings['sample_rows'], 'worst': str(made.table['label'][0]),
    'settled': int((made.table['short_by'] == 0).sum()),
}}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--quick", action="store_true", help="half a million rows; nothing is recorded")
    arguments = parser.parse_args()
    rows = 500_000 if arguments.quick else arguments.rows
    path = arguments.folder / f"subpopulations_{rows}.parquet"
    generate(path, rows)
    try:
        record = {
            "rows": rows,
            "memory": arguments.memory,
            "runs": [
                measured(MEASURE.format(path=str(path), memory=arguments.memory, count=count)) for count in (100, 1000)
            ],
        }
    finally:
        path.unlink(missing_ok=True)
    print(json.dumps(record, indent=1))
    if not arguments.quick:
        (RESULTS / "stream_subpopulations.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / "stream_subpopulations.md").write_text(markdown(record))


def markdown(record: dict) -> str:
    head = ["subpopulations", "passes", "processor s", "ns a row", "peak MB", "error", "at most", "walks exact"]
    lines = [
        f"{record['rows']:,} rows, ceiling {record['memory']}; processor time of the whole process, imports included.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
    ]
    for run in record["runs"]:
        cells = [
            f"{run['subpopulations']:,}",
            str(run["passes"]),
            f"{run['cpu_s']:.1f}",
            f"{1e9 * run['cpu_s'] / record['rows']:.0f}",
            f"{run['peak_mb']:.0f}",
            f"{run['value']:.6f}",
            f"{run['at_most']:.6f}",
            f"{run['settled']:,}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
