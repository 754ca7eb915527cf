"""How weights are stored: whole numbers and one scale per row, which the runtime multiplies out when it loads.

Arithmetic stays in single precision. Rounding activations as well would be faster, but a difference in the last
bit, which another processor or another batch brings, then flips roundings and moves probabilities by several
hundredths; the same response must get the same score everywhere.

The step is a fraction of a row's standard deviation and the numbers are left to the archive's own compression:
coarser steps have less entropy. At equal size in the wheel this keeps more than four-bit blocks do, unless a model
was trained to lie on their grid, as the bundled causal language model was.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
LARGEST = 127
BLOCK, LEVELS = 32, 15


def quantise(weight: Floats, fineness: float) -> tuple[npt.NDArray[np.int8], Floats]:
    """Whole numbers and the scale of each row; `fineness` is the number of steps in a standard deviation.

    >>> numbers, scales = quantise(np.array([[1.0, -1.0, 0.5]], dtype=np.float32), fineness=4)
    >>> numbers.tolist()
    [[5, -5, 2]]
    """
    largest = np.abs(weight).max(axis=1) / LARGEST
    scales = np.maximum(largest, weight.std(axis=1) / fineness).astype(np.float32)
    scales[scales == 0] = 1.0
    return np.round(weight / scales[:, None]).astype(np.int8), scales


def four_bits(weight: Floats) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
    """Sixteen levels in blocks of 32 inputs: codes (rows, blocks, 32), and each block's zero and scale.

    The levels of a block always contain zero and span its smallest and largest weight. Weights that were trained
    on this grid come back as they were.
    """
    blocks = weight.reshape(len(weight), -1, BLOCK)
    low, high = blocks.min(axis=2).clip(max=0), blocks.max(axis=2).clip(min=0)
    scales = np.maximum((high - low) / LEVELS, 1e-7).astype(np.float32)
    zeros = np.round(-low / scales)
    codes = (np.round(blocks / scales[..., None]) + zeros[..., None]).clip(0, LEVELS)
    return codes.astype(np.uint8), zeros.astype(np.uint8), scales.astype(np.float16)


def restore(numbers: npt.NDArray[np.int8], scales: Floats) -> Floats:
    """The weights that `quantise` kept."""
    restored: Floats = numbers.astype(np.float32) * scales[:, None]
    return restored
