"""Recalibrators of the probability and of columns beside it.

The rule: what is learned of columns is kept as `Encoding`s (`ColumnRecalibrator`), so that missing values and levels
that fit did not have are mapped in the same way by Python, SQL and ONNX.
"""
