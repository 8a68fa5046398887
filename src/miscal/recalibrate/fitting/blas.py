"""One thread for matrix products: of blocks that fit in the cache, more mostly wait for one another."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # scikit-learn needs it too

    return ThreadpoolController()


def one_thread() -> Any:
    """A context in which products of matrices take one thread: a fit of 50 columns takes a tenth of the time."""
    return _controller().limit(limits=1, user_api="blas")
