"""What several recalibrators fit with: logistic losses, trees, designs of columns."""
