"""The network of Neural Calibration and its training; needs torch."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad, softplus

from miscal.data.arrays import Array, Plain
from miscal.data.errors import refusal, refusing
from miscal.kernels.threads import thread_count

if TYPE_CHECKING:
    from miscal.recalibrate.by_columns.neural import NeuralCalibration

DEVICE_CHUNK_ROWS = 1 << 18  # rows predicted at a time
MIN_THREADED_PRODUCTS = 2e8  # products in a batch from which several threads help


class NetworkRows(NamedTuple):
    """What is trained on; arrays stay in memory and go to the device batch by batch."""

    codes: Array  # (n, categories) int32
    numbers: Array  # (n, width) float32
    place: Array  # (n, maps) int32: knots below the scores
    part: Array  # (n, maps) float32
    outcome: Array  # (n,) class indices
    weight: Array  # (n,) float32 with mean 1

    def batches(
        self, rows: Array, device: torch.device, size: int = DEVICE_CHUNK_ROWS
    ) -> Iterator[list[Tensor]]:
        """Some rows on the device, so many at a time."""
        for start in range(0, rows.size, size):
            yield [torch.from_numpy(part[rows[start : start + size]]).to(device) for part in self]


class FieldNetwork(nn.Module):  # type: ignore[misc]
    """Embeddings of categories beside numbers, then layers with ReLU; the last starts at 0, so that g(x) does."""

    def __init__(self, sizes: list[int], embedding: int, layers: list[tuple[int, int]]) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(size, embedding) for size in sizes])
        steps = [step for widths in layers for step in (nn.Linear(*widths), nn.ReLU())]
        self.layers = nn.Sequential(*steps[:-1])
        with torch.no_grad():
            for table in self.tables:
                # Small: a rare level stays near the middle, where g is that of no level in particular.
                table.weight.normal_(0.0, 0.05)
            for layer in self.layers[::2]:
                layer.reset_parameters()
            self.layers[-1].weight.zero_()
            self.layers[-1].bias.zero_()

    def forward(self, numbers: Tensor, *codes: Tensor) -> Tensor:
        """Outputs of a batch, (n, outputs)."""
        embedded = [table(codes[0][:, j]) for j, table in enumerate(self.tables)]
        return self.layers(torch.cat([*embedded, numbers], dim=1))


class CalibrationNetwork(nn.Module):  # type: ignore[misc]
    """eta(l) + g(x).

    eta are non-decreasing line plots, one per map: sums of softplus increments, first the identity.
    """

    def __init__(self, network: nn.Module, knots: Array, maps: int) -> None:
        super().__init__()
        steps = torch.from_numpy(np.diff(knots)).float()
        self.first = nn.Parameter(torch.full((maps,), float(knots[0])))
        self.raw = nn.Parameter((steps + torch.log(-torch.expm1(-steps))).repeat(maps, 1))
        self.network = network

    def forward(self, codes: Tensor, numbers: Tensor, place: Tensor, part: Tensor) -> Tensor:
        """Log-weights of the classes, (n, K); of two the first's is 0, and the other's the log-odds."""
        maps = torch.arange(len(self.first), device=self.first.device)
        g = self._network_outputs(codes, numbers)
        if g.numel() != place.numel():
            raise refusal(f"must give (n, {len(maps)}) numbers", "'module'", got=f"it gives {tuple(g.shape)}")
        rise = torch.cumsum(softplus(self.raw), dim=1)
        values = self.first[:, None] + pad(rise, (1, 0))
        below, above = values[maps, place], values[maps, place + 1]
        logits = below + part * (above - below) + g.reshape(place.shape)
        return pad(logits, (1, 0)) if len(maps) == 1 else logits

    def _network_outputs(self, codes: Tensor, numbers: Tensor) -> Tensor:
        """g(x) of a batch; where the user's network fails, the error says what it is called with."""
        inputs = (numbers, codes) if codes.shape[1] else (numbers,)
        if isinstance(self.network, FieldNetwork):
            return self.network(*inputs)
        shapes = f"numbers (n, {numbers.shape[1]})" + (
            f" and codes (n, {codes.shape[1]})" if len(inputs) > 1 else ""
        )
        hint = "numbers are the scaled values of the numeric columns, then their flags of missing values"
        with refusing(f"must take {shapes}", "'module'", hint=hint):
            g = self.network(*inputs)
        if not isinstance(g, Tensor):
            raise refusal("must give one tensor", "'module'", got=f"it gives {type(g).__name__}")
        return g


