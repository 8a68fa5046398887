"""Print how many malformed inputs are tested, by kind of fault and container: `python scripts/malformed_table.py`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.data_input.malformed_cases import all_cases, chosen


def main() -> None:
    cases = chosen(all_cases())
    containers = list(dict.fromkeys(case.container for case in cases))
    kinds = Counter(case.kind for case in cases)
    cells = Counter((case.kind, case.container) for case in cases)
    print(f"| kind of fault | {' | '.join(containers)} | all |")
    print("|---" * (len(containers) + 2) + "|")
    for kind, total in kinds.items():
        row = " | ".join(str(cells[kind, container] or "") for container in containers)
        print(f"| {kind} | {row} | {total} |")
    columns = Counter(case.container for case in cases)
    print(f"| all {len(kinds)} kinds | {' | '.join(str(columns[c]) for c in containers)} | {len(cases)} |")
    largest, number = kinds.most_common(1)[0]
    print(f"\n{len(cases)} cases; the largest kind, '{largest}', has {number} ({number / len(cases):.1%}).")


if __name__ == "__main__":
    main()
