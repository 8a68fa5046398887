"""Specs: what to measure, as frozen values, so that a list of them can be kept, compared and run; and of every class.

All classes, each against the rest, are one table whose noise comes from the same draws.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, make_dataclass, replace
from inspect import signature
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from miscal.aggregate.in_memory import kuiper_statistic, mean_tally
from miscal.codes.inference import Method, MethodNote, Null
from miscal.data.arrays import Array, Plain
from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.data.sources import one_prediction
from miscal.data.target import TargetData, outcome_data, require_events, select_target
from miscal.kernels.classes import class_residuals, draw_classes
from miscal.kernels.threads import over_blocks
from miscal.metrics.field import by_field
from miscal.metrics.inputs import aggregate, also_of_tables
from miscal.metrics.neighbourhood import by_neighbourhood
from miscal.metrics.score import by_score
from miscal.metrics.score_errors import score_bins
from miscal.metrics.subpopulation import by_subpopulation
from miscal.metrics.variable import by_variable
from miscal.metrics.variation import by_variation
from miscal.results import Result, Table
from miscal.stats.cell_sums import EFFECTIVE_EVENTS, seed_of
from miscal.stats.metric_null import DRAWS, drawn_p, summary_of_draws
from miscal.stats.multiplicity import step_down
from miscal.stats.null_draws import ROW_DRAWS
from miscal.stats.null_model import NullModel, choose_null
from miscal.stats.rank_draws import residual_weight, sign_groups
from miscal.words import sentence


@dataclass(frozen=True)
class Spec:
    """Base of all specs; `by` is the function that measures it, whose parameters are the spec's fields."""

    by: ClassVar[Callable[..., Result]]

    def run(self, predictions: Predictions) -> Result:
        """Measure."""
        return type(self).by(predictions, **vars(self))


def _spec(by: Callable[..., Result], title: str) -> Any:
    """The spec of a `by_` function: a frozen record of its parameters, with the same defaults."""
    _, *parameters = signature(by).parameters.items()  # the first are the predictions
    fields = [
        (name, Any, field(default=MISSING if parameter.default is parameter.empty else parameter.default))
        for name, parameter in parameters
    ]
    space = {"by": staticmethod(by), "__doc__": f"{title}: see `{by.__name__}`.", "__module__": __name__}
    word = by.__name__.removeprefix("by_").capitalize()
    return make_dataclass(word, fields, bases=(Spec,), namespace=space, frozen=True)


Score = _spec(by_score, "Calibration by score")
Variable = _spec(by_variable, "Calibration along a variable")
Field = _spec(by_field, "Calibration by the levels of a field")
Subpopulation = _spec(by_subpopulation, "Multi-calibration over subpopulations")
Neighbourhood = _spec(by_neighbourhood, "Local calibration")
Variation = _spec(by_variation, "Calibration of the predictions' variation")


def measure(p: Any, *specs: Spec, **read_options: Any) -> list[Result]:
    """Measure several things of one set of predictions.

    Parameters
    ----------
    p : Predictions, or a frame or a path
        A path is a file, a folder or a pattern; a frame is of any library, lazy or of Spark.
    *specs : Spec
        ``Score(...)``, ``Variable("age")``, ``Field("state")``, ...
    **read_options
        For a table, what `miscal.read` takes (outcome=, probability=, ...), and memory="1GB", a limit. Of a table
        that does not fit, as large a sample as possible is taken: edges are chosen on it, and score, variables and
        fields are measured on all rows. What needs the rows themselves is that of the sample, and its method says so.

    Examples
    --------
    >>> import numpy as np, miscal
    >>> p = miscal.Predictions([0, 1, 1, 0], [0.2, 0.7, 0.6, 0.4], columns={"sex": ["f", "m", "f", "m"]})
    >>> [result.kind for result in miscal.measure(p, miscal.Score(bins=2), miscal.Field("sex"))]
    ['score', 'field']
    """
    for spec in specs:
        if not isinstance(spec, Spec):
            raise refusal(
                "must be specs such as Score() or Field('state')", "what to measure", got=repr(spec)
            )
    if isinstance(p, Predictions):
        return [spec.run(p) for spec in specs]
    table = _opened(p, "measure", **read_options)
    return [_measured(spec.run, *table) for spec in specs]


def of_table(by: Callable[..., Result], data: Any, arguments: Sequence[Any], options: Plain) -> Result:
    """What a `by_` function says of a table; options that are not its own say how to read it."""
    own_options = {name: options.pop(name) for name in signature(by).parameters if name in options}
    return _measured(
        lambda predictions: by(predictions, *arguments, **own_options), *_opened(data, by.__name__, **options)
    )


