"""Translate the kernels, Python that Cython can compile, to C, a few at a time.

python scripts/translate_kernels.py (quick | checked) SOURCES FOLDER KERNEL.py ...
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
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


def translate_one(kernel: Path, folder: Path, options: list[str]) -> None:
    """Write FOLDER/KERNEL.c; where it would not change it keeps its date, so that it is not compiled again."""
    made, fresh = folder / f"{kernel.stem}.c", folder / f"{kernel.stem}.new.c"
    translate(*options, "--module-name", f"{PACKAGE}.{kernel.stem}", str(kernel), "-o", str(fresh))
    if not made.exists() or made.read_bytes() != fresh.read_bytes():
        fresh.replace(made)
    fresh.unlink(missing_ok=True)


def main(kind: str, sources: str, folder: str, *kernels: str) -> None:
    """Translate each kernel, and write _shared.c with what they have in common."""
    directives = DIRECTIVES | (CHECKED if kind == "checked" else {})
    settings = [part for name, value in directives.items() for part in ("-X", f"{name}={value}")]
    options = ["-3", *settings, "-I", sources, f"--shared={PACKAGE}._shared"]
    with ProcessPoolExecutor() as pool:
        made = [pool.submit(translate_one, Path(kernel), Path(folder), options) for kernel in kernels]
        translate("generate-shared", str(Path(folder) / "_shared.c"))
        for one in made:
            one.result()


if __name__ == "__main__":
    main(*sys.argv[1:])
