"""What training a transformer keeps in a GPU's memory, by the formulas of papers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import cbrt, ceil


class Precision(StrEnum):
    """The format of weights and gradients while they are computed with."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"


class Optimizer(StrEnum):
    """What is remembered of each parameter between steps."""

    ADAMW = "adamw"
    MOMENTUM = "momentum"
    SGD = "sgd"


_OPTIMIZER_VALUES = {Optimizer.ADAMW: 2, Optimizer.MOMENTUM: 1, Optimizer.SGD: 0}
"""Values of 4 bytes for each parameter: two moments of Adam, one of momentum."""

_HIDDEN_PER_LAYER = 128
"""The width of GPT-3's layers by their number: 12288 by 96 (arXiv 2005.14165, table 2.1)."""


@dataclass(frozen=True, slots=True)
class Model:
    """What is trained: `sequence` in tokens, `batch` in sequences of one replica in one step."""

    parameters: int
    precision: Precision
    optimizer: Optimizer
    sequence: int
    batch: int

    @property
    def layers(self) -> int:
        """Layers by N = 12·L·h² (arXiv 2001.08361, section 2.1), with h = 128·L."""
        return max(1, ceil(cbrt(self.parameters / (12 * _HIDDEN_PER_LAYER**2))))

    @property
    def hidden(self) -> int:
        return _HIDDEN_PER_LAYER * self.layers

    @property
    def value_bytes(self) -> int:
        return 4 if self.precision is Precision.FP32 else 2

    @property
    def gradient_bytes(self) -> int:
        """What one replica's gradients have, and so what it exchanges with the others."""
        return self.parameters * self.value_bytes

    @property
    def state_bytes(self) -> int:
        """Weights, gradients, the optimizer's values, and in 16-bit formats a copy of the weights in 32.

        With AdamW 16 bytes a parameter: arXiv 1910.02054, section 3.1.
        """
        copy = 0 if self.precision is Precision.FP32 else 4
        return self.parameters * (2 * self.value_bytes + copy + 4 * _OPTIMIZER_VALUES[self.optimizer])

    @property
    def most_activation_bytes(self) -> int:
        """Activations of all layers: 34·s·b·h each in 16 bits, without attention's matrices.

        arXiv 2205.05198, equation 2, less what fused attention or selective recomputation does not
        keep (section 5). Twice as much in 32 bits, which overstates the dropout masks.
        """
        return self.layers * 17 * self.value_bytes * self._tokens_by_width

    @property
    def least_activation_bytes(self) -> int:
        """Activations where each layer is computed again: its input, 2·s·b·h, and one layer at work."""
        return (self.layers * self.value_bytes + 17 * self.value_bytes) * self._tokens_by_width

    @property
    def _tokens_by_width(self) -> int:
        return self.sequence * self.batch * self.hidden
