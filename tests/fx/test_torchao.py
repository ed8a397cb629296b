"""Models that torchao has quantized, beside eager PyTorch: a linear layer is one composite."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
import transformers as hf
from composites_testing.jax_calls import signatures
from composites_testing.modules import Calling, TwoLayers
from composites_testing.written import written_composites
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor
from torchao import quantization as ao
from torchao.optim import AdamW8bit
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.inference_workflow import (
    MXDynamicActivationMXWeightConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4WeightOnlyConfig,
)
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.quantize_.common.kernel_preference import KernelPreference
from torchao.testing.pt2e._xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)

import composites
from composites.errors import CompositesError
from lowering import activation
from lowering.stablehlo import from_quantized_types, to_quantized_types

INT4: dict[str, Any] = {"weight_dtype": getattr(torch, "int4")}  # noqa: B009
INT8 = {"version": 2}
INTX = "intx_weight_only_linear"
GROUPS = ao.PerGroup(32)
CONFIGS: dict[str, tuple[str, Callable[[], Any]]] = {
    "int8 weights": ("int8_weight_only_linear", lambda: ao.Int8WeightOnlyConfig(**INT8)),
    "int8 weights in groups": (INTX, lambda: ao.Int8WeightOnlyConfig(granularity=GROUPS, **INT8)),
    "int4 weights in groups": (INTX, lambda: ao.IntxWeightOnlyConfig(granularity=GROUPS, **INT4)),
    "int4 weights that are asymmetric": (
        INTX,
        lambda: ao.IntxWeightOnlyConfig(
            granularity=ao.PerGroup(16), mapping_type=ao.MappingType.ASYMMETRIC, **INT4
        ),
    ),
    "int8 activations and int4 weights": (
        INTX,
        lambda: ao.Int8DynamicActivationIntxWeightConfig(weight_granularity=GROUPS, **INT4),
    ),
    "int8 rows": ("int8_dynamic_linear", lambda: ao.Int8DynamicActivationInt8WeightConfig(**INT8)),
    "int8 rows that are asymmetric": (
        "int8_dynamic_linear",
        lambda: ao.Int8DynamicActivationInt8WeightConfig(
            act_mapping_type=ao.MappingType.ASYMMETRIC, **INT8
        ),
    ),
    "int8 tensors": (
        "int8_dynamic_linear",
        lambda: ao.Int8DynamicActivationInt8WeightConfig(granularity=ao.PerTensor(), **INT8),
    ),
    "float8 weights": ("float8_weight_only_linear", ao.Float8WeightOnlyConfig),
}
ELEMENTS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float4_e2m1fn_x2)


def mx(element: torch.dtype, scaling: ScaleCalculationMode) -> Callable[[], Any]:
    types = {"activation_dtype": element, "weight_dtype": element}
    emulated = {"kernel_preference": KernelPreference.EMULATED, "scaling_mode": scaling}
    return lambda: MXDynamicActivationMXWeightConfig(**types, **emulated)


BLOCKS: dict[str, tuple[str, Callable[[], Any]]] = {
    **{
        f"{element}, {scaling.value}": ("mx_linear", mx(element, scaling))
        for element in ELEMENTS
        for scaling in (ScaleCalculationMode.FLOOR, ScaleCalculationMode.RCEIL)
    },
    "MX, ceil": ("mx_linear", mx(ELEMENTS[0], ScaleCalculationMode.CEIL)),
    "MX, even": ("mx_linear", mx(ELEMENTS[0], ScaleCalculationMode.EVEN)),
    "NVFP4 weights": ("nvfp4_linear", NVFP4WeightOnlyConfig),
}
"""Formats with a scale for each block, which torchao has for weights in bf16."""


class Pair(nn.Module):
    """Two layers of one input, so that what is quantized is the same in both backends."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(64, 32), nn.Linear(64, 48, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat((self.one(x), self.two(x)), -1)


