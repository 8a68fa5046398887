"""A fitted recalibrator as a formula, and that formula in SQL and ONNX."""