def _opened(
    data: Any, where: str, *, memory: Any = None, columns: Any = None, prediction: Any = None, **options: Any
) -> tuple[Any, Any, Any]:
    """A table, which columns mean what, and its rows: all of them, or a sample."""
    from miscal.aggregate.column_roles import ColumnRoles
    from miscal.aggregate.sample import default_memory_limit, gather, rows_that_fit
    from miscal.aggregate.source import open_source

    named = {"outcome": options.get("outcome"), "probability": options.get("probability", prediction)}
    missing = [name for name, column in named.items() if column is None]
    if missing:
        hint = "name the columns, outcome='y', probability='p', or give miscal.Predictions(y_true, y_prob, columns=...)"
        got = f"data is {type(data).__name__}, not Predictions"
        raise refusal(f"needs {' and '.join(missing)}", where, got=got, hint=hint)
    probability = one_prediction(options.get("probability"), prediction, options.get("response", "binary"))
    roles = ColumnRoles.from_options(where, options | {"probability": probability})
    source = open_source(data, memory)
    in_memory = memory is None and source.rows is not None and not isinstance(data, (str, PathLike))
    limit = (
        None
        if in_memory
        else rows_that_fit(memory or default_memory_limit(), source.kinds, source.text_bytes)
    )
    return source, roles, gather(source, roles, columns, limit=limit)


def _measured(run: Callable[[Predictions], Result], source: Any, roles: Any, rows: Any) -> Result:
    result = run(rows.predictions)
    if rows.complete:
        return result
    from miscal.metrics.from_sums import of_all_rows

    whole_result = of_all_rows(result, rows.predictions, source, rows.roles or roles)
    if whole_result is not None:
        return whole_result
    sample, table_rows = rows.predictions.rows, rows.rows
    words = f" {sentence(MethodNote.SAMPLE, sample=sample, rows=table_rows)}"
    sizes = {"sample_rows": sample, "table_rows": table_rows}
    return replace(result, method=result.method + words, settings={**result.settings, **sizes})


FEWEST_DRAWS = 99
DRAWS_A_BLOCK = 64


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ClassResult(Result):
    """Calibration of every class against the rest: its table has one row per class."""

    kind: str = "class"


@also_of_tables
def by_class(p: Predictions, spec: Any = None) -> ClassResult:
    """Calibration of every class against the rest, each with its noise, and their mean.

    A class's error is what `by_score` gives with `target` the class. The noise of all classes comes from
    the same draws of the outcomes, one class a row (with clusters, or weights that depend on the outcome, from the same
    random signs). So `p_adjusted` is read off the largest of all classes' studentised errors in each draw, step by
    step, and stays valid and sharp with a thousand classes, where Holm's rule could not reach .05 with 999 draws.
    With random signs a class of fewer than 25 expected outcomes is too small to judge: its p-values are NaN.

    Parameters
    ----------
    p : Predictions, or a frame or a path
        A frame or a path needs outcome=, probability= and what else `miscal.read` takes.
    spec : Score, default=None
        How rows are pooled, by the class's own probability; its `target` is passed over.

    Returns
    -------
    ClassResult
        `value` is the mean of the classes' errors, the class-wise calibration error. The table has a row a class:
        outcomes of that class, mean prediction and rate, gap, error, noise floor, p-values, the worst bin and its gap,
        and Kuiper's error.

    Examples
    --------
    >>> import miscal
    >>> data = miscal.datasets.calibrated_classes(3000)
    >>> result = miscal.by_class(miscal.Predictions(data.y_true, data.y_prob), miscal.Score(bins=10))
    >>> result.table["class"].tolist(), result.p_value > 0.05
    (['0', '1', '2'], True)
    """
    spec = Score() if spec is None else spec
    if not isinstance(spec, Score):
        hint = "for one class at a time there is target=, such as by_variable(p, 'age', target=2)"
        raise refusal("must be Score(...)", "'spec'", got=repr(spec), hint=hint)
    pools = _pools(require_events(p, "by_class"), spec)
    noise = choose_null(outcome_data(p), spec.null, p.probability)
    errors = pools.errors(pools.residual_sums)
    drawn = pools.drawn_errors(noise)
    summary = summary_of_draws(float(errors.mean()), drawn.mean(axis=1), method=Method.SIMULATION)
    note = MethodNote.CLASS_DRAWS if noise.null == Null.BERNOULLI else MethodNote.CLASS_SIGNS
    return ClassResult(
        name="Calibration of each class, by score",
        **summary.numbers(),
        method=f"{sentence(noise.reason)} {sentence(note, draws=summary.draws)}",
        table=_table(pools, errors, drawn, noise),
        settings={
            "spec": repr(spec),
            "norm": spec.norm,
            "target": "each class",
            "null": str(noise.null),
            "random_state": spec.random_state,
            "draws": summary.draws,
            "rows": p.rows,
        },
    )


