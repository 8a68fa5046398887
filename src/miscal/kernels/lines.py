"""Cache lines: eight words added at once, and memory that is fetched before it is needed.

A compiler keeps eight additions of single words apart, because it cannot know that two arrays do not overlap; and the
sums of many cells lie beyond the cache that is next to the processor, so that every row would wait for its own.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WORDS = 8
WORD = ir.IntType(64)
LINE = ir.VectorType(WORD, WORDS)
BYTES = ir.IntType(8).as_pointer()
FLAG = ir.IntType(32)
TO_WRITE, KEEP, DATA = 1, 3, 1  # what is told to the prefetch


def _address(context: Any, builder: Any, kind: Any, array: Any, row: Any, width: Any) -> Any:
    """Where row number `row` of a contiguous array begins, a row being `width` items."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [builder.mul(row, width)])


@intrinsic  # type: ignore[untyped-decorator]
def add_line(typing_context: Any, cells: Any, cell: Any, terms: Any, row: Any) -> Any:
    """Add row `row` of terms (rows, 8) uint64 to row `cell` of cells (cells, 8) uint64; returns its first word then."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        width, kinds = ir.Constant(WORD, WORDS), signature.args
        to, of = (
            builder.bitcast(
                _address(context, builder, kinds[place], arguments[place], arguments[place + 1], width),
                LINE.as_pointer(),
            )
            for place in (0, 2)
        )
        total = builder.add(builder.load(to, align=8), builder.load(of, align=8))
        builder.store(total, to, align=8)
        return builder.extract_element(total, ir.Constant(FLAG, 0))

    return types.uint64(cells, types.uint64, terms, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def fetch(typing_context: Any, array: Any, row: Any, width: Any) -> Any:
    """Have row number `row` of a contiguous array, `width` items a row, brought near; the array does not change."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments)
        kind = ir.FunctionType(ir.VoidType(), [BYTES, FLAG, FLAG, FLAG])
        call = builder.module.declare_intrinsic("llvm.prefetch", [BYTES], kind)
        builder.call(call, [builder.bitcast(address, BYTES), FLAG(TO_WRITE), FLAG(KEEP), FLAG(DATA)])
        return context.get_dummy_value()

    return types.void(array, types.uint64, types.uint64), generate
