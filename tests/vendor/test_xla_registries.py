"""The registries for XLA: what each form is in StableHLO, that it computes the same, and that XLA
takes what it is made for.

XLA takes a composite of CHLO by its name, whatever its decomposition is. Here the decomposition is
replaced by something else; results that are right nevertheless are XLA's own.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from composites_testing import vendor_calls
from composites_testing.modules import Calling
from jax import lax

import composites
from composites.errors import InvalidCallError
from lowering.stablehlo import Module, RunError, bind, run

F32, BF16 = torch.float32, torch.bfloat16
FILES = ("chlo", "xla")

UNARY = ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "erfc", "sinh")
JAXLIB = tuple(int(part) for part in version("jaxlib").split(".")[:2])
IN_XLA = tuple(name for name in UNARY if name != "erfc") if JAXLIB >= (0, 10) else ("erf",)
"""The functions that jaxlib takes: 0.7.1 takes only erf, and 0.10.2 all but erfc."""


def within(name: str) -> torch.Tensor:
    """Numbers that the function is defined for."""
    return torch.linspace(1.1, 3, 6) if name == "acosh" else torch.linspace(-0.9, 0.9, 6)


def grouped(lhs: Any, rhs: Any, ends: Any) -> torch.Tensor:
    return torch._grouped_mm(lhs, rhs, ends)


def grouped_contracted(lhs: Any, rhs: Any, ends: Any) -> torch.Tensor:
    return torch._grouped_mm(lhs.t(), rhs, ends)


def scaled(lhs: Any, rhs: Any, lhs_scale: Any, rhs_scale: Any) -> torch.Tensor:
    return torch._scaled_mm(lhs, rhs.t(), lhs_scale, rhs_scale, out_dtype=F32)


def mx(*operands: Any, **named: Any) -> torch.Tensor:
    import xla_ops

    return xla_ops.mx_mm(*operands, **named)


def eighths(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Numbers that 8-bit floats hold exactly."""
    positions = torch.arange(torch.Size(shape).numel())
    return (((positions * 7) % 13 - 6) / 8).reshape(shape).to(dtype)


def codes(*shape: int, least: int = 0, kinds: int = 256) -> torch.Tensor:
    positions = torch.arange(torch.Size(shape).numel())
    return (least + (positions * 37) % kinds).reshape(shape).to(torch.uint8)


ENDS = torch.tensor([3, 3, 8], dtype=torch.int32)
LHS_SCALE = codes(4, 2, least=125, kinds=5)
FORMS, OTHERWISE = vendor_calls.read_forms(
    "xla.yaml",
    grouped=grouped,
    grouped_contracted=grouped_contracted,
    scaled=scaled,
    mx=mx,
    above_one=within("acosh"),
    below_one=within("erf"),
    top=torch.linspace(0, 20, 24).sin().reshape(3, 8),
    ends=ENDS,
    lhs_scale=LHS_SCALE,
    rhs_scale=codes(8, 2, least=126, kinds=3),
    codes=codes,
    eighths_e4m3=partial(eighths, dtype=torch.float8_e4m3fn),
    eighths_e5m2=partial(eighths, dtype=torch.float8_e5m2),
).values()


if not hasattr(lax, "scaled_dot"):  # JAX 0.7.1; the call then keeps the stock lowering
    del FORMS["mx_mm_fp8"], FORMS["mx_mm_fp4"]


@pytest.fixture
def xla(registries: Callable[..., None]) -> Iterator[None]:
    registries(*FILES)
    with composites.enabled("chlo.*", "xla.*"):
        yield


@pytest.mark.usefixtures("xla")
def test_forms() -> None:
    vendor_calls.check_forms(FORMS, "xla")


@pytest.mark.usefixtures("xla")
def test_compiled_forms() -> None:
    # PyTorch compiles grouped products in bf16 alone, and these forms are compared in f32.
    compiled = {name: form for name, form in FORMS.items() if not name.startswith("ragged_dot")}
    vendor_calls.check_forms(compiled, compiled=True)


