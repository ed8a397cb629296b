"""Every entry of registry.yaml on its samples, with composites on and off: the same bits.

The samples are those of `composites verify`: named ones, those of PyTorch's operator database
(OpInfo), or generated ones. Results, gradients and operands that are written to are compared: by
their graphs, which run where they differ. The exhaustive run executes all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import pytest
import torch
import torch_xla.core.xla_model as xm
from composites_testing.selection import only_fast, variants
from composites_testing.subjects import Subjects
from torch_xla.experimental.eager import eager_mode_context
from transformers.models.gptj.modeling_gptj import GPTJAttention

import composites
from composites.element_types import PYTORCH_NAMES
from composites.registry.catalog import load_catalog
from lowering.sample_calls import NoCalls, Sample, example_calls
from lowering.verification.opinfo import make_samples
from lowering.verification.results import Verdict
from lowering.verification.runs import evaluate
from lowering.verification.samples import DATABASE, GENERATED, NAMED, Samples, chosen, sources
from lowering.verification.subjects import Subject, make_subjects
from lowering.verification.verify import verify

# torch_xla's own selu says so, with composites or without.
pytestmark = pytest.mark.filterwarnings(
    "ignore:aten..selu_?. an autograd kernel was not registered"
)

CATALOG = load_catalog([])
TARGETS = {
    target.entry.name: target
    for target in make_subjects(tuple(CATALOG), CATALOG)
    if target.alternative is None and not (target.is_backward and target.entry.op is None)
}
OTHER_BITS = {
    "products whose batch and heads are apart": (
        *("eager_attention", "attention_with_sinks", "scaled_attention"),
    ),
    "stock leaves the graph for the CPU": (
        *("weight_norm", "embedding_bag", "fft_r2c", "fft_c2c", "fft_c2r", "glu", "glu_backward"),
        *("upsample_nearest2d", "upsample_nearest2d_backward", "upsample_bilinear2d"),
        *("upsample_bilinear2d_backward", "upsample_bicubic2d", "upsample_bicubic2d_backward"),
        *("grid_sampler_2d", "grid_sampler_2d_backward", "huber_loss", "huber_loss_backward"),
        *("muon", "zeropower_via_newtonschulz", "gated_delta_rule"),
        "kimi_delta_rule",
        *("weight_int8pack_mm", "scaled_mm", "fake_quantize_per_tensor"),
        *("fake_quantize_per_tensor_with_tensors", "quantize_per_tensor_with_tensors"),
        *("dequantize_per_tensor_with_tensors", "choose_qparams"),
    ),
    "stock reads norms back": ("adafactor",),
    "rounded to bf16 in other places": ("gpt_oss_experts",),
    "gradients of sums that processors with AVX2 alone order": ("dot_product_attention",),
}
"""Why entries have others than stock. Their numbers are compared instead."""
OLDER = () if hasattr(GPTJAttention, "_attn") else ("scaled_attention",)
"""Entries of functions that transformers had before 5.24."""
NUMBERS = [name for names in OTHER_BITS.values() for name in names if name not in OLDER]
WITHOUT_STOCK = (
    *("quantize_per_tensor", "quantize_per_channel"),
    *("dequantize_per_tensor", "dequantize_per_channel"),
    "mx_linear",
)
"""Entries of operators that stock torch_xla writes as custom calls for `uniform_quantize`, which
XLA on the CPU does not have, and one with operands in f8E8M0FNU, which torch_xla does not have;
tests/fx/test_torchao.py has their numbers."""
BITS = [name for name in TARGETS if name not in (*NUMBERS, *WITHOUT_STOCK, *OLDER)]
Mode: TypeAlias = Callable[[], AbstractContextManager[Any]]
MODES: Sequence[Any] = (torch.enable_grad, torch.no_grad, torch.inference_mode)
FLOATS = ("f32", "bf16", "f16", "f64")
OTHERS = ("i1", "ui8", "i64", "complex<f32>")
FEW, MANY = 12, 60
"""The number of samples of an entry."""
OF_MANY = ("max_pool2d", "nll_loss2d")
"""Entries that few of their samples reach."""
ELSEWHERE = (
    *("mm", "bmm", "addmm", "baddbmm", "matmul_accumulate", "convolution"),  # test_products.py
    *("adam", "adamw"),  # test_functions.py
)
"""Entries that no sample reaches."""
WITHOUT_GRADIENTS = ("batch_norm_inference",)
"""Entries of calls that have none."""
PARTS = 4
"""The number of parts of all entries, each of which is a graph or two."""


def computed(sample: Sample, mode: Mode) -> Mapping[str, Any]:
    """Results of a call. An exception must be stock's exception."""

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to("xla").requires_grad_(tensor.requires_grad)

    try:
        with mode():
            values = evaluate(sample, moved, sample.function)
    except Exception as error:
        return {"raised": f"{type(error).__name__}: {error}".partition("\n")[0]}
    return {f"tensor {number}": tensor for number, tensor in enumerate(values.tensors)}


