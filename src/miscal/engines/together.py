"""Several jobs in one pass: a batch is read and validated once and added to the state of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from miscal.engines.plan import Job, Packed, State, _under
from miscal.engines.rows import Batch, Door


@dataclass(frozen=True, eq=False)
class Together:
    """Jobs that share a pass, and a door."""

    jobs: tuple[Job, ...]

    @property
    def door(self) -> Door:
        return self.jobs[0].door

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(name for job in self.jobs for name in job.columns))

    def start(self) -> TogetherState:
        return TogetherState(self)


class TogetherState:
    """One state a job."""

    def __init__(self, job: Together) -> None:
        self.states: list[State] = [one.start() for one in job.jobs]

    def add(self, batch: Batch) -> None:
        for state in self.states:
            state.add(batch)

    def arrays(self) -> Packed:
        return {
            f"job{place}:{name}": values
            for place, state in enumerate(self.states)
            for name, values in state.arrays().items()
        }

    def merge(self, packed: Packed) -> None:
        for place, state in enumerate(self.states):
            state.merge(_under(packed, f"job{place}:"))


def run_together(runner: Any, first: Job, beside: Sequence[Job]) -> tuple[Any, list[Any]]:
    """Run a job and those beside it in one pass; its state, and theirs."""
    if not beside:
        return runner.run(first), []
    states = runner.run(Together((first, *beside))).states
    return states[0], states[1:]
