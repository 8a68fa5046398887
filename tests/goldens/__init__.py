"""Frozen answers: what the library gave before a redesign, which may change names and structure and no number.

`cases.py` lists the cases, `normalise.py` says what of an answer is compared, `freeze.py` writes the frozen files,
and `test_goldens.py` computes every case again and compares.
"""
