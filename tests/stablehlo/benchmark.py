"""Time of each step on a module of 1,000 composites as torch_xla prints them.

    python tests/stablehlo/benchmark.py [COMPOSITES]

Every composite comes with a wrapper and a decomposition of its own: 14 operations in all. The
best of five runs is shown. A script and not a test: how long it takes depends on the machine.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from string import Template
from typing import TypeVar

from lowering.stablehlo import (
    Module,
    clean,
    clean_passes,
    decompose,
    html_page,
    inspect,
    legalize_chlo,
    to_custom_call,
)

T = TypeVar("T")

CALL = Template("  %$next = call @m.$i(%$i) : (!t) -> !t\n")
FUNCTIONS = Template("""
func.func private @m.$i(%arg0: !t) -> !t {
  %0 = stablehlo.composite "ptxla.gelu" %arg0 {composite_attributes = {approximate = "none"},
    decomposition = @ptxla.gelu.impl.$i, version = 1 : i32} : (!t) -> !t
  return %0 : !t
}
func.func private @ptxla.gelu.impl.$i(%arg0: !t) -> !t {
  %one = stablehlo.constant dense<1.0> : !t
  %root = stablehlo.constant dense<0.707106769> : !t
  %half = stablehlo.constant dense<0.5> : !t
  %0 = stablehlo.multiply %arg0, %half : !t
  %1 = stablehlo.multiply %arg0, %root : !t
  %2 = stablehlo.custom_call @mhlo.erf(%1) {mhlo.attributes = {}} : (!t) -> !t
  %3 = stablehlo.add %2, %one : !t
  %4 = stablehlo.multiply %0, %3 : !t
  return %4 : !t
}
""")


def chain(count: int) -> str:
    """A chain of `count` composites as text."""
    calls = "".join(CALL.substitute(i=i, next=i + 1) for i in range(count))
    main = f"func.func @main(%0: !t) -> !t {{\n{calls}  return %{count} : !t\n}}"
    functions = "".join(FUNCTIONS.substitute(i=i) for i in range(count))
    return "!t = tensor<8x16xf32>\n" + main + functions


def timed(label: str, step: Callable[[], T]) -> T:
    """Print the best of five runs, and give back the last value."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        value = step()
        best = min(best, time.perf_counter() - start)
    print(f"{label:40s} {best * 1e3:8.1f} ms")
    return value


def main() -> None:
    """Time every step and print one line for each."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    text = chain(count)
    raw = timed(f"parse ({len(text) // 1024} KiB)", lambda: Module.parse(text))
    module = raw
    for step in clean_passes():
        module = timed(f"  {getattr(step, '__name__', step)}", partial(step, module))
    cleaned = timed("clean, all passes, verified", lambda: clean(raw))
    own = timed("clean, share=False", lambda: clean(raw, share=False))
    for label, given in (("shared", cleaned), ("a function each", own)):
        timed(f"decompose, {label}", partial(decompose, given))
        timed(f"to_custom_call, {label}", partial(to_custom_call, given, {"ptxla.gelu": "k"}))
        timed(f"legalize_chlo, {label}", partial(legalize_chlo, given))
        timed(f"inspect, {label}", partial(inspect, given))
        timed(f"text, {label}", partial(getattr, given, "text"))
        timed(f"portable, {label}", given.portable)
    timed("inspect, as torch_xla prints it", lambda: inspect(raw))
    timed("html page", lambda: html_page(cleaned))


if __name__ == "__main__":
    main()
