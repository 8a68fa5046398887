"""Translate the kernels, Python that Cython can compile, to C: all in one process, which is much quicker.

python scripts/translate_kernels.py (quick | checked) SOURCES FOLDER KERNEL.py ...
"""

from __future__ import annotations

import sys
from pathlib import Path

from Cython.Compiler.Main import main as cython

PACKAGE = "miscal.kernels"
DIRECTIVES = {
    "boundscheck": False,
    "cdivision": True,
    "infer_types": True,
    "initializedcheck": False,
    "legacy_implicit_noexcept": True,  # a loop without the interpreter's lock has no exception to pass on
    "wraparound": False,
}
CHECKED = {"boundscheck": True, "initializedcheck": True}


def translate(*arguments: str) -> None:
    """Call the compiler as its command would be called."""
    sys.argv = ["cython", *arguments]
    cython(command_line=1)


def main(kind: str, sources: str, folder: str, *kernels: str) -> None:
    """Write FOLDER/KERNEL.c for each kernel, and _shared.c with what they have in common."""
    directives = DIRECTIVES | (CHECKED if kind == "checked" else {})
    settings = [part for name, value in directives.items() for part in ("-X", f"{name}={value}")]
    translate("generate-shared", str(Path(folder) / "_shared.c"))
    for kernel in map(Path, kernels):
        names = ["--module-name", f"{PACKAGE}.{kernel.stem}", f"--shared={PACKAGE}._shared"]
        output = str(Path(folder) / f"{kernel.stem}.c")
        translate("-3", *settings, "-I", sources, *names, str(kernel), "-o", output)


if __name__ == "__main__":
    main(*sys.argv[1:])
