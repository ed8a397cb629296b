"""legalize_remainders among other passes; passes/legalize_remainders.mlir has more."""

import numpy as np
from composites_testing.passes import program

from lowering.stablehlo import TARGETS, run, run_passes


def test_the_least_integers() -> None:
    wrong = []
    for bits in (8, 16, 32, 64):
        dtype = np.dtype(f"int{bits}")
        least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
        row = np.array([least, least + 1, greatest, -10, -3, -2, -1, 1, 2, 3, 10], dtype)
        x, y = np.meshgrid(row, row)
        type_ = f"tensor<11x11xi{bits}>"
        body = f"%r = stablehlo.remainder %x, %y : {type_}"
        module = program(body, f"%x: {type_}, %y: {type_}", type_)
        lowered = run_passes(module, [*TARGETS["portable"].passes])
        (want,), (found,) = (run(each, x, y) for each in (module, lowered))
        if found.tobytes() != want.tobytes():
            wrong.append((bits, x[found != want], y[found != want], found[found != want]))
    assert not wrong
