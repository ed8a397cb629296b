"""Errors of matrix products: PyTorch on the CPU, stock torch_xla and composites against f64.

    python -m benchmarks.precision [--markdown docs/precision.md]

- Products `[64, K] @ [K, 64]` of normal numbers in bf16 and f16, written in each way that a user
  has. An error is a difference from the product of the same narrow numbers in f64, relative to that
  product: norm to norm (Frobenius), and largest to largest.
- The same products of all int8 numbers, whose wrong elements are counted.
- What the program of each way holds: the types of its product, and the bytes that its casts move.
- Weight gradients over micro-batches, of one linear layer and of a small Llama (random weights,
  bf16), with `composites.nn.accumulate_gradients_in_fp32` and without.

Everything runs on XLA:CPU, stock with no composite on.
"""

from __future__ import annotations

import argparse
import copy
import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import Tensor, nn

import composites
from benchmarks.harness.pages import markdown_table, publish, rendered
from benchmarks.training_steps import model_of
from lowering.activation import all_off, enabled
from lowering.stablehlo import Module, casts

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
I8, I32, I64 = torch.int8, torch.int32, torch.int64
NAMES = {BF16: "bf16", F16: "f16", F32: "f32"}
SIZES = (256, 1024, 4096, 16384, 65536)
ROWS = COLUMNS = 64
BATCHES = (1, 4, 16, 64)
TOKENS, VOCABULARY, WIDTH = 32, 96, 64
SEED = 1

aten = torch.ops.aten
out_dtype_operator: Any = torch.ops.higher_order.out_dtype


# How a product can be written.


@dataclass(frozen=True, slots=True)
class Way:
    """A way to write a product whose result is wide."""

    who: str
    """Eager CPU, stock XLA, this project, or a reference that nobody would write."""
    code: str
    """The code of the product, as a user writes it."""
    product: Callable[[Tensor, Tensor], Tensor]
    device: str = "xla"

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """The product of two tensors of the CPU, on the CPU."""
        with self.composites():
            return self.product(a.to(self.device), b.to(self.device)).cpu()

    def composites(self) -> AbstractContextManager[None]:
        return enabled(*(["matmul_out_dtype"] if self.who == OURS else []))


EAGER, STOCK, OURS, REFERENCE = "eager CPU", "stock XLA", "this project", "reference"


def _wide(a: Tensor) -> torch.dtype:
    return F32 if a.is_floating_point() else I32


def _cast_after(a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a, b).to(_wide(a))


def _read_later(a: Tensor, b: Tensor) -> Tensor:
    product = torch.mm(a, b)
    torch_xla.sync()
    return product.to(_wide(a))


def _cast_before(a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a.to(_wide(a)), b.to(_wide(a)))


def _into(a: Tensor, b: Tensor) -> Tensor:
    out = torch.empty(a.shape[0], b.shape[1], dtype=_wide(a), device=a.device)
    return torch.matmul(a, b, out=out)


def _operator(a: Tensor, b: Tensor) -> Tensor:
    result: Tensor = out_dtype_operator(aten.mm.default, _wide(a), a, b)
    return result


def _out_dtype(a: Tensor, b: Tensor) -> Tensor:
    return torch.mm(a, b, out_dtype=_wide(a))


