"""The kernel calibration loss for torch models: it is the metric, its gradient is right, training lowers the error."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from miscal import MiscalError
from miscal.metrics import mean_kernel_calibration_error
from miscal.recalibrate import kernel_calibration_loss

torch = pytest.importorskip("torch", reason="needs the extra neural")


def rows(classes: int, n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, probabilities and weights; of two classes the probability of class 1."""
    rng = np.random.default_rng(classes)
    p = rng.dirichlet(np.full(classes, 0.7), n)
    y = np.array([rng.choice(classes, p=row) for row in p])
    return y, p[:, 1] if classes == 2 else p, rng.exponential(size=n)


@pytest.mark.parametrize("target", ["auto", "top", "positive"])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_the_metric(target: str, classes: int, weighted: bool) -> None:
    y, p, w = rows(classes)
    given: list[Any] = [torch.from_numpy(each) for each in (y, p)]
    if target == "positive" and classes > 2:
        with pytest.raises(MiscalError, match="two classes"):
            kernel_calibration_loss(*given, target=target)
        return
    for h in (0.05, 0.2, 3.0):
        found = kernel_calibration_loss(
            *given, bandwidth=h, target=target, sample_weight=torch.from_numpy(w) if weighted else None
        )
        expected = mean_kernel_calibration_error(
            y, p, bandwidth=h, target=target, sample_weight=w if weighted else None
        )
        assert found.item() == pytest.approx(expected, abs=1e-12)


def test_two_columns_are_the_probability_of_class_1() -> None:
    y, p, _ = rows(2)
    matrix = torch.from_numpy(np.column_stack([1 - p, p]))
    labels = torch.from_numpy(y)
    assert kernel_calibration_loss(labels, matrix).item() == pytest.approx(mean_kernel_calibration_error(y, p))


@pytest.mark.parametrize("classes", [2, 4])
def test_the_gradient_is_that_of_finite_differences(classes: int) -> None:
    y, p, w = rows(classes, 12)
    probability = torch.from_numpy(p).requires_grad_()

    def loss(values: Any) -> Any:
        return kernel_calibration_loss(torch.from_numpy(y), values, sample_weight=torch.from_numpy(w))

    assert torch.autograd.gradcheck(loss, (probability,))


def test_perfect_predictions_have_no_loss_and_no_gradient() -> None:
    p = torch.tensor([0.0, 1.0, 1.0], requires_grad=True)
    loss = kernel_calibration_loss(torch.tensor([0, 1, 1]), p)
    loss.backward()
    assert loss.item() == 0.0
    assert p.grad is not None
    assert p.grad.tolist() == [0.0, 0.0, 0.0]


def test_training_with_it_lowers_the_error_of_an_overconfident_model() -> None:
    """One free slope on scores that are too extreme: the loss alone leads to where the metric is least."""
    rng = np.random.default_rng(0)
    logit = rng.normal(0.0, 1.5, 2000)
    y = (rng.random(2000) < 1 / (1 + np.exp(-logit))).astype(int)
    slope = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    labels, extreme = torch.from_numpy(y), torch.from_numpy(logit)
    optimiser = torch.optim.Adam([slope], lr=0.1)
    for _ in range(80):
        optimiser.zero_grad()
        kernel_calibration_loss(labels, torch.sigmoid(slope * extreme)).backward()
        optimiser.step()

    def metric(factor: float) -> float:
        return mean_kernel_calibration_error(y, 1 / (1 + np.exp(-factor * logit)))

    best = min(metric(factor) for factor in np.linspace(0.5, 3.0, 251))
    assert metric(3.0) > 5 * best
    assert metric(slope.item()) < 1.2 * best


@pytest.mark.parametrize(
    ("y", "p", "options", "words"),
    [
        ([0, 1], torch.tensor([0.1, 0.9]), {}, "'y_true' must be a torch tensor"),
        (torch.tensor([0, 1]), torch.tensor([-1.0, 2.0]), {}, "sigmoid"),
        (torch.tensor([0, 1]), torch.tensor([[0.1], [0.9]]), {}, "squeeze"),
        (torch.tensor([0, 1, 1]), torch.tensor([0.1, 0.9]), {}, "one value per row"),
        (torch.tensor([0, 1]), torch.tensor([0.1, 0.9]), {"bandwidth": 0.0}, "'bandwidth'"),
        (torch.tensor([0, 1]), torch.tensor([0.1, 0.9]), {"sample_weight": torch.ones(3)}, "'sample_weight'"),
        (torch.tensor([0, 1]), torch.tensor([0, 1]), {}, "floating-point"),
    ],
)
def test_what_it_cannot_take_is_rejected(y: Any, p: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(MiscalError, match=words):
        kernel_calibration_loss(y, p, **options)


def test_torch_is_loaded_only_when_it_is_called() -> None:
    code = "from miscal.recalibrate import kernel_calibration_loss; import sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
