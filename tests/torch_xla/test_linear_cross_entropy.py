"""The last linear layer and the loss as one composite: bits, gradients, memory.

Also, which calls of transformers' loss are one.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.processes import run, run_python
from composites_testing.selection import exhaustive, variants
from composites_testing.tensors import gradient_of, hlo_text
from torch import Tensor
from transformers.loss import loss_utils

import composites
from lowering.verification.bits import same_bits

NAME = "ptxla.linear_cross_entropy"
Call = Callable[..., Tensor]


BF16, F32, F64 = torch.bfloat16, torch.float32, torch.float64


def operands(
    *rows: int, classes: int = 11, size: int = 8, types: Sequence[torch.dtype] = (F32, F32, F32)
) -> list[Tensor]:
    """States, weight and bias of these types; the classes of the rows."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((*rows, size), (classes, size), (classes,))
    drawn = [torch.randn(shape, generator=generator) for shape in shapes]
    leaves = [leaf.to(dtype) for leaf, dtype in zip(drawn, types, strict=True)]
    return [*leaves, torch.randint(0, classes, rows, generator=generator)]


def leaves_of(tensors: list[Tensor], device: str = "xla") -> list[Tensor]:
    moved = [tensor.detach().to(device) for tensor in tensors]
    return [t.requires_grad_() if t.is_floating_point() else t for t in moved]


