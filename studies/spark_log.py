"""Run the tests of Spark on a cluster of two executors and keep their log: studies/results/spark_test.log.

    python -m studies.spark_log [--quick]

A quick run only has pytest list the tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from studies.needs import need

ROOT = Path(__file__).resolve().parents[1]
LOG = ROOT / "studies" / "results" / "spark_test.log"
KEPT = re.compile(r"(PASSED|FAILED|ERROR|SKIPPED)|s (call|setup|teardown) |passed|failed")


def main() -> None:
    need("Java")
    quick = "--quick" in sys.argv
    command = [sys.executable, "-m", "pytest", "tests/aggregate/test_spark.py", "-v", "-n", "0", "--durations=12"]
    command += ["--collect-only"] * quick
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()[0]
    machine = f"{os.cpu_count()} processors with a load of {os.getloadavg()[0]:.0f}"
    head = f"Spark {version('pyspark')}, local-cluster[2,1,1024] (two executors), {java}, {machine}."
    lines = [head, *(line for line in done.stdout.splitlines() if KEPT.search(line))]
    text = "\n".join(lines).replace(f"{ROOT}/", "") + "\n"
    print(text)
    if quick:
        sys.exit(done.returncode)
    if done.returncode or "SKIPPED" in text:  # an earlier log of tests that ran is worth more
        sys.exit(done.stderr or done.stdout[-2000:] or "not all tests ran: nothing is recorded")
    LOG.write_text(text)


if __name__ == "__main__":
    main()
