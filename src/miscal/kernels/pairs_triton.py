"""The accelerator's kernel: a block of queries against the sources of their cells, two columns at a time.

Used only where triton is. Distances and weights are float32, sums float64.
"""

from __future__ import annotations

from typing import Any

try:
    import triton
    from triton import language as tl
except ImportError:  # so that the module can be looked at without it; nothing here is called then
    triton = tl = None

if triton is not None:
    FAR32 = tl.constexpr(3.0e38)

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def pair_sums(  # type: ignore[no-untyped-def]  # triton reads annotations itself
        queries,
        sources,
        values,
        lows,
        highs,
        places,
        scales,
        out,
        reference,
        n_queries,
        n_sources,
        DIMENSIONS: tl.constexpr,
        COLUMNS: tl.constexpr,
        SQUARE: tl.constexpr,
        RELATIVE: tl.constexpr,
        ROWS: tl.constexpr,
        WIDTH: tl.constexpr,
    ):
        """Sums of columns 2p and 2p + 1 for one bandwidth, relative to the nearest source where RELATIVE.

        queries (d, q), sources (d, n), values (COLUMNS, n), scales (b,) times -log2(e), out (b, COLUMNS, q) and
        reference (q,).
        Program (block of queries, pair of columns, bandwidth).
        """
        i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        column = tl.program_id(1) * 2
        band = tl.program_id(2)
        asked = i < n_queries
        low = tl.load(lows + i, mask=asked, other=n_sources)
        high = tl.load(highs + i, mask=asked, other=0)
        place = tl.load(places + i, mask=asked, other=-1)
        scale = tl.load(scales + band)
        first = tl.zeros((ROWS,), tl.float64)
        second = tl.zeros((ROWS,), tl.float64)
        nearest = tl.full((ROWS,), FAR32, tl.float32)
        for start in range(tl.min(low, 0), tl.max(high, 0), WIDTH):
            j = start + tl.arange(0, WIDTH)
            there = j < n_sources
            far = tl.zeros((ROWS, WIDTH), tl.float32)
            for k in range(DIMENSIONS):
                a = tl.load(queries + k * n_queries + i, mask=asked, other=0.0)
                b = tl.load(sources + k * n_sources + j, mask=there, other=0.0)
                off = a[:, None] - b[None, :]
                far += off * off if SQUARE else tl.abs(off)
            counts = (j[None, :] >= low[:, None]) & (j[None, :] < high[:, None]) & (j[None, :] != place[:, None])
            if RELATIVE:
                closest = tl.minimum(nearest, tl.min(tl.where(counts, far, FAR32), 1))
                # Sums so far were relative to a source farther away: nothing was summed while there was none.
                shrink = tl.where(nearest < FAR32, tl.exp2((nearest - closest) * scale), 0.0)
                first, second = first * shrink.to(tl.float64), second * shrink.to(tl.float64)
                nearest = closest
                weight = tl.where(counts, tl.exp2((far - nearest[:, None]) * scale), 0.0)
            else:
                weight = tl.where(counts, tl.exp2(far * scale), 0.0)
            value = tl.load(values + column * n_sources + j, mask=there, other=0.0)
            first += tl.sum(weight * value[None, :], 1).to(tl.float64)
            if COLUMNS > 1:
                value = tl.load(values + (column + 1) * n_sources + j, mask=there, other=0.0)
                second += tl.sum(weight * value[None, :], 1).to(tl.float64)
        at = out + (band * COLUMNS + column) * n_queries + i
        tl.store(at, first, mask=asked)
        if COLUMNS > 1:
            tl.store(at + n_queries, second, mask=asked)
        if RELATIVE:
            tl.store(reference + i, nearest, mask=asked)


def launch(arrays: tuple[Any, ...], sizes: tuple[int, int, int, int, int], *, square: bool, relative: bool) -> None:
    """Run the kernel; sizes are queries, sources, dimensions, columns (even, or 1) and bandwidths."""
    queries, sources, dimensions, columns, bands = sizes
    rows, width, warps = BLOCKS
    grid = (triton.cdiv(queries, rows), (columns + 1) // 2, bands)
    pair_sums[grid](
        *arrays,
        queries,
        sources,
        DIMENSIONS=dimensions,
        COLUMNS=columns,
        SQUARE=square,
        RELATIVE=relative,
        ROWS=rows,
        WIDTH=width,
        num_warps=warps,
    )


BLOCKS = (32, 128, 4)  # queries and sources of a tile, and warps: quickest on an H200 at 50 dimensions
