"""torchmetrics: calibration errors in single precision."""

from __future__ import annotations

import torch
from frozen import inputs, save
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error


def main():
    rows = inputs()
    y, p = torch.tensor(rows["y"]), torch.tensor(rows["p"])
    labels, classes = torch.tensor(rows["labels"]), torch.tensor(rows["classes"])
    values = {}
    for norm in ("l1", "l2", "max"):
        values[norm] = binary_calibration_error(p, y, n_bins=15, norm=norm).item()
        values[f"{norm}_classes"] = multiclass_calibration_error(classes, labels, 4, n_bins=15, norm=norm).item()
    generator = torch.Generator().manual_seed(0)
    many = torch.rand(2_000_000, generator=generator, dtype=torch.float64)
    happened = (torch.rand(2_000_000, generator=generator, dtype=torch.float64) < many).int()
    single = binary_calibration_error(many.float(), happened, n_bins=15).item()
    gaps = torch.bincount((many * 15).ceil().long().clamp(1, 15) - 1, happened - many)
    values["many"] = {"single": single, "double": (gaps.abs().sum() / many.numel()).item()}
    save("torchmetrics", ["torchmetrics", "torch", "numpy"], values)


if __name__ == "__main__":
    main()