def compiled(program: composites.Program, model: Any, x: Tensor) -> Tensor:
    """The result of a compiled program, in f32."""
    step = program.compile()
    results, _ = step(step.init(model), x)
    return torch.from_numpy(results["out:0"].__array__().astype("float32"))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*product(CONFIGS, (torch.float32, torch.bfloat16)), *product(BLOCKS, (torch.bfloat16,))],
    ids=str,
)
def test_a_quantized_layer_is_one_composite(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    composite, config = (CONFIGS | BLOCKS)[name]
    torch.manual_seed(0)
    model = Pair().to(dtype).eval().requires_grad_(False)
    limit = max(float(weight.abs().max()) for weight in model.parameters())
    ao.quantize_(model, config())
    x = torch.randn(2, 3, 64).to(dtype)
    expected = model(x)
    program = composites.export(model, (x,))
    assert written_composites(program.module.text) == {f"ptxla.{composite}": 2}
    actual = compiled(program, model, x).to(dtype)
    # XLA divides by multiplying with a reciprocal, which moves a number of a row by a step.
    step_of_rows = float(x.abs().max() / 127) * limit
    tolerance: dict[str, Any] = {"rtol": 0.02, "atol": 0.01} if dtype == torch.bfloat16 else {}
    if composite == "int8_dynamic_linear" and not tolerance:
        tolerance = {"rtol": 1e-5, "atol": step_of_rows}
    torch.testing.assert_close(actual, expected, **tolerance)
    torch._dynamo.reset()
    options: Any = {"save": str(tmp_path)}
    with composites.enabled("quantization"):
        live = torch.compile(model, backend="composites", fullgraph=True, options=options)(x)
    torch.testing.assert_close(live, actual, rtol=0, atol=0)
    (saved,) = tmp_path.rglob("program.mlir")
    assert written_composites(saved.read_text()) == {f"ptxla.{composite}": 2}
    if name == "MX, even":  # torchao calls torch.tensor, which no dispatch mode sees
        return
    torch._dynamo.reset()  # and without entries
    plain = torch.compile(model, backend="composites", fullgraph=True)(x)
    torch.testing.assert_close(plain, live, **tolerance)


def test_layers_in_mx_have_no_gradient_of_their_input() -> None:
    model = TwoLayers(torch.sum).bfloat16()
    model.second = nn.Linear(16, 32).bfloat16()
    config = mx(ELEMENTS[0], ScaleCalculationMode.RCEIL)()
    ao.quantize_(model.second, replace(config, block_size=16))
    with pytest.raises(CompositesError, match="with a weight in MXTensor quantizes its input"):
        composites.export(model, (torch.randn(4, 8).bfloat16(),), train=True)


@pytest.mark.parametrize(
    "compute",
    [
        lambda pair: pair.t().add_(1.0),
        lambda pair: pair.transpose(0, 1).reshape(2, 6),
        lambda pair: pair.t().contiguous().view(3, 4),
    ],
)
def test_tensors_that_hold_others(compute: Callable[[Any], Any]) -> None:
    """Writes to a transposed one reach the tensors within, and its layout is that of eager."""

    def run(x: Tensor) -> tuple[Tensor, ...]:
        pair: Any = TwoTensor(x * 2, x * 3)
        view = compute(pair)
        return pair.a, pair.b, view.a + view.b

    x = torch.randn(3, 4)
    results = composites.export(Calling(run), (x,)).run({"arg:0": x})
    torch.testing.assert_close([torch.from_numpy(t) for t in results.values()], list(run(x)))


def test_layers_in_mx_are_products_that_xla_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, attributes and types are those that jax.lax.scaled_dot writes."""
    registries = Path(__file__).parents[2] / "examples" / "registries"
    monkeypatch.syspath_prepend(str(registries))
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(registries / "xla_mx.yaml"))
    activation.catalog.cache_clear()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32)).bfloat16().eval().requires_grad_(False)
    ao.quantize_(model, mx(torch.float8_e4m3fn, ScaleCalculationMode.RCEIL)())
    x = torch.randn(2, 3, 64).bfloat16()
    program = composites.export(model, (x,), ops=["xla.*"])
    types = (jnp.float8_e4m3fn, jnp.float8_e4m3fn, jnp.float8_e8m0fnu, jnp.float8_e8m0fnu)
    operands = map(jax.ShapeDtypeStruct, ((6, 64), (32, 64), (6, 2), (32, 2)), types)
    dimensions: Any = (((1,), (1,)), ((), ()))

    def scaled(lhs: Any, rhs: Any, lhs_scale: Any, rhs_scale: Any) -> Any:
        options = {"lhs_scale": lhs_scale, "rhs_scale": rhs_scale, "dimension_numbers": dimensions}
        return jax.lax.scaled_dot(lhs, rhs, **options, preferred_element_type="bfloat16")

    theirs = jax.jit(scaled).lower(*operands).as_text()
    assert signatures(program.module.text) == signatures(theirs)
    torch.testing.assert_close(compiled(program, model, x), model(x).float(), rtol=0.02, atol=0.01)
    activation.catalog.cache_clear()


@pytest.mark.parametrize("dynamic", [False, True])
def test_products_of_nvfp4_that_only_gpus_have(dynamic: bool) -> None:
    """The scale of the whole input is that of a calibration, or follows from the input."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32)).bfloat16().eval().requires_grad_(False)
    x = torch.randn(6, 64).bfloat16()
    for step in ("prepare", "convert"):
        config = NVFP4DynamicActivationNVFP4WeightConfig(step=step, use_triton_kernel=False)
        ao.quantize_(model, config)
        if step == "prepare":
            model(3 * x)
    layer: Any = model[0]
    weight = layer.weight
    weight.act_quant_kwargs.use_dynamic_per_tensor_scale = dynamic
    scale = weight.act_per_tensor_scale
    if dynamic:
        scale = per_tensor_amax_to_scale(x.abs().amax())
    rounded = NVFP4Tensor.to_nvfp4(x, per_tensor_scale=scale).dequantize(torch.float32)
    right = nn.functional.linear(rounded, weight.dequantize(torch.float32), layer.bias.float())
    program = composites.export(model, (x,))
    assert dict(program.composites) == {"ptxla.nvfp4_linear": 1}
    torch.testing.assert_close(compiled(program, model, x), right, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("name", [n for n in CONFIGS if "weights" in n and "act" not in n])
def test_adapters_beside_frozen_weights_have_the_gradients_of_eager(name: str) -> None:
    composite, config = CONFIGS[name]

    def prepared() -> nn.Sequential:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), Pair())
        ao.quantize_(model[1], config())
        return model

    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(1))
    eager, model = prepared(), prepared()
    torch._dynamo.reset()
    with composites.enabled("quantization"):
        before = composites.stats().entries[f"ptxla.{composite}"].calls
        loss = torch.compile(model, backend="composites", fullgraph=True)(x).square().mean()
    counted = composites.stats().entries[f"ptxla.{composite}"]
    assert counted.calls > before
    assert not counted.fallbacks
    expected = eager(x).square().mean()
    for value in (loss, expected):
        value.backward()
    torch.testing.assert_close(loss, expected)
    for ours, parameter in zip(model[0].parameters(), eager[0].parameters(), strict=True):
        torch.testing.assert_close(ours.grad, parameter.grad, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("name", [name for name in CONFIGS if "act" in name or "int8 rows" in name])
def test_layers_that_quantize_their_input_stop_its_gradient(name: str) -> None:
    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(64, 32))
            self.before, self.beside = nn.Parameter(torch.ones(64)), nn.Linear(64, 32)
            ao.quantize_(self.layers.requires_grad_(False), CONFIGS[name][1]())

        def forward(self, x: Tensor) -> Tensor:
            return (self.layers(x * self.before) + self.beside(x * self.before)).square().mean()

    torch.manual_seed(0)
    model, x = Adapted(), torch.randn(5, 64)
    (expected,) = torch.autograd.grad(model(x), model.before)
    torch._dynamo.reset()
    with composites.enabled("quantization"):
        loss = torch.compile(model, backend="composites", fullgraph=True)(x)
    (gradient,) = torch.autograd.grad(loss, model.before)
    torch.testing.assert_close(gradient, expected, rtol=0.02, atol=2e-4)