def _one_after_another(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(a.shape[0], b.shape[1])
    for column, row in zip(a.float().T.contiguous(), b.float(), strict=True):
        total.addcmul_(column[:, None], row)
    return total


FLOAT_WAYS = (
    Way(EAGER, "torch.mm(a, b).float()", _cast_after, "cpu"),
    Way(STOCK, "torch.mm(a, b).float()", _cast_after),
    Way(STOCK, "torch.mm(a, b), .float() later", _read_later),
    Way(STOCK, "torch.matmul(a, b, out=c)", _into),
    Way(STOCK, "out_dtype(mm, torch.float32, a, b)", _operator),
    Way(STOCK, "torch.mm(a.float(), b.float())", _cast_before),
    Way(OURS, "torch.mm(a, b, out_dtype=torch.float32)", _out_dtype),
    Way(OURS, "torch.matmul(a, b, out=c)", _into),
    Way(OURS, "out_dtype(mm, torch.float32, a, b)", _operator),
    Way(REFERENCE, "f32, one term after another", _one_after_another, "cpu"),
)
INTEGER_WAYS = (
    Way(EAGER, "torch.mm(a, b).int()", _cast_after, "cpu"),
    Way(EAGER, "torch.matmul(a, b, out=c)", _into, "cpu"),
    Way(EAGER, "out_dtype(mm, torch.int32, a, b)", _operator, "cpu"),
    Way(STOCK, "torch.mm(a, b).int()", _cast_after),
    Way(STOCK, "torch.matmul(a, b, out=c)", _into),
    Way(STOCK, "out_dtype(mm, torch.int32, a, b)", _operator),
    Way(OURS, "torch.mm(a, b, out_dtype=torch.int32)", _out_dtype),
    Way(OURS, "torch.matmul(a, b, out=c)", _into),
    Way(OURS, "out_dtype(mm, torch.int32, a, b)", _operator),
)


# Products.


@dataclass(frozen=True, slots=True)
class Error:
    """The error of a result, relative to the exact one."""

    norm: float
    largest: float

    @classmethod
    def measure(cls, result: Tensor, exact: Tensor) -> Error:
        difference = result.detach().cpu().to(F64) - exact
        return cls(
            norm=float(difference.norm() / exact.norm()),
            largest=float(difference.abs().max() / exact.abs().max()),
        )


@dataclass(frozen=True, slots=True)
class Row:
    """The measurements of one way: a value for each K."""

    way: Way
    values: list[Any]

    def cells(self, form: Callable[[Any], str]) -> tuple[str, ...]:
        code = self.way.code if self.way.who == REFERENCE else f"`{self.way.code}`"
        return self.way.who, code, *map(form, self.values)


def operands(size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`[64, K]` and `[K, 64]` on the CPU."""
    generator = torch.Generator().manual_seed(SEED)
    shapes = (ROWS, size), (size, COLUMNS)
    if dtype == I8:
        a, b = (torch.randint(-128, 128, shape, generator=generator) for shape in shapes)
    else:
        a, b = (torch.randn(shape, generator=generator) for shape in shapes)
    return a.to(dtype), b.to(dtype)


def products(sizes: Sequence[int], dtype: torch.dtype) -> list[Row]:
    """The errors of every way to write a product of floats."""
    rows = [Row(way, []) for way in FLOAT_WAYS]
    for size in sizes:
        a, b = operands(size, dtype)
        exact = torch.mm(a.to(F64), b.to(F64))
        for row in rows:
            row.values.append(Error.measure(row.way(a, b), exact))
    return rows


def integer_products(sizes: Sequence[int]) -> list[Row]:
    """The wrong elements of every way to write a product of int8; None where it is refused."""
    rows = [Row(way, []) for way in INTEGER_WAYS]
    for size in sizes:
        a, b = operands(size, I8)
        exact = torch.mm(a.to(I64), b.to(I64))
        for row in rows:
            row.values.append(wrong_elements(row.way, a, b, exact))
    return rows


def wrong_elements(way: Way, a: Tensor, b: Tensor, exact: Tensor) -> int | None:
    try:
        return int((way(a, b).to(I64) != exact).sum())
    except RuntimeError as error:
        if "Expected out tensor to have dtype" not in str(error):
            raise
        return None


# Programs.


def programs(size: int, dtype: torch.dtype) -> list[Row]:
    """A row for the StableHLO of every way that is one graph: the types of its product, and the
    number and the bytes of its casts."""
    a, b = (tensor.to("xla") for tensor in operands(size, dtype))
    ways = [w for w in FLOAT_WAYS if w.device == "xla" and w.product is not _read_later]
    return [Row(way, program(way, a, b)) for way in ways]


def program(way: Way, a: Tensor, b: Tensor) -> list[str]:
    with way.composites():
        text = xm.get_stablehlo([way.product(a, b)])
    (signature,) = re.findall(r"stablehlo\.dot_general\b[^\n]* : (\([^\n]*)", text)
    report = casts(Module.parse(text))
    types = re.sub(r"tensor<(?:\d+x)*(\w+)>", r"\1", signature).replace("->", "→")
    return [f"`{types}`", str(report.count), f"{report.bytes:,}"]


# Weight gradients over micro-batches.


Step = Callable[[nn.Module, int], Tensor]
"""The loss of a module in a micro-batch, given by its number."""


def linear() -> tuple[nn.Module, Step]:
    """A layer whose exact gradient is that of the same bf16 numbers: the sums alone."""
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False))

    def loss(module: nn.Module, batch: int) -> Tensor:
        generator = torch.Generator().manual_seed(batch)
        weight = next(module.parameters())
        x, grad = (torch.randn(TOKENS, WIDTH, generator=generator).to(BF16) for _ in range(2))
        result: Tensor = module(x.to(weight)) * grad.to(weight)
        return result.sum()

    return module, loss


def llama() -> tuple[nn.Module, Step]:
    """Two layers; its bf16 activations differ from those in f64 too."""
    torch.manual_seed(SEED)
    model = model_of("precise llama")

    def loss(module: nn.Module, batch: int) -> Tensor:
        generator = torch.Generator().manual_seed(batch)
        ids = torch.randint(0, VOCABULARY, (2, TOKENS // 2), generator=generator)
        ids = ids.to(next(module.parameters()).device)
        result: Tensor = module(input_ids=ids, labels=ids).loss
        return result

    return model, loss


MODELS = {"one linear layer": linear, "llama": llama}


def accumulated(name: str, batches: Sequence[int]) -> Sequence[tuple[str, ...]]:
    """Rows of the mean error of a module's weight gradients, after numbers of micro-batches."""
    torch.zeros(1, device="xla")  # autograd must know XLA's devices before its first backward
    module, loss = MODELS[name]()
    module = module.to(BF16).eval()
    exact = copy.deepcopy(module).to(F64)
    stock, ours = copy.deepcopy(module).to("xla"), copy.deepcopy(module).to("xla")
    rows = []
    main = composites.nn.accumulate_gradients_in_fp32(ours)
    for batch in range(1, max(batches) + 1):
        loss(exact, batch).backward()
        with all_off():
            loss(stock, batch).backward()
            torch_xla.sync()
        loss(ours, batch).backward()
        torch_xla.sync()
        if batch in batches:
            expected = _weights(exact)
            stock_error = _mean_error(_weights(stock), expected)
            our_error = _mean_error([main[w] for w in _weights(ours)], expected)
            rows.append((name, str(batch), f"{stock_error:.1e}", f"{our_error:.1e}"))
    return rows


def _weights(module: nn.Module) -> list[Tensor]:
    return [layer.weight for layer in module.modules() if isinstance(layer, nn.Linear)]


def _mean_error(weights: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    errors = []
    for weight, reference in zip(weights, expected, strict=True):
        assert weight.grad is not None
        assert reference.grad is not None
        errors.append(Error.measure(weight.grad, reference.grad).norm)
    return sum(errors) / len(errors)


# Output.


def tables() -> dict[str, str]:
    """Measure all tables, by their names in the template of the page."""
    by_size = ("", "product", *(f"K = {size}" for size in SIZES))
    floats = {
        NAMES[dtype]: [row.cells(_norm_and_largest) for row in products(SIZES, dtype)]
        for dtype in (BF16, F16)
    }
    wrong = [
        row.cells(lambda n: "refused" if n is None else str(n)) for row in integer_products(SIZES)
    ]
    program_head = ("", "product", "operands → result", "casts", "bytes they move")
    sums = ("model", "micro-batches", "stock XLA", "accumulate_gradients_in_fp32")
    return {
        **{name: _table(by_size, cells) for name, cells in floats.items()},
        "i8": _table(by_size, wrong),
        "programs": _table(program_head, [row.cells(str) for row in programs(SIZES[-1], BF16)]),
        "accumulated": _table(sums, [row for name in MODELS for row in accumulated(name, BATCHES)]),
    }


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(markdown_table(head, rows, numbers=range(2, len(head))))


def _norm_and_largest(error: Error) -> str:
    return f"{error.norm:.1e} / {error.largest:.1e}"


def page() -> str:
    """docs/precision.md, whole."""
    return rendered(
        "precision.md.jinja",
        tables=tables(),
        elements=ROWS * COLUMNS,
        largest=SIZES[-1],
        versions={name: version(name) for name in ("torch", "torch_xla", "jax", "transformers")},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--markdown", type=Path, help="write the page to this file")
    with all_off():
        publish(page(), parser.parse_args().markdown)


if __name__ == "__main__":
    main()
