"""C++ kernels in place of composites: counted as called, and the same numbers as PyTorch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from composites_testing.selection import only_fast

from lowering.stablehlo import bind, run, to_custom_call

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
    assert "ptxla.log_softmax" in text


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
