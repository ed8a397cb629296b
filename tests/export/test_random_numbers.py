"""Random numbers of a program are the same with both frontends.

golden/random_numbers.json has those that torch_xla 2.9 gives on the CPU for one seed.
COMPOSITES_WRITE_GOLDEN=1 writes it, where torch_xla is the frontend:

    COMPOSITES_WRITE_GOLDEN=1 pytest tests/export/test_random_numbers.py
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.modules import Calling
from composites_testing.selection import variants
from torch import Tensor
from torch.nn import functional

import composites

GOLDEN = Path(__file__).parent / "golden" / "random_numbers.json"
SEED = 12345
GIVEN = torch.linspace(-2, 2, 16)

CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "dropout": lambda x: functional.dropout(x, 0.3),
    "dropout, most": lambda x: functional.dropout(x, 0.9),
    "dropout, all": lambda x: functional.dropout(x, 1.0),
    "dropout, f64": lambda x: functional.dropout(x.double(), 0.3),
    "dropout, bf16": lambda x: functional.dropout(x.bfloat16(), 0.3),
    "dropout, f16": lambda x: functional.dropout(x.half(), 0.3),
    "dropout of channels": lambda x: functional.dropout1d(x.reshape(1, 8, 2), 0.3),
    "alpha dropout": lambda x: functional.alpha_dropout(x, 0.3, training=True),
    "rand": torch.rand_like,
    "rand, f64": lambda x: torch.rand_like(x.double()),
    "rand, bf16": lambda x: torch.rand_like(x.bfloat16()),
    "rand, f16": lambda x: torch.rand_like(x.half()),
    "rand twice": lambda x: torch.rand_like(x) + 2 * torch.rand_like(x),
    "rand, dropout, rand, dropout": lambda x: torch.stack(
        [draw(x) for draw in (torch.rand_like, functional.dropout) * 2]
    ),
    "uniform": lambda x: torch.empty_like(x).uniform_(2, 5),
    "uniform, bf16": lambda x: torch.empty_like(x.bfloat16()).uniform_(2, 5),
    "bernoulli of a tensor": lambda x: torch.bernoulli(x.sigmoid()),
    "bernoulli of a tensor, bf16": lambda x: torch.bernoulli(x.bfloat16().sigmoid()),
    "bernoulli of a number": lambda x: torch.empty_like(x).bernoulli_(0.4),
    "integers": lambda x: torch.randint(3, 11, (16,), device=x.device),
    "a permutation": lambda x: torch.randperm(16, device=x.device),
    "a permutation, i32": lambda x: torch.randperm(9, dtype=torch.int32, device=x.device),
    "normal, even": torch.randn_like,
    "normal, odd": lambda x: torch.randn_like(x[:15].reshape(3, 5)),
    "normal, one": lambda x: torch.randn_like(x[0]),
    "normal, the second dimension even": lambda x: torch.randn_like(x[:12].reshape(3, 4)),
    "normal, f64": lambda x: torch.randn_like(x.double()),
    "normal, bf16": lambda x: torch.randn_like(x.bfloat16()),
    "normal, of a mean": lambda x: torch.empty_like(x).normal_(1.0, 2.0),
    "normal around a tensor": lambda x: torch.normal(x, 2.0),
    "normal of a tensor's width": lambda x: torch.normal(1.0, x.abs()),
    "normal around a tensor, of a tensor's width": lambda x: torch.normal(x, x.abs()),
    "exponential": lambda x: torch.empty_like(x).exponential_(2.0),
    "exponential, bf16": lambda x: torch.empty_like(x.bfloat16()).exponential_(2.0),
    "gumbel": lambda x: functional.gumbel_softmax(x.reshape(2, 8)),
}


FAST = (
    *("dropout", "dropout, bf16", "alpha dropout", "rand twice", "rand, f64", "uniform"),
    "rand, dropout, rand, dropout",
    *("bernoulli of a tensor", "integers", "a permutation", "normal, even", "normal, odd"),
    *("normal of a tensor's width", "exponential"),
)
"""A call of each operator."""


def drawn(function: Callable[[Tensor], Tensor]) -> list[float]:
    program = composites.export(Calling(function), (GIVEN,))
    values = {"arg:0": GIVEN.numpy(), "rng_seed": np.int64(SEED)}
    outputs: Any = program.run({value.name: values[value.name] for value in program.inputs})
    numbers: list[float] = np.asarray(outputs["out:0"], np.float64).ravel().tolist()
    return numbers


@variants("name", CASES, fast=FAST)
def test_the_numbers_are_those_of_torch_xla(name: str) -> None:
    numbers = drawn(CASES[name])
    golden = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
    if os.environ.get("COMPOSITES_WRITE_GOLDEN"):
        golden[name] = numbers
        lines = ",\n".join(f" {json.dumps(n)}: {json.dumps(golden[n])}" for n in sorted(golden))
        GOLDEN.write_text(f"{{\n{lines}\n}}\n", "utf-8")
    if name.startswith(("normal", "exponential", "gumbel")):
        # Logarithms of two releases of XLA differ in their last bits.
        assert numbers == pytest.approx(golden[name], rel=1e-5, abs=1e-6)
    else:
        assert numbers == golden[name]
