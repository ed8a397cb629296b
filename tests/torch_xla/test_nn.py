"""Gradients accumulated in f32, on transformers: closer to the f64 gradient than stock's."""

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_xla.core.xla_model as xm
from composites_testing.tensors import gradient_of
from torch import nn
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM

import composites

BATCHES = 6


@pytest.fixture(autouse=True)
def left_as_found() -> Iterator[None]:
    yield
    composites.disable()  # the helper turns on what it needs


SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "max_position_embeddings": 32,
}


def llama() -> nn.Module:
    config = LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=False)
    # Under autocast on XLA, the "sdpa" of transformers 5.24 gets operands of two dtypes.
    return LlamaForCausalLM._from_config(config, attn_implementation="eager")


def bert() -> nn.Module:
    """A BERT with biases, and a decoder that shares its weight with the embedding."""
    without_dropout: dict[str, Any] = {
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    return BertForMaskedLM(BertConfig(**SIZES, **without_dropout))


MODELS = {"llama": llama, "bert": bert}
OTHER_CASES = (("llama", True), ("bert", False))


def batches() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, 96, (2, 16), generator=generator) for _ in range(BATCHES)]


def backward(module: nn.Module, ids: torch.Tensor, autocast: bool) -> None:
    device = next(module.parameters()).device.type
    ids = ids.to(device)
    with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
        loss = module(input_ids=ids, labels=ids).loss
    loss.backward()


def accumulate(module: nn.Module, autocast: bool) -> None:
    for ids in batches():
        backward(module, ids, autocast)
        xm.mark_step()


def error(gradient: torch.Tensor, reference: torch.Tensor) -> float:
    difference = gradient.cpu().double() - reference
    return float(difference.norm() / reference.norm())


def prepared(name: str, *, autocast: bool) -> tuple[nn.Module, nn.Module]:
    """A module on XLA, and the same weights in f64 with the gradients of all batches."""
    torch.zeros(1, device="xla")  # autograd must know XLA's devices before its first backward
    torch.manual_seed(0)
    module = MODELS[name]().eval()
    if not autocast:
        module = module.to(torch.bfloat16)
    reference = copy.deepcopy(module).double()
    for ids in batches():
        backward(reference, ids, autocast=False)
    module = module.to("xla")
    module.tie_weights()  # type: ignore[operator]  # moving to XLA makes two of a shared weight
    return module, reference


def weights(module: nn.Module) -> dict[str, nn.Parameter]:
    """The weights of linear layers, by name."""
    layers = {f"{n}.weight" for n, m in module.named_modules() if isinstance(m, nn.Linear)}
    return {n: p for n, p in module.named_parameters(remove_duplicate=False) if n in layers}


@pytest.mark.parametrize(
    ("name", "autocast"),
    [
        ("llama", False),
        pytest.param("bert", True, marks=pytest.mark.slow),
        *(pytest.param(*case, marks=pytest.mark.exhaustive) for case in OTHER_CASES),
    ],
)
def test_closer_to_the_f64_gradient_than_stock(name: str, autocast: bool) -> None:
    module, reference = prepared(name, autocast=autocast)
    stock = copy.deepcopy(module)
    accumulate(stock, autocast)
    main = composites.nn.accumulate_gradients_in_fp32(module)
    accumulate(module, autocast)

    expected, plain = weights(reference), weights(stock)
    errors = {}
    for layer, weight in weights(module).items():
        gradient, truth = gradient_of(main[weight]), gradient_of(expected[layer])
        assert gradient.dtype == torch.float32
        errors[layer] = (error(gradient_of(plain[layer]), truth), error(gradient, truth))
    report = "\n".join(f"{n}: stock {s:.2e}, main {m:.2e}" for n, (s, m) in errors.items())
    print(report)
    assert sum(m < s for s, m in errors.values()) >= 0.9 * len(errors), report
    mean_stock, mean_main = (sum(e) / len(errors) for e in zip(*errors.values(), strict=True))
    assert mean_main < mean_stock, report
    every = zip(main.parameters(), reference.parameters(), strict=True)
    for parameter, truth_of in every:  # nothing is lost, shared weights included
        assert parameter.dtype == torch.float32
        truth = gradient_of(truth_of)
        difference = gradient_of(parameter).cpu().double() - truth
        # The gradient of the bias of attention's keys is zero but for rounding.
        assert difference.norm() <= 0.05 * truth.norm() + 1e-3