def test_models_that_transformers_quantizes_go_through_unchanged(tmp_path: Path) -> None:
    """The weights are quantized while they are read from a checkpoint."""
    composite, config = CONFIGS["int4 weights in groups"]
    sizes: dict[str, Any] = {
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "vocab_size": 11,
        "num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0,
    }  # fmt: skip
    torch.manual_seed(0)
    hf.LlamaForCausalLM(hf.LlamaConfig(**sizes)).save_pretrained(tmp_path)
    quantization = hf.TorchAoConfig(quant_type=config())
    model = hf.LlamaForCausalLM.from_pretrained(tmp_path, quantization_config=quantization).eval()
    keywords = {"input_ids": torch.arange(1, 9).reshape(1, 8), "use_cache": False}
    program = composites.export(model, (), keywords)
    assert written_composites(program.module.text)[f"ptxla.{composite}"] == 7
    step = program.compile()
    results, _ = step(step.init(model), input_ids=keywords["input_ids"])
    (logits,) = (torch.from_numpy(array.__array__().copy()) for array in results.values())
    torch._dynamo.reset()
    with torch.no_grad(), composites.enabled("quantization"):
        before = composites.stats().entries[f"ptxla.{composite}"].calls
        live = torch.compile(model, backend="composites")(**keywords).logits
        expected = model(**keywords).logits
    assert composites.stats().entries[f"ptxla.{composite}"].calls >= before + 7
    for actual in (logits, live):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


