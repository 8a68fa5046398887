"""Kernel calibration error (MMCE) as a loss to train torch models with; torch is loaded when it is called."""

from typing import Any

from miscal.data.checks import number, one_of
from miscal.data.errors import MissingExtra, refusal


def kernel_calibration_loss(
    y_true: Any,
    y_prob: Any,
    *,
    bandwidth: float = 0.2,
    target: str = "auto",
    sample_weight: Any = None,
) -> Any:
    r"""Differentiable maximum mean calibration error (MMCE) of a batch, to be added to a training loss.

    .. math:: \Big(\tfrac{1}{W^2}\sum_{i,j} w_i w_j (r_i - c_i)(r_j - c_j)\,e^{-|r_i - r_j|/h}\Big)^{1/2}

    with r the confidence and c whether it was right (Kumar, Sarawagi and Jain 2018). The value is that of
    `miscal.metrics.mean_kernel_calibration_error`; gradients flow through the confidences, within the residuals and
    within the kernel. `KernelCalibration` is the same idea applied after training, to a map of one or two parameters.

    Parameters
    ----------
    y_true : (n,) tensor
        Class indices, or 0 and 1.
    y_prob : (n,) or (n, K) tensor
        P(class 1), or probabilities with rows that sum to 1; not logits: ``torch.sigmoid(logits)`` or
        ``torch.softmax(logits, dim=1)``.
    bandwidth : float, default=0.2
        h, the scale on which scores are compared.
    target : {"auto", "positive", "top"}, default="auto"
        "positive": P(class 1) against whether the class is 1. "top": the confidence in the most probable class against
        whether it is right. "auto" is "positive" with two classes and "top" with more.
    sample_weight : (n,) tensor, optional
        Sampling weights.

    Returns
    -------
    tensor
        Without dimensions, at least 0. Where it is 0 its gradient is 0.

    Notes
    -----
    All pairs of a batch are compared: O(n²) memory, so batches of a few thousand rows at most. The error of a small
    batch is mostly chance. A multiple of it is added to the log loss, which keeps the model informative; alone, it is
    least for a constant prediction of the base rate.

    Examples
    --------
    >>> import torch
    >>> from miscal.recalibrate import kernel_calibration_loss
    >>> logits, labels = torch.tensor([-1.4, 0.4], requires_grad=True), torch.tensor([0, 1])
    >>> error = kernel_calibration_loss(labels, torch.sigmoid(logits))
    >>> loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.float()) + 0.5 * error
    >>> loss.backward()
    >>> round(error.item(), 3)
    0.211
    """
    try:
        import torch
    except ImportError as missing:
        raise MissingExtra("kernel_calibration_loss", "torch", "neural") from missing
    number("bandwidth", bandwidth, 0.0, above=True)
    one_of("target", target, ("auto", "positive", "top"))
    confidence, correct = _compared(torch, y_true, y_prob, target)
    residual = confidence - correct.to(confidence.dtype)
    if sample_weight is None:
        residual = residual / len(residual)
    else:
        _check_rows(sample_weight, len(residual), "'sample_weight'")
        weight = sample_weight.to(confidence.dtype)
        residual = residual * (weight / weight.sum())
    kernel = torch.exp(-(confidence[:, None] - confidence[None, :]).abs() / float(bandwidth))
    energy = residual @ kernel @ residual
    # The root has no derivative at 0: held just above it, the value is 0 to rounding and the gradient exactly 0.
    tiny = torch.finfo(energy.dtype).tiny
    return torch.where(energy > tiny, energy.clamp_min(tiny).sqrt(), torch.zeros_like(energy))


def _compared(torch: Any, y_true: Any, y_prob: Any, target: str) -> tuple[Any, Any]:
    """The confidence of each row and whether it was right."""
    for name, given in (("y_true", y_true), ("y_prob", y_prob)):
        if not isinstance(given, torch.Tensor):
            raise refusal("must be a torch tensor", f"'{name}'", got=f"it is {type(given).__name__}")
    if not y_prob.is_floating_point():
        raise refusal(
            "must hold floating-point probabilities", "'y_prob'", got=f"its dtype is {y_prob.dtype}"
        )
    if y_prob.ndim not in (1, 2) or not len(y_prob) or (y_prob.ndim == 2 and y_prob.shape[1] < 2):
        got = f"its shape is {tuple(y_prob.shape)}"
        hint = "y_prob.squeeze(1) where there is one output" if y_prob.ndim == 2 else ""
        raise refusal("must be (n,) or (n, K) with K of at least 2", "'y_prob'", got=got, hint=hint)
    _check_rows(y_true, len(y_prob), "'y_true'")
    if bool(((y_prob < 0) | (y_prob > 1)).any()):
        raise refusal("must lie in [0, 1]", "'y_prob'", hint="apply torch.sigmoid or torch.softmax to logits")
    matrix = torch.stack([1 - y_prob, y_prob], dim=1) if y_prob.ndim == 1 else y_prob
    if target == "positive" and matrix.shape[1] > 2:
        got = f"there are {matrix.shape[1]}"
        raise refusal("needs two classes", "target='positive'", got=got, hint="target='top'")
    if target == "top" or matrix.shape[1] > 2:
        confidence, label = matrix.max(dim=1)
        return confidence, y_true == label
    return matrix[:, 1], y_true == 1


def _check_rows(values: Any, rows: int, where: str) -> None:
    """Reject anything but a value per row."""
    if tuple(getattr(values, "shape", ())) != (rows,):
        got = f"its shape is {tuple(getattr(values, 'shape', ()))}"
        raise refusal(f"must have one value per row ({rows})", where, got=got)
