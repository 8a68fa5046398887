"""Whatever is passed, there is an answer or a refusal: no other exception, no warning of numpy."""

from __future__ import annotations

from itertools import combinations, product

from tests.data_input.fuzz_cases import AUDIT, FACTORS, cases, counted, pairs

CASES = cases(600)  # the first 224 hold every pair


def test_six_hundred_calls_end_in_an_answer_or_a_refusal() -> None:
    ends, bad = counted(CASES)
    assert bad == []
    assert ends["answered"] > 90
    assert ends["refused"] > 90


def test_the_calls_try_every_pair() -> None:
    tried = set().union(*map(pairs, CASES))
    wanted = [
        ((one, a), (two, b)) for one, two in combinations(FACTORS, 2) for a, b in product(FACTORS[one], FACTORS[two])
    ]
    assert set(wanted) <= tried


def test_audits_and_their_pages_end_so_too() -> None:
    _, bad = counted([{**case, "function": AUDIT} for case in CASES[:20]])
    assert bad == []


def test_a_variable_of_one_value_and_trials_beyond_an_integer() -> None:
    """Both wrote beyond the end of an array: by the checked build of the kernels, and by a lost process."""
    alone = {"function": "by_variable", "score": "uniform", "outcome": "0/1", "weight": "none", "column": "same"}
    heavy = {"function": "by_field", "score": "subnormal", "outcome": "rare", "weight": "apart", "column": "dates"}
    made = [{**case, "rows": rows, "seed": 0, "container": "dict"} for case in (alone, heavy) for rows in (1, 2, 3)]
    assert counted(made)[1] == []