@pytest.mark.parametrize("autocast", [False, True], ids=["bf16", "autocast"])
def test_each_weight_gradient_is_one_composite(autocast: bool) -> None:
    module, _ = prepared("llama", autocast=autocast)
    main = composites.nn.accumulate_gradients_in_fp32(module)
    count = len(weights(module))
    ids = batches()[0]

    def names() -> list[str]:
        backward(module, ids, autocast)
        text = xm.get_stablehlo([p.grad for p in main.parameters()])
        return re.findall(r'stablehlo\.composite "ptxla\.(\w+)"', text)

    assert names() == ["mm"] * count
    xm.mark_step()
    assert names() == ["matmul_accumulate"] * count


@pytest.mark.slow
def test_training_with_an_optimizer() -> None:
    module, _ = prepared("llama", autocast=False)
    main = composites.nn.accumulate_gradients_in_fp32(module)
    optimizer = torch.optim.AdamW(main.parameters(), lr=1e-2)
    ids = batches()[0].to("xla")
    losses = []
    for _ in range(8):
        loss = module(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        main.copy_to_module()
        optimizer.zero_grad()
        xm.mark_step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert all(p.dtype == torch.bfloat16 for p in module.parameters())
    for parameter in module.parameters():
        assert parameter.grad is None
        assert torch.equal(main[parameter].to(torch.bfloat16).cpu(), parameter.cpu())


def test_on_the_cpu() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(256, 8).to(torch.bfloat16)
    main = composites.nn.accumulate_gradients_in_fp32(layer)
    x = torch.randn(512, 256, dtype=torch.bfloat16)
    layer(x).sum().backward()
    layer(x).sum().backward()
    expected = 2 * x.double().sum(0).expand(8, 256)
    gradient = gradient_of(main[layer.weight])
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-5, atol=1e-4)
    assert torch.equal(gradient_of(main[layer.bias]), torch.full((8,), 1024.0))


def test_f32_layers_and_evaluation_are_stock() -> None:
    layer = nn.Linear(4, 3).to("xla")
    main = composites.nn.accumulate_gradients_in_fp32(layer)
    layer(torch.ones(2, 4, device="xla")).sum().backward()
    assert main[layer.weight] is layer.weight
    assert "composite" not in xm.get_stablehlo([gradient_of(layer.weight)])


def test_frozen_weights_have_no_gradient() -> None:
    layer = nn.Linear(4, 3).to(torch.bfloat16).to("xla")
    layer.weight.requires_grad_(False)
    main = composites.nn.accumulate_gradients_in_fp32(layer)
    x = torch.ones(2, 4, device="xla", dtype=torch.bfloat16, requires_grad=True)
    layer(x).sum().backward()
    assert main[layer.weight].grad is None
    assert x.grad is not None


def test_remove_makes_the_module_what_it_was() -> None:
    layer = nn.Sequential(nn.Linear(4, 3)).to(torch.bfloat16)
    before = vars(layer[0]).keys()
    main = composites.nn.accumulate_gradients_in_fp32(layer)
    assert type(layer[0]) is not nn.Linear
    main.remove()
    assert type(layer[0]) is nn.Linear
    assert vars(layer[0]).keys() == before
    layer(torch.ones(2, 4, dtype=torch.bfloat16)).sum().backward()
    assert gradient_of(layer[0].weight).dtype == torch.bfloat16
