"""relplot: SmoothECE at given bandwidths and at its fixed point, and its binned error."""

from __future__ import annotations

from frozen import inputs, save
from relplot import config
from relplot.metrics import binnedECE, smECE, smECE_sigma


def main():
    rows = inputs()
    y, p = rows["y"].astype(float), rows["p"]
    values = {"binned": binnedECE(p, y, 10), "mesh": config.smECE_mesh_pts, "sigma": {}, "fine": {}}
    for sigma in (0.02, 0.05, 0.1, 0.3):
        values["sigma"][str(sigma)] = smECE_sigma(p, y, sigma)
    values["smooth"], values["width"] = smECE(p, y, return_width=True)
    config.smECE_mesh_pts = 20_001  # its mesh is a setting: with a fine one the discretisation is out of the way
    for sigma in (0.02, 0.05, 0.1, 0.3):
        values["fine"][str(sigma)] = smECE_sigma(p, y, sigma)
    values["smooth_fine"] = smECE(p, y)
    save("relplot", ["relplot", "numpy"], values)


if __name__ == "__main__":
    main()
