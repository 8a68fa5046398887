"""Add rows to cells: in memory, over files and lazy frames, and on Spark, with the same result.

Everything that miscal reports about cells (bins, categories, segments) is computed from sums per cell. This package
makes those sums. It knows nothing of statistics: what the sums mean is the business of the packages above it.

The protocol
------------
Four kinds of objects take part in a pass over the rows of a table.

Request (`requests.py`)
    Which cells are wanted: ranges of a column or of the score, categories of a column, combinations of those, or
    segments given by conditions. A request is frozen, holds no rows and can be sent to another process.
Coder (`requests.py`)
    Gives each row of a batch the number of its cell. `coders_of` makes the coders of a request; what many requests
    share (the position of a value between all edges of its column) is looked up once per batch.
Tally (`tally.py`)
    The sums per cell. Adding two tallies is the same as concatenating their rows.
State (`source.py`)
    The sums of some of the rows. A pass starts one state per worker, gives it batches (`add`), packs it into arrays
    by name (`arrays`), and adds packed states together (`merge`).

`streaming.add_up` runs a pass for any number of requests, over whatever `source.open_source` has opened. Its answer
is looked up by request:

>>> import numpy as np
>>> from miscal.aggregate.column_roles import ColumnRoles
>>> from miscal.aggregate.requests import SCORE, LevelCells, RangeCells
>>> from miscal.aggregate.source import open_source
>>> from miscal.aggregate.streaming import add_up
>>> table = {"late": [1, 0, 0, 1], "p": [0.9, 0.2, 0.4, 0.6], "state": ["CA", "CA", "NY", "NY"]}
>>> states, halves = LevelCells("state"), RangeCells(SCORE, np.array([0.0, 0.5, 1.0]))
>>> sums = add_up(open_source(table), ColumnRoles("late", "p"), "positive", [states, halves])
>>> sums.tallies[states].observed.tolist()
[1.0, 1.0]
>>> sums.tallies[halves].counts.tolist()
[2, 2]

Rules
-----
The result of a pass must not depend on how the rows are divided among batches, files, threads or executors, nor on
the order in which states are merged. Therefore:

- A state holds sums of integers, extremes or sets; never a mean, a rounded float or a "first row".
- What a worker sends back is the result of `arrays`: arrays of plain types, no pickled objects and no rows.
- `merge` accepts the packed arrays of any other state of the same pass, also of one that has seen no rows.
- Edges of ranges are chosen before the pass. Sums over different edges cannot be added.

Correct: a state that counts missing values. Integer sums commute, and an empty state packs zeros.

>>> class MissingState:
...     def __init__(self, column):
...         self.columns = [column]
...         self.missing = np.zeros(1, np.int64)
...
...     def add(self, chunk):
...         self.missing += chunk.table[self.columns[0]].null_count
...
...     def arrays(self):
...         return {"missing": self.missing}
...
...     def merge(self, packed):
...         self.missing += packed["missing"]
>>> from functools import partial
>>> cities = {"city": ["Rome", None, "Oslo", None]}
>>> int(open_source(cities).run(partial(MissingState, "city")).missing[0])
2

Incorrect: a running mean depends on the order and the size of the batches in its last digits, and the mean of two
means is wrong if the workers saw different numbers of rows::

    def merge(self, packed):
        self.mean = (self.mean + packed["mean"]) / 2

Incorrect: a lambda that reads a variable of the caller. The call that starts a state is pickled for Spark; use
`functools.partial` with a class or a function of a module::

    source.run(lambda: MissingState(column))

Where to add what
-----------------
- A kind of cell: a frozen request and its coder in `requests.py`, and a branch in `coders_of`.
- A kind of table: a subclass of `Source`, or a function that makes a `LazySource`, in `readers.py`.
- A column of sums: `tally.ALL_COLUMNS`, its property in `Tally`, and the kernels in `kernels/sums.py`.
- Another quantity of all rows: a state beside `LargestResidualState` in `streaming.py`.
"""
