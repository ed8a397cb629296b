"""Norms of graphs that several devices share: their values, and that one device has stock's."""

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla
from composites_testing.processes import run_python
from torch import Tensor

import composites
from composites.errors import UnsupportedCallError
from composites.operators import norms


def operands(shape: tuple[int, ...], affine: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(s, generator=generator).double() for s in (shape, affine, affine, shape)]
    return [*(tensor.requires_grad_() for tensor in made[:3]), made[3]]


def check(
    stock: Callable[..., Tensor],
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    shape: tuple[int, ...],
    affine: tuple[int, ...],
    statistics: Callable[..., Any] | None = None,
) -> None:
    """Compare with PyTorch, with weight and bias, and without.

    Args:
        statistics: PyTorch's operator, which returns mean and reciprocal deviation too.
    """
    for given in (3, 1):
        leaves, grad = operands(shape, affine)[:given], operands(shape, affine)[3]
        absent = [None] * (3 - given)
        result = stock(*leaves, *absent)
        gradients = torch.autograd.grad(result, leaves, grad)
        with torch.no_grad():
            found = forward(*leaves, *absent)
            saved = () if isinstance(found, Tensor) else found[1:]
            if statistics is not None:
                torch.testing.assert_close(saved, statistics(*leaves, *absent)[1:])
            ours = backward(grad, *leaves, *absent, *saved)
        torch.testing.assert_close(found if isinstance(found, Tensor) else found[0], result)
        for one, other in zip(ours, gradients, strict=False):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 4, 6), (6,), (1, 1, 6)])
@pytest.mark.parametrize("dims", [1, 2])
def test_layer_norm(shape: tuple[int, ...], dims: int) -> None:
    if dims > len(shape):
        shape = (5, *shape)
    last = shape[-dims:]
    check(
        lambda x, w, b: F.layer_norm(x, last, w, b),
        lambda x, w, b: norms.layer_norm_apart(x, last, w, b, 1e-5),
        lambda g, x, w, b, m, r: norms.layer_norm_backward_apart(g, None, None, x, w, m, r, last),
        shape,
        last,
        lambda x, w, b: torch.native_layer_norm(x, last, w, b, 1e-5),
    )


@pytest.mark.parametrize("sizes", [(), (5,), (3, 4), (2, 3, 2)])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm(sizes: tuple[int, ...], groups: int) -> None:
    shape, area = (4, 6, *sizes), torch.Size(sizes).numel()
    arguments = (4, 6, area, groups)
    check(
        lambda x, w, b: F.group_norm(x, groups, w, b),
        lambda x, w, b: norms.group_norm_apart(x, w, b, *arguments, 1e-5),
        lambda g, x, w, b, m, r: norms.group_norm_backward_apart(
            *(g, None, None, x, w, m, r, 4, 6, groups)
        ),
        shape,
        (6,),
        lambda x, w, b: torch.native_group_norm(x, w, b, *arguments, 1e-5),
    )


@pytest.mark.parametrize("sizes", [(5,), (3, 4), (2, 3, 2)])
def test_instance_norm(sizes: tuple[int, ...]) -> None:
    check(
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        lambda x, w, b: norms.instance_norm_apart(x, w, b, eps=1e-5),
        lambda g, x, w, b: norms.instance_norm_backward_apart(g, x, w, 1e-5),
        (4, 6, *sizes),
        (6,),
    )


def test_gradients_of_statistics_are_left_to_the_derived_backward() -> None:
    x, w, _, grad = operands((4, 6), (6,))
    _, mean, reciprocal = norms.layer_norm_apart(x, [6], w, None, 1e-5)
    for one, two, three in ((grad, mean, None), (None, None, mean)):
        with pytest.raises(UnsupportedCallError, match="the statistics have gradients"):
            norms.layer_norm_backward_apart(one, two, three, x, w, mean, reciprocal, [6])


def text(tensors: list[Tensor]) -> str:
    return str(torch_xla._XLAC._get_xla_tensors_hlo(tensors))


def test_one_device_has_the_lowering_of_stock() -> None:
    x = torch.randn(4, 6, 5, device="xla").requires_grad_()
    for call in (
        lambda: F.layer_norm(x, (5,)),
        lambda: F.group_norm(x, 2),
        lambda: F.instance_norm(x),
    ):
        with composites.enabled("layer_norm", "group_norm", "instance_norm"):
            (gradient,) = torch.autograd.grad(call().square().sum(), x)
        assert "batch-norm-training" in text([gradient])
        assert "batch-norm-grad" in text([gradient])


SHARED = """
    import torch, torch_xla, torch_xla.runtime as runtime
    runtime.use_spmd()
    import composites
    import torch.nn.functional as F

    composites.enable("layer_norm", "group_norm", "instance_norm")
    x = torch.randn(4, 6, 5, device="xla").requires_grad_()
    half = torch.randn(4, 6, 5, device="xla").bfloat16().requires_grad_()
    for call in (F.layer_norm, F.group_norm, F.instance_norm):
        for tensor, kept in ((x, False), (half, True)):
            arguments = {F.layer_norm: ((5,),), F.group_norm: (2,), F.instance_norm: ()}[call]
            (gradient,) = torch.autograd.grad(call(tensor, *arguments).square().sum(), tensor)
            with torch.no_grad():
                alone = call(tensor, *arguments)
            for result in (gradient, alone):
                text = torch_xla._XLAC._get_xla_tensors_hlo([result])
                assert "is_composite=true" in text
                assert ("batch-norm" in text) == kept, (call, kept)
    print("passed")
"""


@pytest.mark.process
def test_graphs_that_devices_share_keep_dimensions_apart() -> None:
    assert "passed" in run_python(dedent(SHARED), CPU_NUM_DEVICES="2").stdout
