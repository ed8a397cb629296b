"""Modules for the tests of passes, and what is checked of each pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lowering.stablehlo import Module, run

Pass = Callable[[Module], Module]


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
    for want, found in zip(run(module, *inputs), run(after, *inputs), strict=True):
        assert found.dtype == want.dtype
        assert found.tobytes() == want.tobytes(), f"{found} instead of {want}"
    return after.text


def same_values(module: Module, change: Pass, *inputs: Any) -> str:
    """The same, where a NaN may be any other one."""
    after = changed(module, change)
    for want, found in zip(run(module, *inputs), run(after, *inputs), strict=True):
        np.testing.assert_array_equal(found, want)
    return after.text


def stay(change: Pass, modules: Iterable[Module]) -> None:
    """Check that a pass leaves modules as they are."""
    others = [module.text for module in modules if change(module).text != module.text]
    assert not others, f"{change} changes:\n" + "\n".join(others)
