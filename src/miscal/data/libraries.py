"""Libraries that take long to load, each loaded when something of it is first asked for.

A file that names one here costs nothing until it is used: `import miscal` stays quick without imports inside functions.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["csv", "linalg", "optimize", "pa", "pc", "pq", "sparse", "special"]


class Later:
    """A module that is imported when an attribute of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(import_module(self._name), name)  # asked for once
        return found


if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow import csv
    from scipy import linalg, optimize, sparse, special
else:
    pa, pc, csv, pq = map(Later, ("pyarrow", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet"))
    linalg, optimize, sparse, special = (
        Later(f"scipy.{name}") for name in ("linalg", "optimize", "sparse", "special")
    )