def samples(target: Subject, dtype: str, most: int) -> tuple[Sample, ...]:
    """Samples of the best source. Backward entries have direct calls of their operators, since
    samples of forwards have gradients. Types other than floats have the database's samples only."""
    most = MANY if most > 1 and target.entry.name in OF_MANY else most
    if dtype not in FLOATS:
        return database_samples(target, getattr(torch, PYTORCH_NAMES[dtype]), most)
    kinds = (GENERATED,) if target.is_backward else (NAMED, DATABASE, GENERATED)
    for source in sources(target, dtype, most):
        if isinstance(source, Samples) and source.source in kinds:
            return source.samples
    return ()


def database_samples(target: Subject, dtype: torch.dtype, most: int) -> tuple[Sample, ...]:
    if target.is_backward or target.samples is not None:
        return ()
    examples = make_samples(target.entry.op or "", dtype, gradients=False)
    return chosen([replace(s, text=f"sample {n}") for n, s in enumerate(examples)], most)


def table(name: str, dtype: str, most: int, modes: Sequence[Mode]) -> Subjects:
    """The samples of an entry in modes of autograd. It may leave some of the calls alone."""
    modes = MODES if name in WITHOUT_GRADIENTS else modes
    calls = {
        f"{mode.__name__}, {sample.text}": partial(computed, sample, mode)
        for sample in samples(TARGETS[name], dtype, most)
        for mode in modes
    }
    return Subjects(calls, emits=(), may=ALL, label=f"{name}, ")


ALL = {name for entry in CATALOG for name in (entry.composite, f"{entry.composite}_backward")}


def runs() -> Iterator[Any]:
    """Types, how many samples, and modes."""
    gradients, types = MODES[:1], (*FLOATS, *OTHERS)
    for dtype in types:
        mark = () if dtype == "f32" else pytest.mark.slow
        if dtype in ("f16", "f64"):  # bf16 takes the same ways, but for roundings that f64 needs
            mark = pytest.mark.exhaustive
        yield pytest.param(dtype, FEW, gradients, marks=mark, id=dtype)
    yield pytest.param("f32", FEW, MODES[1:], marks=pytest.mark.slow, id="without gradients")
    for dtype in types:
        yield pytest.param(dtype, MANY, MODES, marks=pytest.mark.exhaustive, id=f"run-{dtype}")


@pytest.mark.parametrize(("dtype", "most", "modes"), runs())
@pytest.mark.parametrize("part", range(PARTS))
def test_samples_have_the_bits_of_stock(
    all_same_as_stock: Callable[..., Any], part: int, dtype: str, most: int, modes: Sequence[Mode]
) -> None:
    tables = {name: table(name, dtype, most, modes) for name in BITS[part::PARTS]}
    nodes = all_same_as_stock(*tables.values()).ours.nodes
    for name, made in tables.items():
        reached = {node for call in made.calls for node in nodes[made.label + call]}
        is_reached = f"ptxla.{TARGETS[name].entry.composite}" in reached
        assert is_reached or dtype in OTHERS or name in ELSEWHERE, name


@variants("name", NUMBERS, fast=("huber_loss", "weight_norm", "muon"))
def test_samples_with_other_bits_have_the_numbers_of_the_cpu(name: str) -> None:
    """Numbers are the CPU's in both directions. A call that leaves the graph is not a composite."""
    rows = verify(TARGETS[name], CATALOG, ("f32", "bf16"))
    assert {row.verdict for row in rows} == {Verdict.VERIFIED}, rows
    assert all(row.claimed for row in rows)


ROUTES = {
    "selu": "elu",
    "celu": "elu_backward",  # torch_xla lowers aten::celu itself
    "softmin": "softmax",
    "multi_head_attention_forward": "dropout",
    "multilabel_soft_margin_loss": "log_sigmoid",
    "relu6": "hardtanh",
    "avg_pool1d": "avg_pool2d",
    "local_response_norm": "avg_pool2d",
    "msort": "sort",
    "argsort": "sort",
}
"""Other functions of the database, and the composite that some of their samples become."""


