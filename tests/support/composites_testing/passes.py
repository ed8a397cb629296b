"""Modules for the tests of passes, and what is checked of each pass."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from lowering.stablehlo import Module, compile_module, run
from lowering.stablehlo.dtypes import static_tensor

Pass = Callable[[Module], Module]
DATA = Path(__file__).parents[2] / "stablehlo" / "data"


def load(name: str) -> Module:
    """Read a module from the data folder by its name without `.mlir`."""
    return Module.read(DATA / f"{name}.mlir")


def composite_module(
    name: str, operand: str, body: str = "", result: str = "", *, attributes: str = "{}"
) -> Module:
    """`@main` calls a composite of one operand, `%x`, whose decomposition is `body` and returns
    `%r`; without a body, the operand."""
    result = result or operand
    returned = "%r" if body else "%x"
    return Module.parse(f"""
        func.func @main(%x: {operand}) -> {result} {{
          %0 = stablehlo.composite "{name}" %x {{composite_attributes = {attributes},
            decomposition = @impl}} : ({operand}) -> {result}
          return %0 : {result}
        }}
        func.func private @impl(%x: {operand}) -> {result} {{
          {body}
          return {returned} : {result}
        }}
    """)


def program(body: str, operands: str, result: str) -> Module:
    """A function of these operands, as in `%x: tensor<4xf32>`, that returns `%r`."""
    return Module.parse(
        f"func.func @main({operands}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    )


def changed(module: Module, change: Pass) -> Module:
    """The result of a pass, which is valid and has nothing more to change for the pass. The module
    is as before."""
    before = module.text
    result = change(module)
    result.verify()
    assert module.text == before
    assert change(result).text == result.text
    return result


def same_bits(module: Module, change: Pass, *inputs: Any) -> str:
    """The text after a pass. The results for these inputs have the same bits as before."""
    after = changed(module, change)
    for expected, actual in zip(run(module, *inputs), run(after, *inputs), strict=True):
        assert actual.dtype == expected.dtype
        assert actual.tobytes() == expected.tobytes(), f"{actual} instead of {expected}"
    return after.text


def same_numbers(before: Module, *afters: Module, tolerance: float = 0.0) -> None:
    """Run modules on jax's CPU client with one set of random inputs and compare the outputs.

    `tolerance` is relative to the largest value of each output.
    """
    reference = compile_module(before)
    inputs = random_inputs(reference.inputs)
    expected = reference(*inputs)
    for after in afters:
        for value, result in zip(expected, compile_module(after)(*inputs), strict=True):
            atol = float(tolerance * np.abs(value).max())
            left, right = result.astype(complex), value.astype(complex)  # NumPy 1 compares no bf16
            np.testing.assert_allclose(left, right, rtol=0, atol=atol)


def random_inputs(types: tuple[str, ...]) -> list[Any]:
    """Normally distributed arrays of these tensor types, the same on every call."""
    random = np.random.default_rng(0)
    static = [tensor for tensor in map(static_tensor, types) if tensor is not None]
    assert len(static) == len(types), types
    return [np.asarray(random.standard_normal(shape), dtype) for shape, dtype in static]


def stay(change: Pass, modules: Iterable[Module]) -> None:
    """Check that a pass leaves modules as they are."""
    changed = [module.text for module in modules if change(module).text != module.text]
    assert not changed, f"{change} changes:\n" + "\n".join(changed)
