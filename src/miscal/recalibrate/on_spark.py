"""Apply a fitted recalibrator to a Spark DataFrame, on its executors."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from miscal.aggregate.column_roles import Chunk
from miscal.aggregate.spark import append_columns
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.out_of_core import model_from, with_columns

_model_on_executor = lru_cache(maxsize=4)(model_from)  # read once for all chunks of a worker


def recalibrated(
    frame: Any,
    model: Any,
    probability: str | Sequence[str],
    *,
    column: str = "recalibrated",
    logit: bool = False,
) -> Any:
    """A Spark DataFrame with one more column: the recalibrated probability of the event, or one for each class.

    Parameters
    ----------
    frame : Spark DataFrame
    model : Recalibrator
        A fitted recalibrator.
    probability : str or sequence of str
        Column of the probability, or columns of the classes.
    column : str
        Name of the new column, followed by the class if there are several.
    logit : bool
        Whether the columns hold log-odds.

    Returns
    -------
    Spark DataFrame
    """
    probabilities = [probability] if isinstance(probability, str) else list(probability)
    new_columns = model.output_names(column)
    compute = partial(_recalibrate_chunk, model.to_json(), probabilities, new_columns, logit)
    return append_columns(frame, new_columns, compute, columns=probabilities)


def _recalibrate_chunk(
    model_json: str, probabilities: Sequence[str], new_columns: Sequence[str], logit: bool, chunk: Chunk
) -> Any:
    model: Recalibrator = _model_on_executor(model_json)
    return with_columns(model, chunk, probabilities, new_columns, logit=logit)
