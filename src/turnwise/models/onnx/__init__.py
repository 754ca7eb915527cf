"""The default backend: onnxruntime on the CPU, no torch."""

import os

# Read when onnxruntime is imported, which only modules of this package do: without it, onnxruntime would queue
# events for its makers and leave an identifier of this machine in the user's cache folder.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
