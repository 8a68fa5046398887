"""The README's table of speed, from the committed results of `make bench`; `--write` puts it there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
START, STOP = "<!-- speed: scripts/speed_table.py -->", "<!-- end of speed -->"
# What the README calls it, then the benchmark, operation, size and peer of one committed row.
CODES = "Field-ECE from integer codes; peers: one sum"
MULTI = "multi-calibration, 1,000 subpopulations"
LINES: list[tuple[str, str, str, int, str]] = [
    ("Expected error, 15 bins", "score", "expected error, 15 bins", 10**7, "scikit-learn"),
    ("SmoothECE", "score", "SmoothECE", 10**7, "relplot"),
    ("Kuiper's statistic", "score", "Kuiper", 10**7, "MCGrad"),
    ("Multi-calibration, 1,000 subpopulations", "subpopulation", MULTI, 10**6, "MCGrad"),
    ("Error by 500 levels", "field", "Field-ECE", 10**6, "fairlearn MetricFrame"),
    ("Error by 100,000 levels", "field", CODES, 10**7, "polars group_by"),
]


def found(benchmark: str, operation: str, size: int, peer: str) -> dict[str, Any]:
    """The committed row; a missing one is an error, not a gap in the table."""
    rows = json.loads((ROOT / "benchmarks" / "results" / f"{benchmark}.json").read_text(encoding="utf-8"))["rows"]
    for row in rows:
        if (row["operation"], row["size"], row["peer"]) == (operation, size, peer):
            return dict(row)
    raise LookupError(f"benchmarks/results/{benchmark}.json has no row for {operation}, {size}, {peer}")


def seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def table() -> str:
    lines = ["| job | rows | miscal | peer | times faster |", "|---|---:|---:|---|---:|"]
    for words, *key in LINES:
        row = found(*key)
        peer = f"{row['peer'].split(' ')[0]}, {seconds(row['peer_cpu_s'])}"
        lines.append(f"| {words} | {row['size']:,} | {seconds(row['ours_cpu_s'])} | {peer} | {times(row['ratio'])} |")
    return "\n".join(lines)


def inserted(readme: str) -> str:
    """The README with the table between its two marks."""
    head, rest = readme.split(START)
    return f"{head}{START}\n{table()}\n{STOP}{rest.split(STOP)[1]}"


def main() -> int:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        readme.write_text(inserted(text), encoding="utf-8")
    else:
        print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
