"""P-values, confidence intervals and noise floors: statistical inference for every notion of calibration.

The rule: nothing outside this folder computes a p-value, an interval or a noise floor. Modules above say what is tested
and hand over sums or rows; they get back numbers and a code (`miscal.codes.inference`) that says how these were found.
A test looks for calls of distribution functions, quantiles of draws and shares of draws elsewhere.

- What is tested: `cell_sums` (sums and rows of cells, settings of a test), `null_model` (which null model, and why).
- Draws under a null model: `null_draws`, `cluster_draws`, `rank_draws`.
- Tests: `binomial` and `sign_flip` (a cell), `metric_null` (a number read off all cells), `combined_test`, `kuiper`,
  `smooth_ece`, `score_shape`, `maxima` and `neighbourhood_null` (the largest of many), `changes`, `comparison`.
- Several tests at once, intervals and sizes: `multiplicity`, `intervals`, `shrinkage`.
- Curves: `local_regression`, `curve_bands`. Tools: `normal`, `isotonic`, `resampling`, `root_finding`.
"""