def test_functions_that_end_in_an_entry(all_same_as_stock: Callable[..., Any]) -> None:
    tables = {}
    for name in ROUTES:
        examples = make_samples(f"aten::{name}", torch.float32, gradients=True)
        calls = {f"{n}": partial(computed, s, torch.enable_grad) for n, s in enumerate(examples)}
        tables[name] = Subjects(calls, emits=(), may=ALL, label=f"{name}, ")
    nodes = all_same_as_stock(*tables.values()).ours.nodes
    for name, made in tables.items():
        reached = {node for call in made.calls for node in nodes[made.label + call]}
        assert f"ptxla.{ROUTES[name]}" in reached, name


def in_place(operator: Any, tensor: torch.Tensor, *more: Any, **named: Any) -> Any:
    copy = tensor.clone()
    assert operator(copy, *more, **named) is copy
    return copy


def test_operators_in_place(all_same_as_stock: Callable[..., Any]) -> None:
    tables = []
    for name in BITS:
        entry = TARGETS[name].entry
        operator = getattr(torch.ops.aten, f"{(entry.op or '').partition('::')[2]}_", None)
        examples = example_calls(entry) if operator is not None else ()
        for number, call in enumerate(() if isinstance(examples, NoCalls) else examples):
            sample = Sample(partial(in_place, operator), *call.arguments())
            subject = {f"{name}_ {number}": partial(computed, sample, torch.enable_grad)}
            tables.append(Subjects(subject, emits={entry.composite}, may=ALL))
    assert len(tables) > 10
    all_same_as_stock(*tables)


COMPILED_FAST = ("gelu", "softmax", "layer_norm", "embedding", "avg_pool2d", "rms_norm")
"""Entries on operators and their backwards, above autograd, with several results, with integers,
with an operator in place of a kernel of the backend."""
NOT_COMPILED = (
    "dropout", "scaled_dot_product_attention", "drop_path", "scanned_gru_cell", "lstm", "kl_div",
)  # fmt: skip
"""Entries that draw random numbers save and restore their state, which no graph can do. PyTorch's
decomposition of lstm gives its states one dimension more, and stock's kl_div has one gradient
less."""


def compiled(sample: Sample) -> Mapping[str, Any]:
    """Results and gradients in a graph of torch.compile that is run operator by operator."""
    torch._dynamo.reset()
    options: Any = {"backend": "aot_eager", "fullgraph": True, "dynamic": False}
    run = torch.compile(lambda *args, **kwargs: sample.function(*args, **kwargs), **options)
    return on_cpu(computed(Sample(run, sample.arguments, sample.keywords), torch.enable_grad))


def eager(sample: Sample) -> Mapping[str, Any]:
    xm.set_rng_state(0)
    with eager_mode_context(True):
        return on_cpu(computed(sample, torch.enable_grad))


def on_cpu(named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Values on the CPU. 8-bit floats, which are not compared within a tolerance, become f32."""
    values = {n: v.cpu() if isinstance(v, torch.Tensor) else v for n, v in named.items()}
    narrow = (torch.float8_e4m3fn, torch.float8_e5m2)
    return {n: v.float() if getattr(v, "dtype", None) in narrow else v for n, v in values.items()}


def runs_as_stock(
    run: Callable[[Sample], Mapping[str, Any]], name: str, most: int, error: float = 1e-5
) -> None:
    """Check that results are stock's but for rounding, where stock takes the call."""
    for sample in samples(TARGETS[name], "f32", most):
        stock = run(sample)
        with composites.enabled("all"):
            ours = run(sample)
        if "raised" not in stock:
            torch.testing.assert_close(ours, stock, equal_nan=True, rtol=1e-4, atol=error)


FORWARDS = [
    name for name, target in TARGETS.items() if not target.is_backward and name not in WITHOUT_STOCK
]


@pytest.mark.parametrize(
    "name", only_fast([name for name in FORWARDS if name not in NOT_COMPILED], *COMPILED_FAST)
)
def test_compiled_samples_are_those_of_stock(name: str) -> None:
    runs_as_stock(compiled, name, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FORWARDS)
def test_samples_in_eager_mode_are_those_of_stock(name: str) -> None:
    """If a composite replaces several operators, stock rounds between them, and in bf16 where
    matrices are made orthogonal."""
    runs_as_stock(eager, name, 3, 0.05 if name == "zeropower_via_newtonschulz" else 1e-5)
