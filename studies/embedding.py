"""Features of the local studies in few dimensions: t-SNE, as the paper has it, and principal components."""

from __future__ import annotations

import numpy as np


def embedded(matrix: np.ndarray, dimensions: int, seed: int) -> np.ndarray:
    """Embed by t-SNE (openTSNE); all rows together, since the map knows no other rows."""
    from openTSNE import TSNE

    rows = len(matrix)
    made = TSNE(
        n_components=dimensions,
        perplexity=min(30.0, (rows - 1) / 3.0),
        negative_gradient_method="fft" if dimensions <= 2 and rows >= 2000 else "bh",
        initialization="pca" if matrix.shape[1] >= dimensions else "random",
        random_state=seed,
        n_jobs=1,
    ).fit(matrix)
    return np.ascontiguousarray(np.asarray(made, dtype=np.float64))


def principal(matrix: np.ndarray, dimensions: int) -> np.ndarray:
    """Scores on the leading principal components."""
    from miscal.metrics.neighbourhood_places import components

    centre, directions, _ = components(matrix, dimensions, None)
    return np.asarray((matrix - centre) @ directions)
