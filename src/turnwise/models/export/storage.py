"""How weights are stored: whole numbers and one scale per row, which the runtime multiplies out when it loads.

Arithmetic stays in single precision. Rounding activations as well would be faster, but a difference in the last
bit, which another processor or another batch brings, then flips roundings and moves probabilities by several
hundredths; the same response must get the same score everywhere.

The step is a fraction of a row's standard deviation and the numbers are left to the archive's own compression:
coarser steps have less entropy. At equal size in the wheel this keeps more than blocks with a step each do, unless a
model was trained to lie on their grid, as the bundled causal language model was.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
LARGEST = 127
# Inputs that share a step, the most that divide a matrix; the outermost of the fifteen levels around zero.
BLOCKS, OUTERMOST = (64, 32), 7
# How far a multiple of a step may be from a whole number where checkpoints keep halves.
HALVES = 0.02
# Binary digits of a step.
DIGITS = 7


def quantise(weight: Floats, fineness: float) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return whole numbers and the scale of each row; `fineness` is the number of steps in a standard deviation.

    >>> numbers, scales = quantise(np.array([[1.0, -1.0, 0.5]], dtype=np.float32), fineness=4)
    >>> numbers.tolist()
    [[5, -5, 2]]
    """
    largest = np.abs(weight).max(axis=1) / LARGEST
    scales = np.maximum(largest, weight.std(axis=1) / fineness).astype(np.float32)
    scales[scales == 0] = 1.0
    return np.round(weight / scales[:, None]).astype(np.int8), scales


def on_grid(weight: Floats) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float16]]:
    """Return codes (rows, blocks, inputs), which are multiples of a step for each block of inputs, and the steps.

    A code is the multiple plus 7, so zero is exact and a nibble holds it. Weights that were trained on such a grid keep
    their levels, however few they use, to within the rounding of the steps: a block's step is the largest of which its
    weights are whole multiples. Where none is, the largest weight has the outermost level.

    >>> codes, steps = on_grid(np.array([[0.5, -1.0, 0.0, 0.5] * 8], dtype=np.float32))
    >>> codes[0, 0, :4].tolist(), steps.tolist()
    ([8, 5, 7, 8], [[0.5]])
    """
    blocks = weight.reshape(len(weight), -1, block_size(weight.shape[1]))
    largest = np.abs(blocks).max(axis=2)
    largest[largest == 0] = 1.0
    steps = largest / OUTERMOST
    for multiple in range(OUTERMOST - 1, 0, -1):
        fits = largest / multiple
        parts = blocks / fits[..., None]
        steps = np.where(np.abs(parts - np.round(parts)).max(axis=2) < HALVES, fits, steps)
    codes = (np.round(blocks / steps[..., None]) + OUTERMOST).clip(0, 2 * OUTERMOST)
    return codes.astype(np.uint8), _significant(steps).astype(np.float16)


def _significant(steps: Floats) -> Floats:
    """Return the steps rounded to `DIGITS` binary digits, which compress well."""
    fractions, exponents = np.frexp(steps)
    rounded: Floats = np.ldexp(np.round(fractions * 2**DIGITS) / 2**DIGITS, exponents)
    return rounded


def block_size(inputs: int) -> int:
    """Return how many inputs share a step."""
    return next((size for size in BLOCKS if inputs % size == 0), inputs)
