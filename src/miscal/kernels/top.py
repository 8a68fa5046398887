"""The predicted label, the confidence in it, and whether it is right."""

from __future__ import annotations

from miscal.kernels.jit import kernel


@kernel
def top_binary(probability, outcome, confidence, correct):
    """Two classes, P(class 1) given: the label is 1 iff p > 1/2."""
    for i in range(probability.size):
        p = probability[i]
        label = p > 0.5
        confidence[i] = p if label else 1.0 - p
        correct[i] = label == (outcome[i] != 0)


@kernel
def top_label(probability, outcome, confidence, correct):
    """Several classes: the label is the first of the largest probabilities."""
    for i in range(probability.shape[0]):
        best = probability[i, 0]
        label = 0
        for k in range(1, probability.shape[1]):
            if probability[i, k] > best:
                best = probability[i, k]
                label = k
        confidence[i] = best
        correct[i] = label == outcome[i]
