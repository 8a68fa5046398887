"""The rules of inference: what a p-value, a noise floor, an interval and a ranking mean, for every notion alike."""
