"""C++ kernels in place of composites: counted as called, and the same numbers as PyTorch."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.example_models import compare as agree
from composites_testing.example_models import export_example, load_example
from composites_testing.modules import Calling
from composites_testing.selection import exhaustive

import composites
from lowering import stablehlo
from lowering.stablehlo.comparison.difference import error
from lowering.stablehlo.comparison.inputs import make_inputs
from lowering.stablehlo.inspection.report import distinct_calls
from lowering.stablehlo.single_calls import decomposition_module

REPLACED = {"bert": (3, 2), "gpt2": (2, 2), "vit": (2, 2)}


@pytest.mark.parametrize("way", ["to_custom_call", "bind"])
@pytest.mark.parametrize("name", ["gpt2", *exhaustive("bert", "vit")])
def test_a_training_step_runs_on_the_kernels(name: str, way: str, kernels: Any) -> None:
    program, model = export_example(name, "gradients"), load_example(name)
    if way == "bind":
        module = stablehlo.bind(program.module, kernels.functions, platform="cpu")
    else:
        module = stablehlo.to_custom_call(program.module, kernels.targets)
    gelus, softmaxes = REPLACED[name]
    text = module.text
    assert "ptxla.layer_norm" in text
    if way == "bind":  # composites stay, and equal calls share the decomposition
        assert text.count('stablehlo.composite "ptxla.gelu"') == gelus
        assert text.count("@example_gelu(") == len(set(kernels_of(text)))
    else:
        assert text.count("stablehlo.custom_call @example_gelu(") == gelus
        assert "backend_config = {dim = 3 : i64}" in text
        assert "ptxla.gelu" not in text
    before = Counter(kernels.calls())
    results = stablehlo.run(module, *model.values(program).values())
    assert Counter(kernels.calls()) - before == {
        "ptxla.gelu": gelus,
        "ptxla.gelu_backward": gelus,
        "ptxla.softmax": softmaxes,
        "ptxla.softmax_backward": softmaxes,
    }
    names = [value.name for value in program.outputs]
    agree(dict(zip(names, map(np.asarray, results), strict=True)), model.step({}))


def kernels_of(text: str) -> list[str]:
    """Functions with a call of the kernel of gelu."""
    return [part for part in text.split("func.func") if "@example_gelu(" in part]


@pytest.mark.parametrize("way", ["targets", pytest.param("bindings", marks=pytest.mark.slow)])
def test_compare_finds_the_kernels_right(way: str, kernels: Any) -> None:
    chosen = kernels.targets if way == "targets" else kernels.functions
    comparison = stablehlo.compare(export_example("gpt2", "gradients").module, **{way: chosen})
    assert comparison.problems == ()
    assert {row.call.name for row in comparison.calls} == set(kernels.targets)
    for row in comparison.calls:
        assert row.numbers is not None
        assert row.numbers.kernel_error is not None
        assert row.numbers.kernel_error < 1e-5


def test_softmax_along_any_dimension(kernels: Any) -> None:
    import jax
    import jax.numpy as jnp

    x = torch.randn(3, 4, 5)
    module = Calling(lambda x: tuple(x.softmax(dim) for dim in range(3)))
    program = composites.export(module, (x,))
    lowered = stablehlo.to_custom_call(program.module, {"ptxla.softmax": "example_softmax"})
    softmax = kernels.functions["ptxla.softmax"]
    for number, actual in enumerate(stablehlo.run(lowered, x.numpy())):
        np.testing.assert_allclose(actual, x.softmax(number), rtol=0, atol=1e-6)

    def from_the_end(x: Any) -> Any:
        return jnp.stack([softmax(x, dim=np.int64(dim)) for dim in (-1, -2, -3)])

    (actual,) = stablehlo.run(
        stablehlo.Module.parse(jax.jit(from_the_end).lower(x.numpy()).as_text()), x.numpy()
    )
    expected = torch.stack([x.softmax(dim) for dim in (-1, -2, -3)])
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*REPLACED, "conv_net"])
def test_every_call_of_a_training_step_can_be_compared(name: str) -> None:
    """Operands that are made give finite numbers, and all decompositions have a form in f64."""
    module = stablehlo.clean(export_example(name, "gradients").module)
    calls = distinct_calls(module)
    assert len(calls) > 10
    for call, decomposition in calls:
        plain = decomposition_module(module, decomposition)
        executable = stablehlo.compile_module(plain)
        inputs = make_inputs(plain, executable)
        results = executable(*inputs.arrays)
        assert all(np.isfinite(np.asarray(result, float)).all() for result in results), call
        wide = stablehlo.compile_module(stablehlo.compute_in_f64(plain))(*inputs.arrays)
        assert error(results, wide) < 1e-5, call
