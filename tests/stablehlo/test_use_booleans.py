"""use_booleans: the same truths without bytes."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.stablehlo import Module, run, use_booleans

HEAD = """
  %zero = stablehlo.constant dense<0> : tensor<3x4xui8>
  %one = stablehlo.constant dense<1> : tensor<3x4xui8>
  %two = stablehlo.constant dense<2> : tensor<3x4xui8>
  %p = stablehlo.convert %a : (tensor<3x4xi1>) -> tensor<3x4xui8>
  %q = stablehlo.convert %b : (tensor<3x4xi1>) -> tensor<3x4xui8>
"""
SAME = "(tensor<3x4xui8>, tensor<3x4xui8>) -> tensor<3x4xi1>"
BOOLEAN = {
    "and": f"""
      %c = stablehlo.and %p, %q : tensor<3x4xui8>
      %r = stablehlo.compare NE, %c, %zero : {SAME}""",
    "chains": f"""
      %c = stablehlo.and %p, %q : tensor<3x4xui8>
      %d = stablehlo.compare NE, %c, %zero : {SAME}
      %e = stablehlo.convert %d : (tensor<3x4xi1>) -> tensor<3x4xui8>
      %f = stablehlo.or %e, %q : tensor<3x4xui8>
      %g = stablehlo.xor %f, %one : tensor<3x4xui8>
      %r = stablehlo.compare NE, %g, %zero : {SAME}""",
    "equal": f"%r = stablehlo.compare EQ, %p, %q, UNSIGNED : {SAME}",
    "equal to one": f"%r = stablehlo.compare EQ, %p, %one : {SAME}",
    "not one": f"%r = stablehlo.compare NE, %p, %one : {SAME}",
    "equal to zero": f"%r = stablehlo.compare EQ, %p, %zero : {SAME}",
    "zero first": f"%r = stablehlo.compare NE, %zero, %p : {SAME}",
    "moved": f"""
      %c = stablehlo.transpose %p, dims = [1, 0] : (tensor<3x4xui8>) -> tensor<4x3xui8>
      %d = stablehlo.reshape %c : (tensor<4x3xui8>) -> tensor<3x4xui8>
      %e = stablehlo.select %a, %d, %zero : tensor<3x4xi1>, tensor<3x4xui8>
      %r = stablehlo.compare NE, %e, %zero : {SAME}""",
}
BYTES = {
    "an order": f"%r = stablehlo.compare LT, %p, %q : {SAME}",
    "sums": f"""
      %c = stablehlo.add %p, %q : tensor<3x4xui8>
      %r = stablehlo.compare NE, %c, %zero : {SAME}""",
    "other numbers": f"%r = stablehlo.compare NE, %p, %two : {SAME}",
    "numbers that are given": f"%r = stablehlo.compare NE, %n, %zero : {SAME}",
    "sharded": f"""
      %c = stablehlo.and %p, %q {{mhlo.sharding = "{{replicated}}"}} : tensor<3x4xui8>
      %r = stablehlo.compare NE, %c, %zero : {SAME}""",
}


def program(lines: str, result: str = "%r") -> Module:
    return Module.parse(f"""
        func.func @main(%a: tensor<3x4xi1>, %b: tensor<3x4xi1>, %n: tensor<3x4xui8>)
            -> tensor<3x4xi1> {{
          %0 = stablehlo.composite "acme.logic" %a, %b, %n {{decomposition = @logic}}
            : (tensor<3x4xi1>, tensor<3x4xi1>, tensor<3x4xui8>) -> tensor<3x4xi1>
          return %0 : tensor<3x4xi1>
        }}
        func.func private @logic(%a: tensor<3x4xi1>, %b: tensor<3x4xi1>, %n: tensor<3x4xui8>)
            -> tensor<3x4xi1> {{
          {HEAD}{lines}
          return {result} : tensor<3x4xi1>
        }}
    """)


@pytest.mark.parametrize("name", BOOLEAN)
def test_the_result_stays(name: str) -> None:
    module = program(BOOLEAN[name])
    booleans = use_booleans(module)
    booleans.verify()
    assert "xui8>, tensor<3x4xui8>) -> tensor<3x4xi1>" not in booleans.text
    random = np.random.default_rng(0)
    a, b = random.random((2, 3, 4)) < 0.5
    numbers = random.integers(0, 3, (3, 4)).astype(np.uint8)
    (want,), (found,) = (run(each, a, b, numbers) for each in (module, booleans))
    np.testing.assert_array_equal(found, want)
    assert use_booleans(booleans).text == booleans.text


def test_nothing_is_left_of_the_bytes() -> None:
    lines = use_booleans(program(BOOLEAN["and"])).text.partition("@logic(%arg0")[2].splitlines()[1:]
    made = [line.split("= ")[1].split()[0] for line in lines if " = " in line]
    # What the head makes and nothing reads stays: it was not read before.
    assert made.count("stablehlo.and") == 1
    assert "stablehlo.compare" not in made


@pytest.mark.parametrize("name", BYTES)
def test_others_stay(name: str) -> None:
    module = program(BYTES[name])
    assert use_booleans(module).text == module.text