def computed(result: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    gradients = torch.autograd.grad(result.sum() * 1.5, leaves) if result.requires_grad else ()
    torch_xla.sync()
    return [t.detach().cpu() for t in (result, *gradients)]


def stock_and_ours(
    call: Call, tensors: list[Tensor], *, taken: bool = True, around_backward: bool = False
) -> tuple[list[Tensor], list[Tensor]]:
    """The loss and the gradients of all operands, without the entry and with it.

    Args:
        call: a function of the operands on the device.
        taken: whether the call is to be a composite.
        around_backward: whether there is autocast around the backward.
    """
    results = []
    for on in (False, True):
        leaves = leaves_of(tensors)
        before = calls()
        with composites.enabled("linear_cross_entropy") if on else nullcontext():
            loss = call(*leaves)
            assert calls() - before == (on and taken)
            with torch.autocast("xla", dtype=torch.bfloat16, enabled=around_backward):
                results.append(computed(loss, [t for t in leaves if t.requires_grad]))
    return results[0], results[1]


def assert_bits_of_stock(
    ours: list[Tensor], stock: list[Tensor], products: torch.dtype | None = None
) -> None:
    """The gradient of the weight, which comes third, is the same product in the composite, but XLA
    may add up its numbers in another order there: on a processor with AVX2 alone it does.

    Args:
        products: the type that this product is rounded to, where it is not that of the gradient.
    """
    names = ("loss", "states", "weight", "bias")
    for name, mine, theirs in zip(names, ours, stock, strict=False):
        if name == "weight":
            eps = torch.finfo(products or mine.dtype).eps
            error = 2 * eps * float(theirs.abs().max()) if theirs.numel() else 0.0
            torch.testing.assert_close(mine, theirs, rtol=0, atol=error)
        else:
            assert same_bits(mine, theirs), name
    assert len(ours) == len(stock)


def plain(states: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, **o: Any) -> Tensor:
    """Losses as models write them."""
    logits = F.linear(states, weight, bias).float()
    loss = F.cross_entropy(logits.view(-1, len(weight)), target.view(-1), **o)
    return loss.view(target.shape) if o.get("reduction") == "none" else loss


OPTIONS: list[dict[str, Any]] = [
    {},
    {"reduction": "sum", "ignore_index": 3},
    {"reduction": "none"},
    {"label_smoothing": 0.1, "ignore_index": 3},
]


def whole(states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, **options: Any) -> Tensor:
    return composites.linear_cross_entropy(states, weight, target, bias, **options)


def without_bias(states: Tensor, weight: Tensor, target: Tensor, **options: Any) -> Tensor:
    """The function where composites are on, and what models write elsewhere."""
    if composites.active():
        return composites.linear_cross_entropy(states, weight, target, **options)
    return plain(states, weight, None, target, **options)


def calls() -> int:
    entry = composites.stats().entries.get(NAME)
    return entry.calls if entry else 0


def test_one_composite_each_way() -> None:
    states, weight, bias, target = leaves_of(operands(2, 9))
    with composites.enabled("linear_cross_entropy"):
        loss = composites.linear_cross_entropy(states, weight, target, bias)
        text = xm.get_stablehlo([loss, *torch.autograd.grad(loss, [states, weight, bias])])
    assert re.findall(r'stablehlo\.composite "([^"]*)"', text) == [NAME, f"{NAME}_backward"]
    (results,) = re.findall(rf'composite "{NAME}" .*-> tuple<(.*)>', text)
    assert results.split(", ") == ["tensor<f32>", "tensor<2x9xf32>", "tensor<2x9xf32>"]


def test_off_and_without_gradients() -> None:
    states, weight, bias, target = operands(5)
    right = F.cross_entropy(F.linear(states, weight, bias), target)
    torch.testing.assert_close(composites.linear_cross_entropy(states, weight, target, bias), right)
    before = calls()
    with composites.enabled("linear_cross_entropy"), torch.no_grad():
        moved = [t.to("xla") for t in (states, weight, target, bias)]
        actual = composites.linear_cross_entropy(*moved)
    assert calls() == before + 1
    torch.testing.assert_close(actual.cpu(), right)
    narrow, rows = states.bfloat16(), weight.bfloat16()
    assert composites.linear_cross_entropy(narrow, rows, target).dtype == torch.float32


def test_calls_that_are_refused() -> None:
    states, weight, bias, target = operands(5)
    call: dict[str, Any] = {"input": states, "weight": weight, "target": target, "bias": bias}
    for change, message in (
        ({"weight": torch.ones(11, 7)}, r"\[5, 8\] and \[11, 7\]"),
        ({"target": torch.zeros(4, dtype=torch.int64)}, r"\[5\], not \[4\]"),
        ({"target": torch.zeros(5)}, "not probabilities"),
        ({"bias": torch.ones(10)}, r"11 rows of weight, not \[10\]"),
        ({"reduction": "avg"}, "use none, mean, sum"),
        ({"label_smoothing": 2.0}, "between 0 and 1"),
    ):
        with pytest.raises(composites.InvalidCallError, match=message):
            composites.linear_cross_entropy(**{**call, **change})


def test_no_rows() -> None:
    states, weight, bias, target = leaves_of(operands(0))
    with composites.enabled("linear_cross_entropy", decompositions="small"):
        loss = composites.linear_cross_entropy(states, weight, target, bias, reduction="sum")
    assert loss.item() == 0


def test_compiled() -> None:
    tensors = operands(2, 9)
    eager = leaves_of(tensors)
    right = computed(whole(*eager), eager[:3])
    with composites.enabled("linear_cross_entropy"):
        before = calls()
        leaves = leaves_of(tensors)
        actual = computed(torch.compile(whole, backend="openxla")(*leaves), leaves[:3])
        assert calls() > before
    torch.testing.assert_close(actual, right)


# ---- in blocks of classes, and of rows ----

WORDS = pytest.mark.parametrize("word", ["small", "fast"])


def chosen(word: str, tensors: list[Tensor], **options: Any) -> list[Tensor]:
    leaves = leaves_of(tensors)
    with composites.enabled("linear_cross_entropy", decompositions=word):
        return computed(whole(*leaves, **options), leaves[:3])


def assert_close_to_stock(word: str, tensors: list[Tensor], **options: Any) -> list[Tensor]:
    ours, stock = (chosen(choice, tensors, **options) for choice in (word, "stock"))
    torch.testing.assert_close(ours, stock, atol=1e-4, rtol=1e-4)
    return ours


@WORDS
@variants("options", OPTIONS, ids=str)
def test_an_ignored_row_that_is_not_finite_does_not_count(
    options: dict[str, Any], word: str
) -> None:
    """The gradient of such a row is not a number in stock."""
    tensors = operands(210, classes=10001)
    tensors[3][4] = 3
    results = []
    for value in (1.0, 3e38):
        tensors[0][4] = value
        results.append(chosen(word, tensors, **{**options, "ignore_index": 3}))
    assert all(map(same_bits, *results))


@WORDS
@pytest.mark.parametrize("options", [{}, {"reduction": "sum"}, {"label_smoothing": 0.1}], ids=str)
@pytest.mark.parametrize(
    "where", [10001, *exhaustive(-1, 2**40)], ids=["next", "negative", "large"]
)
def test_classes_that_do_not_exist_are_what_they_are_in_stock(
    where: int, options: dict[str, Any], word: str
) -> None:
    tensors = operands(210, classes=10001)
    tensors[3][5] = where
    assert_close_to_stock(word, tensors, **options)


@WORDS
def test_bias_that_excludes_classes(word: str) -> None:
    """The first block of classes is minus infinity."""
    tensors = operands(210, classes=10001)
    tensors[2][:9990] = -torch.inf
    tensors[3].fill_(9995)
    assert all(result.isfinite().all() for result in assert_close_to_stock(word, tensors))


TRAINING = """
import torch, torch_xla, composites
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
composites.enable("linear_cross_entropy", decompositions="small")
if KIND == "llama":
    sizes = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=20000, **sizes))
else:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=20000, n_embd=32, n_layer=1, n_head=2))
model.to("xla")
tokens = torch.randint(0, 20000, (2, 300)).to("xla")
torch_xla.sync()
loss = model(input_ids=tokens, labels=tokens).loss
loss.backward()
torch_xla.sync()
entry = composites.stats().entries["ptxla.linear_cross_entropy"]
print(loss.item() > 0, sorted(entry.decompositions))
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_training_holds_nothing_of_the_size_of_the_logits(kind: str, tmp_path: Path) -> None:
    """Neither the optimized HLO nor XLA's account of buffers holds anything of that size."""
    done = run_python(
        TRAINING.replace("KIND", repr(kind)),
        XLA_FLAGS=f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text",
    )
    assert done.stdout.strip() == "True ['in_classes', 'in_classes, backward']", done.stderr
    texts = [path.read_text() for path in tmp_path.glob("*after_optimizations.txt")]
    (step,) = [text for text in texts if "20000,32" in text and "while(" in text]
    assert "[600,32" in step
    for logits in ("[600,20000]", "[2,300,20000]", "[2,299,20000]", "[1,600,20000]"):
        assert logits not in step
    accounts = [path.read_text() for path in tmp_path.glob("*buffer-assignment.txt")]
    temporary = re.findall(r"size (\d+), preallocated-temp", "".join(accounts))
    assert max(map(int, temporary)) < 4 * 600 * 20000


# ---- the loss of transformers ----


def transformers_loss(states: Tensor, weight: Tensor, target: Tensor, count: Any = None) -> Tensor:
    logits = F.linear(states, weight)
    loss: Tensor = loss_utils.ForCausalLMLoss(logits, target, 11, count)  # Trainer gives integers
    return loss


def test_losses_of_transformers_have_the_bits_of_stock() -> None:
    for dtype in (F32, BF16):
        for count in (None, 7, torch.tensor(7)):
            states, weight, _, target = operands(2, 9, types=[dtype] * 3)
            call = partial(transformers_loss, count=count)
            stock, ours = stock_and_ours(call, [states, weight, target])
            assert_bits_of_stock(ours, stock)


@pytest.mark.parametrize("call", [transformers_loss, without_bias])
@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("backward", [True, False])
def test_autocast(call: Call, forward: bool, backward: bool) -> None:
    def step(*operands: Tensor) -> Tensor:
        with torch.autocast("xla", dtype=torch.bfloat16, enabled=forward):
            return call(*operands)

    states, weight, _, target = operands(2, 9)
    stock, ours = stock_and_ours(step, [states, weight, target], around_backward=backward)
    assert_bits_of_stock(ours, stock, torch.bfloat16)


@pytest.mark.exhaustive
def test_autocast_where_devices_share_the_graph() -> None:
    """The function itself is called, in the test above, where devices share the graph."""
    pytest_ = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    chosen = ("-k", "test_autocast and without_bias")
    done = run(*pytest_, __file__, *chosen, XLA_USE_SPMD="1", CPU_NUM_DEVICES="2")
    assert "4 passed" in done.succeeded().stdout


@variants("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize(
    ("rows", "size"), [((2, 9), 64), ((7,), 64), ((), 64), ((2, 9), 0), ((7,), 0)], ids=str
)
def test_bits_with_a_bias(
    rows: tuple[int, ...], size: int, dtype: torch.dtype, reduction: str
) -> None:
    """The bits are those of stock with hidden states, and without any."""
    tensors = operands(*rows, classes=300, size=size, types=[dtype] * 3)
    stock, ours = stock_and_ours(partial(whole, reduction=reduction), tensors)
    assert_bits_of_stock(ours, stock)


@pytest.mark.parametrize("types", [(F32, F64, F64), (F64, F32, F32), (F32, F32, F64)], ids=str)
def test_operands_of_different_types(types: tuple[torch.dtype, ...]) -> None:
    stock, ours = stock_and_ours(whole, operands(2, 9, classes=300, size=64, types=types))
    # Stock says f32 of a loss of f32 states that is f64.
    torch.testing.assert_close(ours, stock, check_dtype=False)


def written(logits: Tensor) -> Tensor:
    with torch.no_grad():
        logits.mul_(2)
    return logits


CHANGES: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "scaled": (lambda x: x * 0.5, "MulBackward0"),
    "soft-capped": (lambda x: 3 * torch.tanh(x / 3), "MulBackward0"),
    "in place": (lambda x: x.div_(2), "written to"),
    "out of sight": (written, "written to"),
    "detached": (lambda x: x.detach(), "no gradient"),
    "transposed": (lambda x: x.transpose(0, 1).contiguous(), "TransposeBackward0"),
    "cast twice": (lambda x: x.bfloat16().float(), "cast"),
}


