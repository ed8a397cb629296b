"""use_booleans: the same truths without bytes."""

import numpy as np
from composites_testing.passes import same_bits, stay

from lowering.stablehlo import Module, use_booleans

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


def program(lines: str) -> Module:
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
          return %r : tensor<3x4xi1>
        }}
    """)


def test_the_result_stays() -> None:
    random = np.random.default_rng(0)
    a, b = random.random((2, 3, 4)) < 0.5
    numbers = random.integers(0, 3, (3, 4)).astype(np.uint8)
    for name, lines in BOOLEAN.items():
        text = same_bits(program(lines), use_booleans, a, b, numbers)
        assert "xui8>, tensor<3x4xui8>) -> tensor<3x4xi1>" not in text, name


def test_nothing_is_left_of_the_bytes() -> None:
    lines = use_booleans(program(BOOLEAN["and"])).text.partition("@logic(%arg0")[2].splitlines()[1:]
    made = [line.split("= ")[1].split()[0] for line in lines if " = " in line]
    # What the head makes and nothing reads stays: it was not read before.
    assert made.count("stablehlo.and") == 1
    assert "stablehlo.compare" not in made


def test_others_stay() -> None:
    stay(use_booleans, map(program, BYTES.values()))