class Quantizing(nn.Module):
    """Layers that train while their numbers are rounded to those of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)
        self.scale: Tensor
        self.zero: Tensor
        self.register_buffer("scale", torch.tensor([0.05]))
        self.register_buffer("zero", torch.tensor([1], dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        rounded = torch.fake_quantize_per_tensor_affine(x, 0.03, 2, -128, 127)
        scales = self.first.weight.detach().abs().amax(1) / 7
        zeros = torch.zeros_like(scales, dtype=torch.int32)
        weight = torch.fake_quantize_per_channel_affine(self.first.weight, scales, zeros, 0, -8, 7)
        hidden = nn.functional.gelu(nn.functional.linear(rounded, weight, self.first.bias))
        hidden = torch.fake_quantize_per_tensor_affine(hidden, self.scale, self.zero, 0, 15)
        return self.second(hidden).square().mean()


def trained(call: Any, optimizer: torch.optim.Optimizer, x: Tensor) -> float:
    """The loss of a step."""
    optimizer.zero_grad()
    loss = call(x)
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def test_training_with_fake_quantization_has_the_losses_of_eager() -> None:
    """Losses agree with composites and without, in live programs and in an exported step."""
    x = torch.randn(8, 16, generator=torch.Generator().manual_seed(1))

    def losses(names: tuple[str, ...] | None) -> tuple[list[float], Quantizing]:
        torch.manual_seed(0)
        torch._dynamo.reset()
        model = Quantizing()
        call = model if names is None else torch.compile(model, backend="composites")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with composites.enabled(*names or ()):
            return [trained(call, optimizer, x) for _ in range(3)], model

    expected, eager = losses(None)
    for names in ((), ("quantization",)):
        actual, model = losses(names)
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(list(model.parameters()), list(eager.parameters()))
    torch.manual_seed(0)
    program = composites.export(Quantizing(), (x,), optimizer=partial(torch.optim.SGD, lr=0.1))
    kinds = ("tensor", "channel", "tensor_with_tensors")
    right = {f"ptxla.fake_quantize_per_{kind}" for kind in kinds}
    assert right <= set(written_composites(program.module.text))
    torch.manual_seed(0)
    step = program.compile()
    state = step.init(Quantizing())
    for number in expected:
        loss, state = step(state, x)
        torch.testing.assert_close(float(loss), number)


def test_an_optimizer_keeps_its_state_in_bytes() -> None:
    """A step writes to tensors that hold others."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(64, 64), Calling(lambda y: y.sin().mean())), torch.ones(64)
    step = composites.export(model, (x,), optimizer=partial(AdamW8bit, lr=0.01)).compile()
    optimizer = AdamW8bit(model.parameters(), lr=0.01)
    with torch.compiler.set_stance("force_eager"):
        trained(model, optimizer, x)
        state = step.init(model, optimizer=optimizer)
        for _ in range(3):
            loss, state = step(state, x)
            assert float(loss) == pytest.approx(trained(model, optimizer, x), rel=1e-4)


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("is_per_channel", [False, True])
def test_a_converted_program_quantizes_by_composites(
    is_per_channel: bool, is_dynamic: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    cast = Calling(lambda y: y.double().float())  # the graph checks the device that it names
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), cast).eval()
    x = torch.randn(4, 8)
    config = get_symmetric_quantization_config(is_per_channel=is_per_channel, is_dynamic=is_dynamic)
    exported = torch.export.export(model, (x,)).module()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(config))
    prepared(x)
    converted = convert_pt2e(prepared)
    expected = converted(x).detach()
    for_weight = "channel" if is_per_channel else "tensor"
    for_input, uses = ("tensor_with_tensors", 2) if is_dynamic else ("tensor", 3)
    counted = Counter({f"ptxla.dequantize_per_{for_weight}": 2})
    counted.update({f"ptxla.{name}_per_{for_input}": uses for name in ("quantize", "dequantize")})
    counted.update({"ptxla.choose_qparams": 2} if is_dynamic else {})
    for program in (converted, torch.export.export(converted, (x,))):
        quantized = composites.export(program, (x,), ops=["quantization"])
        assert written_composites(quantized.module.text) == counted
        torch.testing.assert_close(compiled(quantized, program, x), expected)
        typed = to_quantized_types(quantized.module)
        assert ("!quant.uniform" in typed.text) == (not (is_dynamic and is_per_channel))
        there_and_back = replace(quantized, module=from_quantized_types(typed))
        results = there_and_back.run({**quantized.module_weights(program), "arg:0": x})
        torch.testing.assert_close(torch.tensor(results["out:0"]), expected)
    plain = composites.export(converted, (x,), ops=["gelu"], target="litert")
    assert not written_composites(plain.module.text)
    torch._dynamo.reset()
    options: Any = {"save": str(tmp_path)}
    with composites.enabled("quantization"), torch.no_grad():
        live = torch.compile(converted, backend="composites", fullgraph=True, options=options)(x)
    torch.testing.assert_close(live, expected)
    (saved,) = tmp_path.rglob("program.mlir")
    assert written_composites(saved.read_text()) == counted
