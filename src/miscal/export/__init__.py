"""Maps and segments in the languages of other systems: SQL of six dialects, and ONNX."""