def test_logits_that_something_else_was_done_to_are_left_alone() -> None:
    states, weight, _, target = operands(9, 9)
    for name, (change, reason) in CHANGES.items():

        def call(states: Tensor, weight: Tensor, target: Tensor, change: Any = change) -> Tensor:
            loss: Tensor = loss_utils.ForCausalLMLoss(change(F.linear(states, weight)), target, 11)
            return loss

        stock, ours = stock_and_ours(call, [states, weight, target], taken=False)
        assert all(map(same_bits, ours, stock)), name
        reasons = [fallback.reason for fallback in composites.stats().entries[NAME].fallbacks]
        assert any(reason in text for text in reasons), (name, reasons)


def zeroed(weight: Tensor) -> None:
    weight.data = torch.zeros_like(weight)


def added_to(weight: Tensor) -> None:
    with torch.no_grad():
        weight.add_(1)


@pytest.mark.parametrize(("change", "taken"), [(added_to, False), (zeroed, True)])
def test_a_weight_that_changed_before_the_loss_is_not_read_again(
    change: Callable[[Tensor], None], taken: bool
) -> None:
    """A weight that was written to leaves the call alone; other data are not the product's."""
    states, weight, _, target = leaves_of(operands(9))
    with composites.enabled("linear_cross_entropy"):
        logits = F.linear(states, weight)
        change(weight)
        before = calls()
        loss = loss_utils.fixed_cross_entropy(logits, target)
        assert calls() - before == taken
    first, second, _, target = operands(9)
    right = F.cross_entropy(F.linear(first, second), target)
    torch.testing.assert_close(loss.detach().cpu(), right)


