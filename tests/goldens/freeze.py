"""Write the frozen answers: `python -m tests.goldens.freeze [NAME ...]`, a group or cases; all without a name.

A change of the frozen files is a commit of its own that says which answer changes and why.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # as the tests have it, before numpy is loaded

import argparse
import sys
import time
from functools import partial

from tests.aggregate import spark_session
from tests.goldens import on_spark, store
from tests.goldens.cases import GROUPS, compute, processor


def main(arguments: list[str]) -> None:
    """Compute the cases named, and write the files of their groups."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="a group, or a case")
    names = set(parser.parse_args(arguments).name)
    known = {"spark", *GROUPS, *(case for cases in GROUPS.values() for case in cases)}
    if unknown := sorted(names - known):
        parser.error(f"no group or case is named {', '.join(unknown)}")
    if not names:
        store.write_processor(processor())
    for group, cases in GROUPS.items():
        asked = {name for name in cases if not names or group in names or name in names}
        if not asked:
            continue
        begun, answers = time.process_time(), {} if asked == set(cases) else store.read(group)
        for name in asked:
            answers[name] = compute(cases[name])
        size = store.write(group, {name: answers[name] for name in cases if name in answers})
        print(f"{group}: {len(asked)} cases, {size / 1e3:.0f} kB, {time.process_time() - begun:.0f} s")
    if not names or "spark" in names:
        with spark_session.started() as session:
            size = store.write(
                "spark", {name: compute(partial(case, session)) for name, case in on_spark.CASES.items()}
            )
            print(f"spark: {len(on_spark.CASES)} cases, {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
