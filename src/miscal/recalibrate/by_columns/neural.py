"""Neural Calibration: a monotone map of the score and a network of everything else, trained together (paper 003)."""

import base64
import copy
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.data.arrays import Array, Floats, Integers, logit
from miscal.data.checks import number, one_of, whole
from miscal.data.columns import Columns
from miscal.data.errors import MissingExtra, refusal
from miscal.export import formula as nodes
from miscal.kernels.threads import over_blocks
from miscal.recalibrate.by_columns.base import ColumnRecalibrator
from miscal.recalibrate.by_columns.network_inputs import (
    MAX_STANDARDISED,
    MISSING_CODE,
    UNSEEN_CODE,
    NetworkInputs,
    score_knots,
)
from miscal.recalibrate.logistic_fit import LOGIT_CLIP, locate_between_knots
from miscal.recalibrate.parameters import (
    check_column_choice,
    check_that,
    chosen_columns,
    label_array,
    parameter,
    state,
)
from miscal.recalibrate.softmax_fit import clipped_log, softmax
from miscal.recalibrate.training_sample import TrainingSample

PREDICTION_BLOCK_ROWS = 1 << 14  # rows predicted at a time
MIN_ROWS_TO_HOLD_OUT = 200  # rows below which none are held out


def _are_widths(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and all(width in range(1, 1 + (1 << 16)) for width in given)


class NeuralCalibration(ColumnRecalibrator):
    """Add a network of all columns to a monotone map of the score (Neural Calibration; Pan and others 2019).

    ``q = sigmoid(eta(l) + g(x))``: eta is a non-decreasing line plot of the log-odds l (softplus increments between
    `knots` that are even on the probability scale, end slopes continued), g a network that embeds categories and scales
    numbers. Both are trained together by Adam on the log loss. Training starts from the identity and, with several
    epochs, a tenth of the rows is held out: the best epoch is kept, which is the identity if nothing helps. Give rows
    in the order of time and ``hold_out="last"`` where later rows differ from earlier ones; rows held out at random then
    look too much like those trained on. Several classes: ``softmax(eta_k(ln p_k) + g_k(x))``.

    Levels not seen in fit share one embedding, the mean of the others; missing values of a category are a level, of
    a number a flag. Deterministic for a given `random_state` on one device. Does not keep the ranking: it is meant to
    improve it.

    Parameters
    ----------
    embedding : int, default=16
        Length of the vector of a category. The paper: 256.
    hidden : sequence of int, default=(200, 200)
        Widths of the layers.
    epochs : int, default=20
        Most passes over the rows; with 1, as in the paper, nothing is held out.
    learning_rate : float, default=1e-3
        Step of Adam.
    batch : int, default=1024
        Rows in a mini-batch.
    patience : int, default=3
        Epochs without a better held-out loss after which training ends.
    module : torch.nn.Module, optional
        A network in the place of g, see Notes. It is copied, not changed. Such a recalibrator cannot be written as
        JSON.
    device : str, default="auto"
        "cpu", "cuda" or another device of torch; "auto" is a GPU where there is one.
    random_state : int, default=0
        Seed of the first weights, of the order of the rows and of the rows held out.
    columns : str, int, or list of these, optional
        Names or positions of columns of X; all by default.
    nominal : str, int, or list of these, optional
        Numeric columns to embed, such as postal codes. Text, categories and truth values always are.
    hold_out : {"random", "last"}, default="random"
        Which tenth of the rows is held out.
    progress : {"auto", True, False}, default="auto"
        Whether a progress bar is shown; "auto": where there is a terminal.
    knots : int, default=100
        Number of knots K of the line plot of the score, at probabilities k/(K + 1). The paper: 100.

    Attributes
    ----------
    losses_ : (epochs,) array
        Mean log loss of each epoch on the rows trained on.
    held_losses_ : (epochs + 1,) array
        The same on the rows held out, before training first; empty where none were.

    Notes
    -----
    `module` is called with ``module(numbers)``, or with ``module(numbers, codes)`` where there are categorical columns,
    and returns g(x) as (n,), (n, 1) or, of K > 2 classes, (n, K).

    - ``numbers``, float32 (n, 2d): the values of the d numeric columns in the order of X, less their mean and divided
      by their standard deviation, held within 10, 0 where missing; then d flags, 1 where the value is missing.
    - ``codes``, int32 (n, c): one column for each categorical column; 0 stands for a category that fit did not see, 1
      for a missing value, 2, 3, ... for the categories in sorted order. A table of embeddings has two rows more than
      the column has categories.

    Images and sequences of one length are given as an (n, d) array, one row flattened after the other; the module gives
    ``numbers[:, :d]`` its shape back. Of text, and of sequences whose lengths differ, give what the model makes of them
    (its last hidden layer, say): each column of X holds one value a row.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state, y_prob = rng.choice(["CA", "NY"], 4000), rng.uniform(0.2, 0.6, 4000)
    >>> y = rng.random(4000) < np.where(state == "NY", y_prob + 0.3, y_prob)
    >>> fitted = NeuralCalibration(hidden=(8,), epochs=10, learning_rate=0.01).fit(
    ...     y_prob, y, {"state": state}
    ... )
    >>> bool(fitted.predict_proba([0.4], {"state": ["NY"]})[0, 1] > 0.6)
    True

    Another network: here a shift for each category and a slope of each number.

    >>> from torch import nn
    >>> class Shifts(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.shift = nn.Embedding(4, 1)  # unseen, missing, CA, NY
    ...         self.slope = nn.Linear(2, 1)  # age, and whether age is missing
    ...
    ...     def forward(self, numbers, codes):
    ...         return self.slope(numbers) + self.shift(codes[:, 0])
    >>> X = {"state": state, "age": rng.normal(40, 10, 4000)}
    >>> shifted = NeuralCalibration(module=Shifts(), epochs=20, learning_rate=0.05).fit(y_prob, y, X)
    >>> bool(shifted.predict_proba([0.4], {"state": ["NY"], "age": [40]})[0, 1] > 0.6)
    True
    """

    # ------------------------------------------------------------------------------------------------------- fit
    embedding: int = parameter(whole, 1, 4096, default=16)
    hidden: Any = parameter(
        check_that, _are_widths, "must be a sequence of widths from 1 to 65536", default=(200, 200)
    )
    epochs: int = parameter(whole, 1, 100_000, default=20)
    learning_rate: float = parameter(number, 0.0, 10.0, above=True, default=1e-3)
    batch: int = parameter(whole, 1, 1 << 30, default=1024)
    patience: int = parameter(whole, 1, 100_000, default=3)
    module: Any = parameter(check_that, callable, "must be a torch.nn.Module", default=None)
    device: str = "auto"
    random_state: int = parameter(whole, 0, 2**32 - 1, default=0)
    columns: Any = parameter(check_column_choice, default=None)
    nominal: Any = parameter(check_column_choice, default=None)
    hold_out: str = parameter(one_of, ("random", "last"), default="random")
    progress: Any = parameter(
        check_that, ("auto", True, False).__contains__, "must be 'auto', True or False", default="auto"
    )
    knots: int = parameter(whole, 2, 100_000, default=100)
    nominal_: Array = state("bool", "any")
    means_: Floats = state("float", "any")
    spreads_: Floats = state("float", "any", low=1e-300)
    weights_: Array = state("labels")  # each tensor's float32 as base64
    losses_: Floats = state("float", "any")
    held_losses_: Floats = state("float", "any")

    def _fit(self, sample: TrainingSample) -> None:
        network, columns = _network_module(), sample.columns
        nominal = [] if self.nominal is None else chosen_columns(columns, self.nominal)
        inputs = NetworkInputs.learned(chosen_columns(columns, self.columns), nominal)
        self._store_encodings(inputs.encodings)
        outputs = 1 if sample.n_classes == 2 else sample.n_classes
        rows = self._rows(inputs, sample)
        with network.torch.random.fork_rng():  # the user's own stream of random numbers stays as it was
            network.torch.manual_seed(self.random_state)
            g = copy.deepcopy(self.module)
            if g is None:
                g = network.FieldNetwork(inputs.sizes, int(self.embedding), self._layers(inputs, outputs))
            model = network.CalibrationNetwork(g, self._knots(binary=outputs == 1), outputs)
            with network.limited_threads(model, self.batch):
                losses, held_out_losses = network.train_network(
                    model, rows, self._held_out_rows(sample.rows), self
                )
        self.losses_, self.held_losses_ = np.array(losses), np.array(held_out_losses)
        self._store_weights(model.cpu(), rows)

    def _layers(self, inputs: NetworkInputs, outputs: int) -> list[tuple[int, int]]:
        """How many numbers go into each layer, and how many come out."""
        first = int(self.embedding) * len(inputs.sizes) + inputs.width
        return [*pairwise([first, *map(int, self.hidden), outputs])]

    def _held_out_rows(self, rows: int) -> Array:
        """Positions of the rows that are held out."""
        share = 0 if self.epochs == 1 or rows < MIN_ROWS_TO_HOLD_OUT else rows // 10
        if self.hold_out == "last":
            return np.arange(rows - share, rows)
        return np.sort(np.random.default_rng(int(self.random_state) + 1).permutation(rows)[:share])

    def _rows(self, inputs: NetworkInputs, sample: TrainingSample) -> Any:
        codes, numbers = inputs.read(sample.columns, sample.rows)
        place, part = self.places(sample.probability)
        labels = sample.outcome.astype(np.int64)
        weight = sample.weights / sample.weights.mean()
        single = part.astype(np.float32), labels, weight.astype(np.float32)
        return _network_module().NetworkRows(codes, numbers, place, *single)

    def _knots(self, *, binary: bool) -> Floats:
        return score_knots(self.knots, binary=binary)

    def places(self, probability: Floats) -> tuple[Integers, Floats]:
        """Where the scores lie between the knots: the knot below and the part of the step, one column per map."""
        score = logit(probability, LOGIT_CLIP)[:, None] if probability.ndim == 1 else clipped_log(probability)
        return locate_between_knots(self._knots(binary=probability.ndim == 1), score)

    def _store_weights(self, model: Any, rows: Any) -> None:
        """Keep what was learned as plain arrays; embeddings of unseen levels and missing values get a mean."""
        if self.module is not None:
            self._model = model.eval()  # predicting then changes nothing in it
            return
        for j, table in enumerate(model.network.tables):
            count = np.bincount(rows.codes[:, j], minlength=table.num_embeddings)
            weight = table.weight.detach().numpy()
            weight[count == 0] = count @ weight / count.sum()
        # The line's first value and increments, the tables, then weight and bias of each layer.
        arrays = [np.ascontiguousarray(tensor.numpy(), dtype="<f4") for tensor in model.state_dict().values()]
        if not all(np.isfinite(array).all() for array in arrays):
            raise refusal("did not converge", "NeuralCalibration", hint="lower learning_rate")
        self.weights_ = label_array([base64.b64encode(array.tobytes()).decode() for array in arrays])

    # --------------------------------------------------------------------------------------------------- predict
    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        inputs = NetworkInputs(self._column_encodings())
        if self.module is not None:
            nothing = np.zeros(len(probability))
            rows = self._rows(inputs, TrainingSample(probability, nothing, None, columns, self.n_classes_))
            return softmax(_network_module().predict_outputs(self._model, rows))[0]
        values, tables, layers = self.parts()
        codes, numbers = inputs.read(columns, len(probability))
        out = np.empty((len(probability), self.n_classes_))
        maps = np.arange(len(values))

        def work(start: int, stop: int) -> None:
            embedded = [table[codes[start:stop, j]] for j, table in enumerate(tables)]
            x = np.concatenate([*embedded, numbers[start:stop]], axis=1)
            place, part = self.places(probability[start:stop])
            below, above = values[maps, place], values[maps, place + 1]
            line = below + part * (above - below)
            logits = line + nodes.through(layers, x)
            out[start:stop] = softmax(np.insert(logits, 0, 0.0, axis=1) if len(maps) == 1 else logits)[0]

        over_blocks(len(probability), work, PREDICTION_BLOCK_ROWS)
        return out

    def parts(self) -> tuple[Floats, list[Array], list[Floats]]:
        """Values of the line at its knots (maps, knots), tables of embeddings, and layers."""
        count = self.nominal_.sum()
        first, raw, *rest = self._tensors()
        # In double precision, so that a row's prediction does not depend on the rows beside it beyond 1e-14.
        layers = [tensor.astype(np.float64) for tensor in rest[count:]]
        steps = np.logaddexp(0.0, raw)
        values = first[:, None] + np.insert(np.cumsum(steps, axis=1), 0, 0.0, axis=1)
        return values, rest[:count], layers

    def _formula(self) -> nodes.Formula:
        if self.module is not None:
            return super()._formula()
        values, tables, layers = self.parts()
        inputs = NetworkInputs(self._column_encodings())
        words = [
            nodes.level_of(each, dict(enumerate(range(MISSING_CODE, len(each.levels) + 1))), UNSEEN_CODE)
            for each in inputs.embedded
        ]
        numbers = [nodes.scaled(each, np.nan, MAX_STANDARDISED) for each in inputs.numeric]
        line = nodes.line(nodes.logit(), self._knots(binary=True), values[0], continued=True)
        network = nodes.Network(tuple(zip(words, tables, strict=True)), tuple(numbers), tuple(layers))
        return nodes.Sigmoid(nodes.Linear(((1.0, line), (1.0, network))))

    def _tensors(self) -> list[Array]:
        """The fitted weights, each tensor in its shape."""
        inputs = NetworkInputs(self._column_encodings())
        maps = 1 if self.n_classes_ == 2 else self.n_classes_
        shapes: list[tuple[int, ...]] = [(maps,), (maps, self.knots - 1)]
        shapes += [(size, self.embedding) for size in inputs.sizes]
        for before, after in self._layers(inputs, maps):
            shapes += [(after, before), (after,)]
        raw = [base64.b64decode(text, validate=True) for text in self.weights_]
        return [np.frombuffer(each, "<f4").reshape(shape) for each, shape in zip(raw, shapes, strict=True)]

    def check_state(self) -> None:
        """Reject tables and layers that do not fit together."""
        super().check_state()
        if not all((np.abs(tensor) < 1e15).all() for tensor in self._tensors()):
            raise ValueError("'weights_' must be finite")


def _network_module() -> Any:
    """The module that needs torch."""
    try:
        from miscal.recalibrate.by_columns import neural_network
    except ImportError as error:
        raise MissingExtra("NeuralCalibration", "torch", "neural") from error
    return neural_network
