"""What an audit was asked for, checked once and never changed.

The rule: `audit` puts all of its parameters into one `AuditOptions`; every step reads them from there. What a step
finds out by itself (which columns are outcome and probability, where nobody names them) it returns as a new value.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from miscal.data.arrays import Plain

MAX_LEVELS = 1_000_000  # of a categorical column, by default

Progress = Callable[[str, int, int], None]


class ProgressReporter:
    """Passes on what is being tested, how many steps are done, and how many there are.

    Parameters
    ----------
    progress : callable, optional
        What `audit` was given; without one nothing is reported.
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress
        self.n_steps, self.n_done = 1, 0

    def __call__(self, step: str) -> None:
        if self.progress is not None:
            n_done = min(self.n_done, self.n_steps) if step else self.n_steps
            self.progress(step, n_done, self.n_steps)
        self.n_done += 1


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """The parameters of `miscal.audit`, beside the data.

    Attributes
    ----------
    outcome, weight, count, cluster, exposure : str or None
        Columns by role.
    probability : str, sequence, mapping or None
        Column of probabilities or of predicted means; several for classes.
    response : str
        What the outcome is.
    by : list of str or None
        Columns to audit; None for all.
    ignore : list of str
        Columns to leave out.
    target : str or int
        Which event is compared.
    level : float
        Chance of any false finding in the whole audit.
    effort : str
        How much is searched.
    random_state : int
        Seed.
    time, every : str or None
        Column of dates, and the length of its periods.
    max_levels : int
        Categorical columns with more levels are excluded.
    suppress_below : int
        Cells of fewer rows are not shown.
    source : str or None
        What the report calls the data.
    memory : str, int or None
        Limit.
    read_options : mapping
        Other options of `miscal.read`.
    score_column : str or None
        The column that holds the very score, if one does.
    report_progress : ProgressReporter
        Called with what is being tested.
    """

    outcome: str | None = None
    probability: Any = None
    weight: str | None = None
    count: str | None = None
    cluster: str | None = None
    exposure: str | None = None
    response: str = "binary"
    by: list[str] | None = None
    ignore: list[str] = field(default_factory=list)
    target: str | int = "auto"
    level: float = 0.05
    effort: str = "normal"
    random_state: int = 0
    time: str | None = None
    every: str | None = None
    max_levels: int = MAX_LEVELS
    suppress_below: int = 0
    source: str | None = None
    memory: str | int | None = None
    read_options: Mapping[str, Any] = field(default_factory=dict)
    score_column: str | None = None
    report_progress: ProgressReporter = field(default_factory=ProgressReporter)

    @property
    def is_mean(self) -> bool:
        """Whether means are predicted, and not probabilities."""
        return self.response != "binary"

    @property
    def reading(self) -> Plain:
        """Columns by role and the other options of `miscal.read`."""
        options = {
            "outcome": self.outcome,
            "probability": self.probability,
            "weight": self.weight,
            "count": self.count,
            "exposure": self.exposure,
            "cluster": self.cluster,
        }
        means = {"response": self.response} if self.is_mean else {}
        return options | means | dict(self.read_options)
