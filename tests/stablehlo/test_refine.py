"""Programs whose sizes vary, at one size: composites, numbers, and sizes that do not fit."""

import numpy as np
import pytest
from composites_testing.passes import load

from lowering.stablehlo import DynamicSizeError, Module, compile_module, composite_count, refine


def test_a_program_at_a_size_keeps_its_composites() -> None:
    varying = load("varying")
    for module in (varying, Module.from_bytes(varying.portable())):
        for b, s in ((2, 3), (1, 5)):
            refined = refine(module, [f"tensor<{b}x{s}x4xf32>"])
            assert "?" not in refined.text
            assert "optimization_barrier" not in refined.text
            assert '"acme.scale" %c, %arg0 {composite_attributes = {axis = 1 : i64}' in refined.text
            assert refined.text.count("func.func private") == 2  # calls share decompositions again
            assert composite_count(refined) == composite_count(varying)
            x = np.arange(b * s * 4, dtype=np.float32).reshape(b, s, 4)
            (result,) = compile_module(refined)(x)
            np.testing.assert_allclose(result, x * (4 / 25), rtol=1e-6)


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(DynamicSizeError, match="the program cannot have inputs of tensor<2x3x5"):
        refine(load("varying"), ["tensor<2x3x5xf32>"])
