"""statsmodels: logistic recalibration of the score."""

from __future__ import annotations

import numpy as np
import statsmodels.api as sm
from frozen import inputs, save


def main():
    rows = inputs()
    y, logit = rows["y"], np.log(rows["p"] / (1 - rows["p"]))
    both = sm.Logit(y, sm.add_constant(logit)).fit(disp=0, tol=1e-12)
    large = sm.GLM(y, np.ones(y.size), family=sm.families.Binomial(), offset=logit).fit(tol=1e-12)
    robust = sm.GLM(y, sm.add_constant(logit), family=sm.families.Binomial(), freq_weights=rows["weight"])
    values = {
        "intercept": both.params[0],
        "slope": both.params[1],
        "intercept_interval": both.conf_int()[0],
        "slope_interval": both.conf_int()[1],
        "in_the_large": large.params[0],
        "in_the_large_interval": large.conf_int()[0],
        "weighted": robust.fit(tol=1e-12).params,
    }
    save("slope", ["statsmodels", "numpy"], values)


if __name__ == "__main__":
    main()
