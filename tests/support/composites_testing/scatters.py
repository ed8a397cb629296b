"""Scatters of many forms, and numbers for them."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lowering.stablehlo import Module

DATA = Path(__file__).parents[2] / "stablehlo" / "data"
FORMS = yaml.safe_load((DATA / "scatters.yaml").read_text(encoding="utf-8"))


def scatter(
    form: str, combination: str, element: str = "f32", index: str = "i64", attributes: str = ""
) -> Module:
    """`@main` calls a composite whose decomposition is the scatter."""
    shapes, numbers = FORMS[form].values()
    types = [
        f"tensor<{'x'.join([*map(str, shape), kind])}>"
        for shape, kind in zip(shapes, (element, index, element), strict=True)
    ]
    computed = f"%1 = stablehlo.{combination} %a, %b : tensor<{element}>" if combination else ""
    signature = f"({', '.join(types)}) -> {types[0]}"
    return Module.parse(f"""
        func.func @main(%x: {types[0]}, %i: {types[1]}, %u: {types[2]}) -> {types[0]} {{
          %0 = stablehlo.composite "acme.scatter" %x, %i, %u {{decomposition = @scatter}}
            : {signature}
          return %0 : {types[0]}
        }}
        func.func private @scatter(%x: {types[0]}, %i: {types[1]}, %u: {types[2]}) -> {types[0]} {{
          %0 = "stablehlo.scatter"(%x, %i, %u) <{{
            scatter_dimension_numbers = #stablehlo.scatter<{numbers}>}}> ({{
          ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
            {computed}
            stablehlo.return %{1 if combination else "b"} : tensor<{element}>
          }}) {{{attributes}}} : {signature}
          return %0 : {types[0]}
        }}
    """)


def arguments(form: str, dtype: Any, index: str = "i64", far: bool = True) -> list[Any]:
    """An operand, indices of which some are outside, and updates. Repeated indices are frequent."""
    random = np.random.default_rng(0)
    shape, indices, updates = FORMS[form]["shapes"]
    wide = np.int64 if index == "i64" else np.int32
    positions = random.integers(-1, max(shape) + 1, indices).astype(wide)
    if far and index == "i64":
        positions.flat[0] = 2**32
    numbers = [(random.standard_normal(size) * 4).astype(dtype) for size in (shape, updates)]
    return [numbers[0], positions, numbers[1]]


def not_sums(combination: str) -> list[Module]:
    """Scatters that passes leave as they are: of this combination, sharded, and dynamic."""
    plain = scatter("rows", "add")
    return [
        scatter("rows", combination),
        scatter("rows", "add", attributes='mhlo.sharding = "{replicated}"'),
        Module.parse(plain.text.replace("tensor<6x", "tensor<?x")),
    ]
