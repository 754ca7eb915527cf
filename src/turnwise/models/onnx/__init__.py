"""The default backend: onnxruntime on the CPU, no torch."""
