"""The inner loops: arrays in, arrays out, compiled with the wheel and free of the interpreter's lock.

Files that import from `cython` are kernels: Python that Cython compiles (`meson.build` lists them). Each is built
for any processor of its kind and once more for x86-64-v3; here the quicker one that this processor can run takes the
module's name, or the one that MISCAL_KERNELS names. Both give the same bits. The other files are the Python that calls
them.
"""

import importlib.util
import os
import sys

KERNELS = ("classes", "loess", "logistic", "order", "pairs", "simulate", "subpopulation", "sums", "variation")


def _install() -> None:
    """Put the compiled kernels where their sources would be imported from."""
    try:
        processor = importlib.import_module(f"{__name__}._processor")
    except ImportError:
        message = "the kernels of miscal are not compiled: `pip install .`, or `make setup` in a clone"
        raise ImportError(message) from None
    asked = os.environ.get("MISCAL_KERNELS")
    built = asked or ("x86_64_v3" if processor.has_x86_64_v3() else "any")
    if asked and importlib.util.find_spec(f"{__name__}.{asked}") is None:
        raise ImportError(
            f"MISCAL_KERNELS={asked} names no build of the kernels: any or x86_64_v3, or nothing"
        )
    for name in KERNELS:
        module = importlib.import_module(f"{__name__}.{built}.{name}")
        sys.modules[f"{__name__}.{name}"] = globals()[name] = module


_install()
