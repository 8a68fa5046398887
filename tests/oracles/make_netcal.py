"""netcal: expected, maximum, average error and the kernel error."""

from __future__ import annotations

from frozen import inputs, save
from netcal.metrics import ACE, ECE, MCE, MMCE


def main():
    rows = inputs()
    y, p, labels, classes = rows["y"], rows["p"], rows["labels"], rows["classes"]
    values = {}
    for bins in (10, 15):
        for name, metric in (("expected", ECE), ("maximum", MCE), ("average", ACE)):
            values[f"{name}_{bins}"] = metric(bins).measure(p, y)
            values[f"{name}_{bins}_classes"] = metric(bins).measure(classes, labels)
    values["kernel_classes"] = MMCE().measure(classes, labels)
    values["kernel_binary"] = MMCE().measure(p, y)
    save("netcal", ["netcal", "numpy"], values)


if __name__ == "__main__":
    main()
