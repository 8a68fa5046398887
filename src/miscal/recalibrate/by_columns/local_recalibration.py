"""Local recalibration (LoRe): each row's probability becomes the observed rate in its neighbourhood (paper 002)."""

from typing import Any

import numpy as np

from miscal.cells.coding import Encoding
from miscal.cells.ranges import bin_index, edges_for
from miscal.data.arrays import Array, Floats
from miscal.data.checks import number, one_of
from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.kernels.neighbours import local_sums
from miscal.metrics import neighbourhood_places as neighbourhoods
from miscal.metrics.neighbourhood_errors import bandwidth_array, check_kernel
from miscal.recalibrate.binning import check_bins
from miscal.recalibrate.by_columns.base import ColumnRecalibrator
from miscal.recalibrate.certain_scores import HALF_EVENT, clip_rates
from miscal.recalibrate.parameters import bins_or_edges, check_column_choice, chosen_columns, parameter, state
from miscal.recalibrate.probability_arrays import as_two_columns, normalise_rows, normalised_matrix
from miscal.recalibrate.training_sample import TrainingSample, weight_of_one_row


class LocalRecalibration(ColumnRecalibrator):
    r"""Replace each probability by the kernel-weighted observed rate of rows in the same bin (LoRe, Luo et al.).

    .. math:: \hat p'(x) = \frac{\sum_{i \in B(x)} w_i\,k(x, x_i)\,y_i}{\sum_{i \in B(x)} w_i\,k(x, x_i)}, \qquad
        k(x, x') = \exp\Big(-\frac{\lVert x - x'\rVert_1}{d\,\gamma}\Big)

    A bandwidth of infinity gives `HistogramBinning`, one near 0 the nearest row of the bin, and the kernel "group"
    `HistogramBinning` within each group. Two classes: of P(class 1) and whether class 1 was observed. More: of the
    confidence in the most probable class and whether it was right; the rest of the mass is spread over the other
    classes in proportion. A row whose bin (or group) has no row to learn from keeps its probability. No rate comes
    nearer to 0 or 1 than half an event among the n rows of the bin (of the bin and group), 0.5 / (n + 1). Does not keep
    the ranking. The rows to fit on are stored, in JSON too.

    Parameters
    ----------
    bandwidth : float, default=0.2
        Above 0, infinity allowed. The paper: .2 in the plane of a t-SNE (give its coordinates as X), .4 with principal
        components.
    bins : int or increasing array, default=15
        Bins of the score, or their edges; the end bins include what lies outside. The paper: 15, and 5 where there are
        few rows.
    kernel : {"laplacian", "gaussian", "group"} or callable, default="laplacian"
        A function of (a, d) and (b, d) features gives (a, b) weights.
    reduce : {None, "pca"}, default=None
        Whether features are reduced to principal components.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where sums are computed.
    columns : str, int, or list of these, optional
        Names or positions of the columns of X that distances are measured in; all by default.
    scale : {None, "standard"}, default=None
        None: numbers as they are, as in the paper.
    dimensions : int, optional
        Of the reduction; 20 by default.
    target : {"auto", "positive", "top"}, default="auto"
        "positive": two classes. "top": confidence against correctness, as in the paper.
    smooth : float, default=0.5
        Events by which rates are kept away from 0 and 1; 0 for the paper's rates.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width over [0, 1], as in the paper, or of equal support ("equal mass"; Appendix A).

    Attributes
    ----------
    edges_ : (bins + 1,) array
        Edges of the bins.
    bin_ : (n,) array of int
        The bin of each row that was fitted on.
    features_ : (n, d) array
        Of the rows that were fitted on.
    observed_ : (n,) array of int
        Whether the class was observed (the most probable class right).
    weight_ : (n,) array
        Of the rows that were fitted on.

    Examples
    --------
    >>> age, y_prob, y = [[20.0], [21.0], [60.0], [61.0]], [0.6, 0.6, 0.6, 0.6], [1, 1, 0, 1]
    >>> LocalRecalibration(bandwidth=2.0).fit(y_prob, y, age).predict_proba([0.6, 0.6], [[20.0], [60.0]])[
    ...     :, 1
    ... ].round(3)
    array([0.9  , 0.378])
    """

    bandwidth: float = 0.2
    bins: Any = parameter(bins_or_edges, default=15)
    kernel: Any = "laplacian"
    reduce: str | None = None
    device: str = "auto"
    columns: Any = parameter(check_column_choice, default=None)
    scale: str | None = parameter(one_of, ("standard",), default=None)
    dimensions: int | None = None
    target: str = parameter(one_of, ("auto", "positive", "top"), default="auto")
    smooth: float = parameter(number, 0.0, default=HALF_EVENT)
    strategy: str = parameter(one_of, ("uniform", "quantile"), default="uniform")
    moves_certain_scores = False
    nominal_: Array = state("bool", "any")
    means_: Floats = state("float", "any")
    spreads_: Floats = state("float", "any", low=1e-300)
    missing_: Array = state("bool", "any")
    features_: Floats = state("float", "any", "any")
    observed_: Array = state("int", "any", low=0, high=1)
    weight_: Floats = state("float", "any", low=0.0)
    bin_: Array = state("int", "any", low=0)
    edges_: Floats = state("float", "any")
    centre_: Floats = state("float", "any")
    components_: Floats = state("float", "any", "any")
    top_: bool = state("bool")

    def check_parameters(self) -> None:
        """Reject the first parameter whose check does."""
        bandwidth_array(self.bandwidth, one=True)
        super().check_parameters()
        check_kernel(self.kernel, self.device)
        neighbourhoods.check_reduction(self.reduce, self.dimensions)

    def check_state(self) -> None:
        """Reject parts that do not belong together."""
        super().check_state()
        rows = len(self.features_)
        if not rows == len(self.observed_) == len(self.bin_) == len(self.weight_) > 0:
            raise ValueError("the rows differ in number")
        check_bins(self.edges_, np.zeros(len(self.edges_) - 1))
        if self.bin_.max() >= len(self.edges_) - 1:
            raise ValueError("'bin_' does not belong to 'edges_'")
        width = (
            len(self.names_) if self.kernel == "group" else neighbourhoods.width_of(self._column_encodings())
        )
        if self.reduce == "pca":
            if len(self.centre_) != width or len(self.components_) != width:
                raise ValueError("'components_' does not belong to the columns")
            width = self.components_.shape[1]
        if self.features_.shape[1] != width:
            raise ValueError("'features_' does not belong to the columns")

    def _fit(self, sample: TrainingSample) -> None:
        columns = chosen_columns(sample.columns, self.columns)
        if self.kernel == "group":
            self._store_encodings([Encoding.learned(column, nominal=True) for column in columns])
        else:
            self._store_encodings(neighbourhoods.nearness(columns, sample.weight, self.scale))
        several = sample.n_classes > 2
        if several and self.target == "positive":
            got, hint = f"there are {sample.n_classes}", "compare the top label: target='top'"
            raise refusal("needs two classes", "target='positive'", got=got, hint=hint)
        self.top_ = several or self.target == "top"
        score, label = self._score_and_label(sample.probability)
        self.edges_ = edges_for(score, self.bins, self.strategy, low=0.0, high=1.0, weight=sample.weight)
        self.bin_ = bin_index(score, self.edges_).astype(np.int64)
        self.observed_ = (sample.outcome == label).astype(np.int64)
        self.weight_ = sample.weights.copy()
        self.centre_ = np.empty(0)
        self.components_ = np.empty((1, 0))
        raw = self._raw_features(sample.columns)
        if self.reduce == "pca":
            n_components = min(self.dimensions or neighbourhoods.TABULAR, raw.shape[1])
            self.centre_, self.components_, _ = neighbourhoods.components(raw, n_components, sample.weight)
        self.features_ = self._reduced(raw)

    def _score_and_label(self, probability: Floats) -> tuple[Floats, Any]:
        """The score that is binned, and the class that it is the probability of."""
        if not self.top_:
            return probability, 1
        matrix = as_two_columns(probability)
        return matrix.max(axis=1), matrix.argmax(axis=1)

    def _raw_features(self, columns: Columns) -> Floats:
        encodings = self._column_encodings(standard=self.scale == "standard", ends=neighbourhoods.ENDS)
        if self.kernel == "group":
            return np.column_stack([encoding.read(columns) for encoding in encodings]).astype(np.float64)
        return neighbourhoods.features_of(encodings, columns)

    def _reduced(self, raw: Floats) -> Floats:
        return (raw - self.centre_) @ self.components_ if self.reduce == "pca" else raw

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        """The observed rate around each row, or its score where there is no row to learn from."""
        score = self._score_and_label(probability)[0]
        weight = self.weight_
        place = bin_index(score, self.edges_)
        summed = np.column_stack([weight, weight * self.observed_])
        width = np.array([float(self.bandwidth)])
        queries = self._reduced(self._raw_features(columns)), place
        sums = local_sums(
            self.features_,
            self.bin_,
            summed,
            width,
            kernel=self.kernel,
            queries=queries,
            device=self.device,
        )
        mass, events = sums[0].T
        has_neighbours = mass > 0
        rate = events / np.where(has_neighbours, mass, 1.0)
        if self.kernel != "group":
            mass = np.bincount(self.bin_, weight, len(self.edges_))[place]
        clipped = clip_rates(rate, mass / weight_of_one_row(weight.sum(), len(weight)), self.smooth)
        changed = np.where(has_neighbours, clipped, score)
        if not self.top_:
            return changed
        # The most probable class gets the new confidence, the others the rest, in proportion.
        matrix = normalised_matrix(probability)
        top = np.arange(len(matrix)), matrix.argmax(axis=1)
        others = np.ones_like(matrix)
        others[top] = 0.0
        # Where the confidence was 1, the other classes share equally.
        out = normalise_rows(matrix * others, others) * (1.0 - changed)[:, None]
        out[top] = changed
        return out