@pytest.fixture
def on() -> Iterator[None]:
    with composites.enabled("linear_cross_entropy"):
        yield


ON = pytest.mark.usefixtures("on")


@ON
def test_the_gradient_of_a_weight_is_no_view_that_is_computed_beside_it() -> None:
    states, weight, _, target = leaves_of(operands(9))
    loss_utils.fixed_cross_entropy(F.linear(states, weight), target).backward()
    entry = hlo_text(gradient_of(weight)).partition("ENTRY")[2]
    root = next(line for line in entry.splitlines() if "ROOT" in line)
    assert "get-tuple-element" in root
    # Of a weight that was computed, only its transpose is at hand.
    states, weight, _, target = leaves_of(operands(9))
    before = calls()
    loss_utils.fixed_cross_entropy(F.linear(states, weight * 2), target).backward()
    assert calls() == before + 1
    first, second, _, target = leaves_of(operands(9), "cpu")
    F.cross_entropy(F.linear(first, second * 2), target).backward()
    torch.testing.assert_close(gradient_of(weight).cpu(), second.grad)


@ON
@pytest.mark.parametrize("watch", ["register_hook", "retain_grad"])
def test_the_gradient_of_logits_can_be_watched(watch: str) -> None:
    states, weight, _, target = leaves_of(operands(9))
    logits = F.linear(states, weight)
    seen: list[Tensor] = []
    if watch == "register_hook":
        logits.register_hook(seen.append)
    else:
        logits.retain_grad()
    loss_utils.fixed_cross_entropy(logits, target).backward()
    assert seen or logits.grad is not None


@ON
def test_frozen_weights_and_saved_tensor_hooks_are_left_alone() -> None:
    states, weight, _, target = leaves_of(operands(9))
    before = calls()
    loss_utils.fixed_cross_entropy(F.linear(states, weight.detach()), target).backward()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        loss_utils.fixed_cross_entropy(F.linear(states, weight), target).backward()
    assert calls() == before
