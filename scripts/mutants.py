"""Plant faults, one at a time, in a copy of the library, and see that the tests named with each catch it.

python scripts/mutants.py            all of them; exits with 1 if one is not caught
python scripts/mutants.py 3 7        some of them, by number

Writes a table to studies/results/mutants.md when all were run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from miscal.kernels import _processor as compiled

ROOT = Path(__file__).resolve().parents[1]
# File, what it says, what the fault makes of it, and the tests that should see it.
FAULTS = [
    (
        "kernels/order.py",
        "((event << 52) - grid(predicted[i])) * (2 * event - 1)",
        "((event << 52) - grid(predicted[i]) + 1) * (2 * event - 1)",
        "tests/laws/test_score_laws.py",
    ),
    (
        "kernels/sums.py",
        "<< 32) + (total >> LOW_BITS)",
        "<< 32) + (total >> LOW_BITS) + 1",
        "tests/laws/test_score_laws.py tests/papers/test_score.py",
    ),
    (
        "kernels/arithmetic.pxd",
        ">> 11) * 1.1102230246251565e-16",
        ">> 11) * 1.2102230246251565e-16",
        "tests/papers/test_inference.py tests/stats/test_metric_null.py",
    ),
    (
        "stats/binomial.py",
        "return np.minimum(1.0, 2.0 * np.minimum(lower, upper))",
        "return np.minimum(1.0, np.minimum(lower, upper))",
        "tests/stats/test_cell_tests.py",
    ),
    (
        "stats/multiplicity.py",
        "np.arange(order.size + further, further, -1)",
        "(order.size + further)",
        "tests/papers/test_inference.py",
    ),
    (
        "stats/metric_null.py",
        "(1.0 + _exceedances(drawn, values)) / (1.0 + len(drawn))",
        "_exceedances(drawn, values) / len(drawn)",
        "tests/stats/test_metric_null.py",
    ),
    (
        "stats/metric_null.py",
        "return max(0.0, value - quantile), value + quantile",
        "return value - quantile, value + quantile",
        "tests/stats/test_metric_null.py",
    ),
    (
        "stats/sign_flip.py",
        "np.clip(2.0 * tail, _smallest_p(number), 1.0)",
        "np.clip(tail, _smallest_p(number), 1.0)",
        "tests/stats/test_cell_tests.py tests/papers/test_inference.py",
    ),
    (
        "aggregate/requests.py",
        "targets[-1] = self.count - 1 if missing else NO_CELL",
        "targets[-1] = self.count - 2 if missing else NO_CELL",
        "tests/aggregate/test_gather_and_add.py",
    ),
    (
        "aggregate/sample.py",
        "limit * 2**64 // rows",
        "limit * 2**63 // rows",
        "tests/aggregate/test_gather_and_add.py tests/aggregate/test_beyond_memory.py",
    ),
    (
        "aggregate/streaming.py",
        'self.totals += packed["totals"]',
        "pass",
        "tests/aggregate/test_gather_and_add.py tests/aggregate/test_stream.py",
    ),
    ("cells/condition.py", "rows &= values > self.low", "rows &= values >= self.low", "tests/cells/test_condition.py"),
    (
        "cells/condition.py",
        "rows &= values <= self.high",
        "rows &= values < self.high",
        "tests/cells/test_condition.py",
    ),
    (
        "auditing/same_finding.py",
        "if opposite_directions(finding, other):",
        "if False:",
        "tests/auditing/test_same_finding.py",
    ),
    (
        "cells/partitions.py",
        "codes[np.isnan(values)] = self.cells.count - 1",
        "codes[np.isnan(values)] = 0",
        "tests/aggregate/test_beyond_memory.py",
    ),
    (
        "report/html/markup.py",
        "Safe(html.escape(clean(text), quote=True))",
        "Safe(clean(text))",
        "tests/report/test_report_markup.py",
    ),
    (
        "recalibrate/binning.py",
        "np.where(has_rows, clipped, EMPTY_BIN)",
        "np.where(has_rows, clipped, 0.9)",
        "tests/recalibrate/test_certain_scores.py",
    ),
    (
        "recalibrate/by_columns/group_wise.py",
        'if self.handle_unknown == "error":',
        'if self.handle_unknown == "never":',
        "tests/recalibrate/test_group_wise.py",
    ),
    (
        "recalibrate/base.py",
        "return normalised_matrix(probability)",
        "return normalised_matrix(probability) * 0.999",
        "tests/recalibrate/test_recalibrator_base.py tests/laws/test_recalibrator_laws.py",
    ),
    (
        "data/checks.py",
        "SUM_TOLERANCE = 1e-4",
        "SUM_TOLERANCE = 1e-1",
        "tests/data_input/test_predictions.py tests/data_input/test_malformed.py",
    ),
    (
        "recalibrate/serialization.py",
        'length in ("any", actual)',
        'length == "any" or actual >= length',
        "tests/recalibrate/test_recalibrator_json.py",
    ),
    (
        "recalibrate/choosing.py",
        "score.change < 0 and score.p_value <= CHOICE_LEVEL * share",
        "score.change < 0",
        "tests/recalibrate/test_choose.py",
    ),
    (
        "export/formula.py",
        "return self.missing",
        "return 0.0",
        "tests/unit/test_one_row.py",
    ),
    (
        "metrics/losses.py",
        "non_events * predicted**2).sum() / weight.sum())",
        "non_events * predicted**2).sum() / weight.size)",
        "tests/laws/test_score_laws.py",
    ),
    (
        "stats/null_draws.py",
        "return CellDraws(Method.CLUSTER_DRAWS, by_cluster.block)",
        "return _sign_flip_draws(sums, cluster_blocks(rows), settings, draws)",
        "tests/unit/test_field_false_alarms.py",
    ),
    (
        "stats/shrinkage.py",
        "0.4 * gaps[picked] + 0.6 * np.sign(gaps[picked])",
        "0.8 * gaps[picked] + 0.2 * np.sign(gaps[picked])",
        "tests/stats/test_ranking.py",
    ),
    (
        "auditing/periods.py",
        'PeriodVerdict.SAME: ~(made["change_p_adjusted"] <= level),',
        'PeriodVerdict.SAME: ~(made["change_p_value"] <= level),',
        "tests/auditing/test_audit_periods.py::test_calibrated_tables_rarely_claim_a_change",
    ),
    (
        "auditing/disclosure.py",
        "part < self.below for part in (inside, outside)",
        "part < self.below / 5 for part in (inside, outside)",
        "tests/auditing/test_suppression.py",
    ),
    (
        "stats/comparison.py",
        "return not abs(before[0] - after[0]) < CHANGE_Z * math.hypot(before[1], after[1])",
        "return True",
        "tests/auditing/test_explained_by.py::test_an_unchanged_quarter_passes_and_a_changed_one_fails",
    ),
    (
        "stats/binomial.py",
        "return 2.0 * float(binomial_tail(",
        "return 0.02 * float(binomial_tail(",
        "tests/auditing/test_score_tails.py",
    ),
    (
        "auditing/search/crossings.py",
        "SUSPECT_SHARE, MAX_SUSPECT_P = 1 / 3, 0.05",
        "SUSPECT_SHARE, MAX_SUSPECT_P = 0.0, 0.05",
        "tests/auditing/test_search_limits.py",
    ),
    (
        "aggregate/readers.py",
        "sorted(item for item in matches if item.is_file())",
        "sorted(item for item in matches if item.is_file())[::-1]",
        "tests/laws/test_parity.py",
    ),
    ("cli/__init__.py", "    _drop(1)\n", "    pass\n", "tests/cli/test_streams.py"),
    (
        "report/html/page.js",
        """.test(value) ? "'" + value : String(value)""",
        ".test(value) ? value : String(value)",
        "tests/browser/test_page.py::test_a_cell_is_never_a_formula",
    ),
]


PASSED = 10  # so that no crash is taken for a test that failed
# An editable install would come first with the library as it is; the copy must be what is tested, also by the commands
# that tests start.
FIRST = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if not type(finder).__name__.startswith("Mesonpy")]
"""
TESTED = """
import sys
import miscal, pytest
assert miscal.__file__.startswith(sys.argv[1]), miscal.__file__
sys.exit(10 + pytest.main(["-q", "-x", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


def built(folder: Path) -> None:
    """Compile the kernels of a copy, in place of those that were copied."""
    for name in ("meson.build", "meson.options", "scripts"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / name)
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in ("meson setup -Dthis_processor=true build", "ninja -C build"):
        subprocess.run(command.split(), cwd=folder, env={**os.environ, "PATH": tools}, check=True, capture_output=True)
    kernels = folder / "src" / "miscal" / "kernels"
    lend(folder / "build" / "src" / "miscal" / "kernels", kernels)


def lend(made: Path, kernels: Path) -> None:
    """Put compiled kernels, and no others, beside the sources of a copy."""
    for old in kernels.rglob("*.so"):
        old.unlink()
    for new in made.rglob("*.so"):
        shutil.copy2(new, kernels / new.relative_to(made))


def caught(fault: tuple[str, str, str, str]) -> bool:
    """Whether the tests fail with the fault planted."""
    file, old, new, tests = fault
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "src", folder / "src")
        (folder / "src" / "sitecustomize.py").write_text(FIRST, encoding="utf-8")
        path = folder / "src" / "miscal" / file
        text = path.read_text(encoding="utf-8")
        if text.count(old) < 1:
            raise SystemExit(f"{file} no longer says: {old}")
        path.write_text(text.replace(old, new), encoding="utf-8")
        if file.startswith("kernels/"):
            built(folder)
        else:
            lend(Path(compiled.__file__).parent, folder / "src" / "miscal" / "kernels")
        command = [sys.executable, "-c", TESTED, str(folder), *tests.split()]
        environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (PASSED, PASSED + 1):
        raise SystemExit(f"{file}: {done.stdout}{done.stderr}")
    return done.returncode != PASSED


def main() -> None:
    chosen = [int(word) for word in sys.argv[1:]] or list(range(len(FAULTS)))
    lines, missed = ["| file | planted fault | caught |", "|---|---|---|"], 0
    for number in chosen:
        file, old, new, _ = FAULTS[number]
        found = caught(FAULTS[number])
        missed += not found
        print(f"{number:2} {file}: {'caught' if found else 'NOT CAUGHT'}", flush=True)
        shown = " becomes ".join(f"`{text.strip()}`".replace("|", "\\|") for text in (old, new))
        lines.append(f"| `{file}` | {shown} | {'yes' if found else '**no**'} |")
    if len(chosen) == len(FAULTS):
        (ROOT / "studies" / "results" / "mutants.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