@dataclass(frozen=True, eq=False)
class ClassPools:
    """The cells of every class, by a spec.

    Attributes
    ----------
    predictions : Predictions
    spec : Score
    cells : list of Ranges
        The bins of each class.
    codes : array of shape (rows, classes)
        The bin of each row, of each class.
    weight, predicted, observed, residual_sums : array of shape (classes, cells)
        Σw, Σw·p, Σw·y and Σw·(p - y); cells that a class does not have get weight 0.
    """

    predictions: Predictions
    spec: Any
    cells: list[Any]
    codes: Array
    weight: Array
    predicted: Array
    observed: Array
    residual_sums: Array

    def errors(self, residual_sums: Array) -> Array:
        """A norm of the gaps of each class, over the last axis of (..., K, cells)."""
        gaps = residual_sums / np.where(self.weight > 0, self.weight, 1.0)
        return aggregate(gaps, self.weight, self.spec.norm)

    def drawn_errors(self, noise: NullModel) -> Array:
        """Errors of all classes in draws under the null, (draws, K)."""
        matrix, weights = self.predictions.probability, outcome_data(self.predictions)
        if matrix.ndim == 1:
            matrix = np.stack([1.0 - matrix, matrix], axis=1)
        draws = int(min(DRAWS, max(FEWEST_DRAWS, ROW_DRAWS // weights.rows)))
        seed = seed_of(self.spec.random_state)
        if noise.null == Null.RESIDUAL:
            return self._flipped_errors(matrix, weights, draws)

        def drawn_block(start: int, stop: int) -> Array:
            out = np.zeros((stop - start, *self.weight.shape))
            draw_classes(matrix, weights.kernel_weight, self.codes, start, seed, out)
            return self.errors(self.predicted - out)

        return np.concatenate(over_blocks(draws, drawn_block, DRAWS_A_BLOCK))

    def _flipped_errors(self, matrix: Array, weights: TargetData, draws: int) -> Array:
        """Errors of residuals with random signs, one a cluster and the same for all classes."""
        shape = self.weight.shape
        group = sign_groups(weights.rows, weights.cluster, self.weight.size)
        residual = np.zeros((int(group.max()) + 1, *shape))
        outcome, weight = weights.observed, residual_weight(weights)
        class_residuals(matrix, outcome, weight, self.codes, group, residual)
        flat = residual.reshape(len(residual), -1)
        random = np.random.default_rng(self.spec.random_state)
        signs = random.integers(0, 2, size=(draws, len(flat))) * 2.0 - 1.0
        blocks = np.split(signs, range(DRAWS_A_BLOCK, draws, DRAWS_A_BLOCK))
        return np.concatenate([self.errors((block @ flat).reshape(-1, *shape)) for block in blocks])


def _pools(p: Predictions, spec: Any) -> ClassPools:
    """In bins of each class's own probability."""
    codes, pools, tallies = np.empty((p.rows, p.n_classes), np.int32), [], []
    for k in range(p.n_classes):
        compared = select_target(p, k)
        pools.append(score_bins(compared, spec.bins, spec.strategy))
        codes[:, k] = pools[k].codes()
        tallies.append(mean_tally(compared, pools[k]))
    sums = np.zeros((4, p.n_classes, max(tally.cells.count for tally in pools)))
    for k, tally in enumerate(tallies):
        sums[:, k, : tally.cells.count] = tally.weight, tally.predicted, tally.observed, tally.events_off
    return ClassPools(p, spec, [tally.cells for tally in pools], codes, *sums)


def _table(pools: ClassPools, errors: Array, drawn: Array, noise: NullModel) -> Table:
    p, classes = pools.predictions, np.arange(len(errors))
    weight, outcomes = pools.weight.sum(axis=1), pools.observed.sum(axis=1)
    predicted, observed = pools.predicted.sum(axis=1) / weight, outcomes / weight
    judged = classes >= 0
    if (
        noise.null == Null.RESIDUAL
    ):  # random signs say nothing of a class with fewer than 25 expected outcomes
        size = p.rows if p.weight is None else p.weight.sum() ** 2 / (p.weight**2).sum()
        judged = np.minimum(predicted, 1.0 - predicted) * size >= EFFECTIVE_EVENTS
    worst = np.abs(pools.residual_sums).argmax(axis=1)
    p_value = np.where(judged, drawn_p(drawn, errors), np.nan)
    adjusted = np.full(len(errors), np.nan)
    adjusted[judged] = step_down(errors[judged], drawn[:, judged])
    worst_off, worst_weight = pools.residual_sums[classes, worst], pools.weight[classes, worst]
    columns = {
        "class": [str(name) for name in p.classes],
        "outcomes": outcomes,
        "predicted": predicted,
        "observed": observed,
        "gap": predicted - observed,
        "error": errors,
        "noise_floor": drawn.mean(axis=0),
        "p_value": p_value,
        "p_adjusted": adjusted,
        "worst": [cells.labels()[place] for cells, place in zip(pools.cells, worst, strict=True)],
        "worst_gap": worst_off / np.maximum(worst_weight, math.ulp(0.0)),
        "kuiper": [kuiper_statistic(select_target(p, k)) for k in range(p.n_classes)],
    }
    return Table(columns)
