"""Weights to ONNX graphs and packs, without torch. Needs the `onnx` package, which running a pack does not."""