@contextmanager
def limited_threads(model: nn.Module, batch: int) -> Iterator[None]:
    """Small batches on one thread: beside a busy process, threads that wait for each other cost twenty times more."""
    before = torch.get_num_threads()
    dense = sum(p.numel() for name, p in model.named_parameters() if "tables" not in name)
    torch.set_num_threads(1 if dense * batch < MIN_THREADED_PRODUCTS else min(before, thread_count()))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train_network(
    model: nn.Module, rows: NetworkRows, held_out: Array, settings: "NeuralCalibration"
) -> tuple[list[float], list[float]]:
    """Train in mini-batches; with held-out rows keep the best epoch and stop `patience` epochs after it.

    Parameters
    ----------
    model : torch.nn.Module
        Called with the first four parts of `NetworkRows`, it gives log-weights of the classes, (n, K).
    rows : NetworkRows
        The rows trained on and those held out.
    held_out : (m,) array of int
        Positions of the rows held out; empty for none.
    settings : NeuralCalibration
        Its parameters say how many epochs, how large the batches and how fast.

    Returns
    -------
    losses : list of float
        Mean loss of each epoch on the rows trained on.
    held_out_losses : list of float
        The same on those held out, before training first; empty where none are.
    """
    console = Console(stderr=True, force_terminal=settings.progress is True or None)
    hidden = not (settings.progress and console.is_terminal)
    shown: Plain = {"console": console, "transient": True, "disable": hidden}
    device = torch_device(settings.device)
    model.to(device)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=float(settings.learning_rate), fused=device.type == "cuda"
    )
    rng = np.random.default_rng(settings.random_state)
    trained = np.setdiff1d(np.arange(len(rows.outcome)), held_out)
    held_out_rows = NetworkRows(*(part[held_out] for part in rows))
    losses: list[float] = []
    held_out_losses = [weighted_mean_loss(model, held_out_rows)] if held_out.size else []
    best = copy.deepcopy(model.state_dict())
    for _ in range(settings.epochs):
        model.train()
        total = torch.zeros((), device=device)
        batches = rows.batches(rng.permutation(trained), device, settings.batch)
        for batch in track(batches, "Neural Calibration", -(-trained.size // settings.batch), **shown):
            optimizer.zero_grad(set_to_none=True)
            loss = (cross_entropy(model(*batch[:4]), batch[4], reduction="none") * batch[5]).mean()
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(batch[4])
        losses.append(float(total) / trained.size)
        if not held_out.size:
            continue
        held_out_losses.append(weighted_mean_loss(model, held_out_rows))
        epochs_since_best = len(held_out_losses) - 1 - np.argmin(held_out_losses)
        if epochs_since_best == 0:
            best = copy.deepcopy(model.state_dict())
        elif epochs_since_best >= settings.patience:
            break
    if held_out.size:
        model.load_state_dict(best)
    return losses, held_out_losses


def weighted_mean_loss(model: nn.Module, rows: NetworkRows) -> float:
    """Weighted mean loss of rows."""
    outputs, outcome = torch.from_numpy(predict_outputs(model, rows)), torch.from_numpy(rows.outcome)
    return float(np.average(cross_entropy(outputs, outcome, reduction="none"), weights=rows.weight))


def predict_outputs(model: nn.Module, rows: NetworkRows) -> Array:
    """Log-weights of the classes of all rows, in chunks, where the model is."""
    model.eval()
    with torch.no_grad():
        device = next(model.parameters()).device
        batches = rows.batches(np.arange(len(rows.outcome)), device)
        return np.concatenate([model(*batch[:4]).double().cpu().numpy() for batch in batches])


def torch_device(name: str) -> torch.device:
    """The device that a name stands for; "auto" is a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    with refusing("must be a device that torch can use", "'device'", hint="'cpu'"):
        torch.zeros(1, device=name)
    return torch.device(name)
