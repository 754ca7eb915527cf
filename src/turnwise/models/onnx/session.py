"""Opening ONNX files: from checked bytes, with a sensible number of threads, tables shared between files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from turnwise.errors import TurnwiseError, in_brief

if TYPE_CHECKING:
    import onnxruntime

MOST_THREADS = 16
SIBLINGS = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")


def thread_count() -> int:
    """Return how many threads to run: one per physical core that this process may use, or TURNWISE_THREADS."""
    asked = os.environ.get("TURNWISE_THREADS")
    if asked:
        if not asked.isdigit() or int(asked) < 1:
            raise TurnwiseError(f"TURNWISE_THREADS={asked}: write a whole number of at least 1")
        return int(asked)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        # Two hyper-threads share one multiplier, so the second only adds contention.
        doubled = any(mark in SIBLINGS.read_text() for mark in ",-")
    except OSError:
        doubled = False
    return max(1, min(usable // (2 if doubled else 1), MOST_THREADS))


def open_session(
    content: bytes, name: str, tables: Mapping[str, npt.NDArray[Any]] | None = None
) -> onnxruntime.InferenceSession:
    """Return a session over a model's bytes; `tables` are the only constants that come from another file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Threads take a batch each. Within one they would wait for each other at every step of a small network.
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # The runtime would otherwise trade fp32 products for ones that round their inputs; scores must not depend on it.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    # A model may name files for its constants. None lies here, so that no byte is read that has no hash.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    if tables:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(table) for table in tables.values()]
        options.add_external_initializers(list(tables), values)
    try:
        return onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
        )
    except Exception as problem:  # onnxruntime's own exception classes share no base but this
        raise TurnwiseError(f"{name}: not a model that onnxruntime can open ({in_brief(problem)})") from None