@pytest.mark.usefixtures("xla")
def test_compiled_grouped_products() -> None:
    tensors = [eighths(8, 16, dtype=BF16), eighths(3, 16, 8, dtype=BF16)]
    torch._dynamo.reset()
    compiled = torch.compile(grouped, backend="aot_eager", fullgraph=True)

    def product(lhs: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
        return (compiled if lhs.device.type == "xla" else grouped)(lhs, rhs, ENDS.to(lhs.device))

    results, grads = vendor_calls.values_and_gradients(product, "xla", tensors)
    names = [call.split('"')[1] for call in vendor_calls.emitted_by(*results, *grads)]
    assert names == ["chlo.ragged_dot"] * 3
    expected, expected_grads = vendor_calls.values_and_gradients(product, "cpu", tensors)
    actual = [tensor.cpu() for tensor in results + grads]
    torch.testing.assert_close(actual, expected + expected_grads)


def exported(call: Callable[..., Any], *tensors: torch.Tensor) -> Module:
    return Module.parse(composites.export(Calling(call), tensors, ops=["chlo.*", "xla.*"]).mlir)


def test_xla_takes_chlos_functions_by_name(registries: Callable[..., None]) -> None:
    registries(*FILES)
    inputs = [within(name) for name in IN_XLA]
    values = [x.numpy() for x in inputs]

    def call_all(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return [getattr(torch, name)(x) for name, x in zip(IN_XLA, tensors, strict=True)]

    def seven(x: Any) -> Any:
        return jnp.full_like(x, 7)

    module = bind(exported(call_all, *inputs), {f"chlo.{name}": seven for name in IN_XLA})
    for name, actual, expected in zip(IN_XLA, run(module, *values), call_all(*inputs), strict=True):
        np.testing.assert_allclose(actual, expected.numpy(), rtol=2e-6, err_msg=name)
    inlined = Module.parse(module.text.replace("version = 1 : i32", "version = 2 : i32"))
    assert all((result == 7).all() for result in run(inlined, *values))


def test_xla_takes_top_k_by_name(registries: Callable[..., None]) -> None:
    registries(*FILES)
    x = torch.linspace(0, 20, 24).sin().reshape(3, 8)

    def nothing(x: Any, k: int) -> Any:
        return jnp.zeros((3, k), x.dtype), jnp.zeros((3, k), jnp.int32)

    module = bind(exported(lambda x: torch.topk(x, 2), x), {"chlo.top_k": nothing})
    values, indices = run(module, x.numpy())
    expected = torch.topk(x, 2)
    assert (values == expected.values.numpy()).all()
    assert (indices == expected.indices.numpy()).all()
    assert indices.dtype == np.int64


def test_xla_takes_ragged_dot_by_name(registries: Callable[..., None]) -> None:
    """XLA:CPU then refuses its own operation."""
    registries(*FILES)
    tensors = torch.ones(8, 16, dtype=BF16), torch.ones(3, 16, 8, dtype=BF16), ENDS
    module = exported(grouped, *tensors)
    with pytest.raises(RunError, match="ragged-dot"):
        run(module, *(tensor.float().numpy().astype(jnp.bfloat16) for tensor in tensors[:2]), ENDS)


DIMENSIONS = (("", 0), ("", 0), (1, 1), (1, 1), (0, 1), (0, 1))


def test_the_portable_artifact_keeps_the_attributes(registries: Callable[..., None]) -> None:
    registries(*FILES)
    tensors = torch.ones(8, 16, dtype=BF16), torch.ones(3, 16, 8, dtype=BF16), ENDS
    text = Module.from_bytes(exported(grouped, *tensors).portable("1.9.0")).text
    dense = [f"dense<{value}> : tensor<{size}xi64>" for value, size in DIMENSIONS]
    assert f"ragged_dot_dimension_numbers = [{', '.join(dense)}]" in text
    assert 'precision_config = ["DEFAULT", "DEFAULT"]' in text
    assert "version = 1 : i32" in text


@pytest.mark.usefixtures("xla")
def test_calls_that_xlas_operations_are_not_for() -> None:
    vendor_calls.check_forms(OTHERWISE)


@pytest.mark.usefixtures("xla")
def test_scales_of_rows_and_a_bias() -> None:
    lhs = eighths(16, 32, dtype=torch.float8_e4m3fn)
    rhs = eighths(48, 32, dtype=torch.float8_e4m3fn)
    rows, columns = torch.linspace(0.5, 2, 16).unsqueeze(1), torch.linspace(1, 3, 48).unsqueeze(0)
    bias = torch.linspace(-4, 4, 48)
    tensors = (lhs, rhs.t(), rows, columns, bias.to(BF16))
    a, b, scale_a, scale_b, added = (tensor.to("xla") for tensor in tensors)
    result = torch._scaled_mm(a, b, scale_a, scale_b, added, out_dtype=BF16)
    (call,) = vendor_calls.emitted_by(result)
    assert call.startswith('"xla.scaled_dot"')
    assert "preferred_element_type = f32}" in call  # the bias comes before the rounding
    wide = (lhs.float() * rows) @ (rhs.float().t() * columns) + bias.to(BF16).float()
    torch.testing.assert_close(result.cpu().float(), wide, rtol=5e-3, atol=5e-3)


@pytest.mark.usefixtures("xla")
def test_a_grouped_product_that_is_none_of_xlas_is_an_error() -> None:
    """PyTorch's own kernel would end the process."""
    lhs = torch.ones(3, 8, 16, dtype=BF16, device="xla")
    rhs = torch.ones(3, 16, 8, dtype=BF16, device="xla")
    with pytest.raises(InvalidCallError, match="takes"):
        torch._grouped_mm(lhs, rhs)


def test_scales_of_another_shape_are_an_error(registries: Callable[..., None]) -> None:
    registries(*FILES)
    import xla_ops

    values = torch.zeros(4, 64).to(torch.float8_e4m3fn)
    with pytest.raises(InvalidCallError, match="one scale in uint8 for 32 elements"):
        xla_ops.mx_mm(values, values, torch.zeros(4, 1, dtype=torch.uint8), LHS_SCALE)
