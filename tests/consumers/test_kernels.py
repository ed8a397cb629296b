"""C++ kernels in place of composites: counted as called, and the same numbers as PyTorch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from composites_testing.selection import only_fast

from lowering.stablehlo import (
    bind,
    clean,
    compare,
    compile_module,
    compute_in_f64,
    run,
    to_custom_call,
)
from lowering.stablehlo.comparison.difference import error
from lowering.stablehlo.comparison.inputs import make_inputs
from lowering.stablehlo.comparison.isolate import decomposition_module
from lowering.stablehlo.inspection.report import distinct_calls

REPLACED = {"bert": (3, 2), "gpt2": (2, 2), "vit": (2, 2)}


def substituted(way: str, module: Any, kernels: Any) -> Any:
    if way == "to_custom_call":
        return to_custom_call(module, kernels.targets)
    return bind(module, kernels.functions, platform="cpu")


@pytest.mark.parametrize("way", ["to_custom_call", "bind"])
@pytest.mark.parametrize("name", only_fast(sorted(REPLACED), "gpt2"))
def test_a_training_step_runs_on_the_kernels(
    name: str, way: str, subject: Any, kernels: Any
) -> None:
    step = subject(name, train=True)
    module = substituted(way, step.program.module, kernels)
    before = Counter(kernels.calls())
    results = run(module, *step.values)
    gelus, softmaxes = REPLACED[name]
    assert Counter(kernels.calls()) - before == {
        "ptxla.gelu": gelus,
        "ptxla.gelu_backward": gelus,
        "ptxla.softmax": softmaxes,
        "ptxla.softmax_backward": softmaxes,
    }
    step.check(results)


def test_to_custom_call_leaves_calls_of_the_kernels(subject: Any, kernels: Any) -> None:
    text = to_custom_call(subject("gpt2", train=True).program.module, kernels.targets).text
    assert text.count("stablehlo.custom_call @example_gelu(") == 2
    assert 'backend_config = {approximate = "tanh"}' in text
    assert "backend_config = {dim = 3 : i64}" in text
    assert "ptxla.gelu" not in text
    assert "ptxla.layer_norm" in text


def test_bind_keeps_the_composites(subject: Any, kernels: Any) -> None:
    program = subject("gpt2", train=True).program
    text = bind(program.module, kernels.functions, platform="cpu").text
    assert text.count('stablehlo.composite "ptxla.gelu"') == 2
    assert text.count("@example_gelu(") == 1  # both layers share the decomposition


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_softmax_along_any_dimension(dim: int, kernels: Any) -> None:
    import torch

    import composites

    x = torch.randn(3, 4, 5, requires_grad=True)
    module = torch.nn.Softmax(dim)
    program = composites.export(module, (x,))
    got = run(
        to_custom_call(program.module, {"ptxla.softmax": "example_softmax"}), x.detach().numpy()
    )
    np.testing.assert_allclose(got[0], module(x).detach().numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("way", ["targets", "functions"])
def test_compare_finds_the_kernels_right(way: str, subject: Any, kernels: Any) -> None:
    module = subject("gpt2", train=True).program.module
    given = {"targets": kernels.targets} if way == "targets" else {"bindings": kernels.functions}
    comparison = compare(module, **given)
    assert comparison.problems == ()
    assert {row.call.name for row in comparison.calls} == set(kernels.targets)
    for row in comparison.calls:
        assert row.numbers is not None
        assert row.numbers.kernel_error is not None
        assert row.numbers.kernel_error < 1e-5


@pytest.mark.parametrize("dim", [-1, -2, -3])
def test_softmax_along_a_dimension_from_the_end(dim: int, kernels: Any) -> None:
    import jax
    import jax.numpy as jnp

    from lowering.stablehlo import Module

    x = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
    softmax = kernels.functions["ptxla.softmax"]
    text = jax.jit(lambda x: softmax(x, dim=np.int64(dim))).lower(x).as_text()
    (got,) = run(Module.parse(text), x)
    np.testing.assert_allclose(got, jax.nn.softmax(jnp.asarray(x), axis=dim), rtol=0, atol=1e-6)


@pytest.mark.exhaustive
def test_every_call_of_a_training_step_can_be_compared(model_name: str, subject: Any) -> None:
    """Operands that are made give finite numbers, and all decompositions have a form in f64."""
    module = clean(subject(model_name, train=True).program.module)
    calls = distinct_calls(module)
    assert len(calls) > 10
    for call, decomposition in calls:
        plain = decomposition_module(module, decomposition)
        executable = compile_module(plain)
        inputs = make_inputs(plain, executable)
        results = executable(*inputs.arrays)
        assert all(np.isfinite(np.asarray(result, float)).all() for result in results), call
        wide = compile_module(compute_in_f64(plain))(*inputs.arrays)
        assert error(results, wide) < 1e-5, call
