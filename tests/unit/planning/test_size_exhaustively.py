"""Every division of the workers, counted out by the papers' formulas alone, against what `size` answers.

The formulas are written down again here, in whole numbers: shape N = 12·L·h² (arXiv 2001.08361), states
(arXiv 1910.02054, sections 3.1 and 5), activations (arXiv 2205.05198), adapters (arXiv 2106.09685).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from math import ceil

import pytest

from tests.extent import examples
from vgpu_cfg.catalog import Board, load_catalog
from vgpu_cfg.planning.sizing import Model, Optimizer, Precision, Sharding, size_model

BOARDS = ("A100X", "A100DX", "H100XM", "L40S")
MODELS = (1_300_000_000, 7_000_000_000, 13_000_000_000, 30_000_000_000, 70_000_000_000, 175_000_000_000)
EVERY = examples(41, 1)
"""A plain run tries every 41st number of workers, and `--all` every 31st: no number up to 30 divides all."""

Divided = tuple[int, int, int, int]
"""Data, tensor, pipeline, GPUs."""


def shape(parameters: int) -> tuple[int, int]:
    layers = next(n for n in itertools.count(1) if 12 * 128**2 * n**3 >= parameters)
    return layers, 128 * layers


def states(parameters: int, precision: str, sharding: str, lora: int, data: int) -> Fraction:
    """Return the bytes that one of `data` replicas keeps, with AdamW."""
    layers, hidden = shape(parameters)
    trained = 18 * layers * hidden * lora or parameters
    weights = parameters * (4 if precision == "fp8" else 2) + (2 * trained if lora else 0)
    kept = [Fraction(12 * trained), Fraction(2 * trained), Fraction(weights)]
    shared = {"none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}[sharding]
    return sum((part / data if number < shared else part for number, part in enumerate(kept)), Fraction())


def activations(parameters: int, sequence: int, batch: int) -> tuple[int, int]:
    """Return what is kept without recomputation, and with it."""
    layers, hidden = shape(parameters)
    one = sequence * batch * hidden
    return 34 * layers * one, (2 * layers + 34) * one


def counted_out(what: Model, workers: int, board: Board) -> set[Divided]:
    return {
        min(found, key=lambda one: (one[3], one[2], one[1]))
        for bytes_kept in activations(what.parameters, what.sequence, what.batch)
        if (found := list(all_that_fit(what, workers, board, bytes_kept)))
    }


def all_that_fit(what: Model, workers: int, board: Board, kept: int) -> Iterator[Divided]:
    """Yield every division into equal replicas that fits, on whole GPUs and on parts of one."""
    for tensor, pipeline in itertools.product(
        (1, *board.nvlink_groups), range(1, shape(what.parameters)[0] + 1)
    ):
        if workers % (tensor * pipeline) or (pipeline > 1 and what.sharding in ("zero2", "zero3", "fsdp")):
            continue
        data = workers // (tensor * pipeline)
        state = states(what.parameters, what.precision, what.sharding, what.lora, data)
        needed = state / (tensor * pipeline) + Fraction(kept, tensor)
        for entry in board.profiles:
            is_alone = tensor == pipeline == 1
            if 10 * needed <= 9 * entry.framebuffer_mib * 2**20 and (is_alone or entry.is_full_framebuffer):
                yield data, tensor, pipeline, ceil(workers / entry.max_per_gpu)


def answered(what: Model, workers: int, board: Board) -> set[Divided]:
    found = size_model(what, workers, [board], {}, ())
    return {(one.data, one.tensor, one.pipeline, one.gpus) for one in found}


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("parameters", MODELS)
def test_every_number_of_workers_is_answered_as_counted_out(parameters: int, board: str) -> None:
    what = Model(parameters, Precision.BF16, Optimizer.ADAMW, 4096, 1)
    on = load_catalog().boards[board]
    wrong = [n for n in range(8, 2049, EVERY) if answered(what, n, on) != counted_out(what, n, on)]
    assert wrong == []


@pytest.mark.parametrize(("precision", "lora"), [("fp8", 0), ("bf16", 16), ("fp8", 64)])
@pytest.mark.parametrize("sharding", Sharding)
def test_options_are_answered_as_counted_out(sharding: Sharding, precision: str, lora: int) -> None:
    for parameters, board, workers in itertools.product(
        (7_000_000_000, 175_000_000_000), ("H100XM", "L40S"), (8, 24, 100, 384, 1000)
    ):
        what = Model(parameters, Precision(precision), Optimizer.ADAMW, 4096, 2, sharding, lora)
        on = load_catalog().boards[board]
        assert answered(what, workers, on) == counted_out(what, workers, on), (parameters, board, workers)


def test_gpt_3_on_1024_a100_is_cut_into_eight_by_eight() -> None:
    what = Model(175_000_000_000, Precision.BF16, Optimizer.ADAMW, 4096, 1)
    assert (16, 8, 8, 1024) in answered(what, 1024, load_catalog().boards["A100DX"])


def test_fp8_requires_tensor_cores_that_have_it() -> None:
    what = Model(1_300_000_000, Precision.FP8, Optimizer.ADAMW, 4096, 1)
    assert not answered(what, 8, load_catalog().boards["A100DX"])
    assert answered(what, 8, load_catalog().boards["L40S"])
