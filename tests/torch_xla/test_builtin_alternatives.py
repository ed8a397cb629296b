"""The alternatives of the built-in registry: numbers, sizes, and what they leave to stock."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from composites_testing.decompositions import decompositions_since
from composites_testing.processes import run_python
from composites_testing.selection import only_fast
from composites_testing.tensors import gradient_of
from torch import Tensor

import composites
from composites.registry.catalog import load_catalog
from composites.registry.packages import builtin_registry_path
from composites.registry.validation import load_registry
from lowering.verification.results import Verdict
from lowering.verification.subjects import make_subjects
from lowering.verification.verify import verify

ATTENTION, LOSS = "ptxla.scaled_dot_product_attention", "ptxla.cross_entropy_loss"


def attention(length: int, device: str = "xla", **options: Any) -> list[Tensor]:
    """Causal attention, if `options` does not say otherwise, and its gradients."""
    generator = torch.Generator().manual_seed(0)
    shape = (1, 2, length, 8)
    dtype = torch.float64 if device == "cpu" else torch.float32
    leaves = [torch.randn(*shape, generator=generator).to(device, dtype) for _ in range(3)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    query, key, value = leaves
    options = {"is_causal": True} | options
    result = F.scaled_dot_product_attention(query, key, value, **options)
    return [result.detach(), *torch.autograd.grad(result.sin().sum(), leaves)]


def loss(rows: int, device: str = "xla", **options: Any) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    dtype = torch.float64 if device == "cpu" else torch.float32
    logits = torch.randn(rows, 300, generator=generator).to(device, dtype).requires_grad_()
    target = torch.randint(0, 300, (rows,), generator=generator).to(device)
    result = F.cross_entropy(logits, target, **options)
    return [result.detach(), *torch.autograd.grad(result, [logits])]


REGISTRY = load_registry(builtin_registry_path())
ALTERNATIVES = {entry.name: entry for entry in REGISTRY.composites if entry.alternatives}
QUICK = (
    *("scaled_dot_product_attention", "softmax_backward", "llama_rms_norm", "group_norm", "topk"),
    "upsample_nearest2d",
)


@pytest.mark.parametrize("name", only_fast(ALTERNATIVES, *QUICK))
def test_numbers_of_samples(name: str) -> None:
    """Samples of `composites verify` have results and gradients that are as near to f64 as stock's
    or as promised, each computed by the alternative."""
    catalog = load_catalog([])
    targets = make_subjects((ALTERNATIVES[name],), catalog)
    for target in (target for target in targets if target.alternative is not None):
        rows = verify(target, catalog, ("f32",))
        assert {row.verdict for row in rows} == {Verdict.VERIFIED}, rows


def test_attention_never_holds_all_scores() -> None:
    texts = {}
    for choice in ("stock", "small"):
        with composites.enabled(ATTENTION, decompositions=choice):
            texts[choice] = xm.get_stablehlo(attention(1024))
    scores = re.compile(r"tensor<[x0-9]*1024x1024x")
    assert scores.search(texts["stock"])
    assert not scores.search(texts["small"])
    blocks = re.findall(r"x(\d+)x(\d+)xf32>", texts["small"])
    assert max(int(rows) * int(columns) for rows, columns in blocks) <= 256 * 256


SHARDED = """
import numpy, torch, torch_xla, torch_xla.runtime, torch_xla.distributed.spmd as spmd
import composites

torch_xla.runtime.use_spmd()
composites.enable("scaled_dot_product_attention", decompositions="fast")
mesh = spmd.Mesh(numpy.arange(4), (4,), ("heads",))
operands = [torch.randn(1, 8, 300, 4, device="xla", requires_grad=True) for _ in range(3)]
for operand in operands:
    spmd.mark_sharding(operand, mesh, (None, "heads", None, None))
torch_xla.sync()
result = torch.nn.functional.scaled_dot_product_attention(*operands, is_causal=True)
gradients = torch.autograd.grad(result.sin().sum(), operands)
torch_xla.sync()
for gradient in gradients:
    print(tuple(gradient.shape), bool(gradient.cpu().isfinite().all()))
"""


@pytest.mark.exhaustive
def test_attention_with_sharded_heads_needs_no_collective(tmp_path: Path) -> None:
    done = run_python(
        SHARDED, CPU_NUM_DEVICES="4", XLA_FLAGS=f"--xla_dump_to={tmp_path} --xla_dump_hlo_as_text"
    )
    assert done.stdout.splitlines() == ["(1, 8, 300, 4) True"] * 3, done.stderr
    texts = [path.read_text() for path in tmp_path.glob("*after_optimizations.txt")]
    (graph,) = [text for text in texts if " while(" in text]
    assert "f32[1,2," in graph  # two heads on each device
    assert not re.search(r" (all-\w+|collective-\w+|reduce-scatter)(-start)?\(", graph)


@pytest.mark.parametrize(("call", "size"), [(attention, 768), (loss, 4000)])
def test_the_text_does_not_grow_with_the_size(call: Callable[..., list[Tensor]], size: int) -> None:
    lines = []
    for factor in (1, 4):
        with composites.enabled(ATTENTION, LOSS, decompositions="fast"):
            lines.append(len(xm.get_stablehlo(call(factor * size)).splitlines()))
    assert abs(lines[0] - lines[1]) <= 4


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, device="xla", requires_grad=True)


def resized(size: tuple[int, int], mode: str) -> Tensor:
    corners: dict[str, Any] = {} if mode == "nearest" else {"align_corners": False}
    return F.interpolate(image(2, 3, 4, 5), size=size, mode=mode, **corners)


def pooled(*arguments: Any) -> Tensor:
    result: Tensor = F.max_pool2d(image(2, 4, 96, 100), *arguments)
    return result


def batch_normed(*shape: int) -> Tensor:
    averages = torch.zeros(shape[1], device="xla"), torch.ones(shape[1], device="xla")
    return F.batch_norm(image(*shape), *averages, None, None, True)


def labelled(logits: Tensor, *sizes: int) -> Tensor:
    return F.cross_entropy(logits, torch.zeros(sizes, dtype=torch.int64, device="xla"))


LEFT: dict[str, tuple[str, Callable[[], Any]]] = {
    "dropout": ("scaled_dot_product_attention", lambda: attention(300, dropout_p=0.5)),
    "few scores": ("scaled_dot_product_attention", lambda: attention(16)),
    "few logits": ("cross_entropy_loss", lambda: loss(4)),
    "probabilities": (
        "cross_entropy_loss",
        lambda: F.cross_entropy(image(300, 300), image(300, 300).softmax(1)),
    ),
    "pixels": ("cross_entropy_loss", lambda: labelled(image(3, 300, 100), 3, 100)),
    "ceil_mode": ("max_pool2d", lambda: pooled(3, 2, 0, 1, True)),
    "nearest, no whole factor": ("upsample_nearest2d", lambda: resized((7, 5), "nearest")),
    "gradient of bilinear, no whole factor": (
        "upsample_bilinear2d_backward",
        lambda: resized((7, 5), "bilinear"),
    ),
    "bicubic, smaller": ("upsample_bicubic2d", lambda: resized((2, 3), "bicubic")),
    "columns": ("topk", lambda: image(300, 100).topk(2, 0)[0]),
    "many indices": (
        "embedding_dense_backward",
        lambda: F.embedding(torch.randint(4000, (2000,)).to("xla"), image(4096, 256)),
    ),
    "short rows": ("layer_norm", lambda: F.layer_norm(image(4096, 32), [32])),
    "rows that are not whole blocks": ("rms_norm", lambda: F.rms_norm(image(200, 420), [420])),
    "no images": ("batch_norm_training", lambda: batch_normed(32768, 16)),
    "columns, softmax": ("softmax_backward", lambda: image(70, 70).softmax(0)),
    "no rows": ("log_softmax_backward", lambda: image(0, 64).log_softmax(-1)),
}
"""An entry, and a call whose results or gradients its alternatives leave to stock, by name."""


def test_what_is_left_to_stock() -> None:
    taken = {}
    for case, (name, call) in LEFT.items():
        before = composites.stats().entries
        with composites.enabled(name, decompositions="fast"):
            result = call()
            if isinstance(result, Tensor):
                result.sin().sum().backward()
        taken[case] = {*decompositions_since(before, f"ptxla.{name}")}
    wrong = {
        case: kinds for case, kinds in taken.items() if not kinds <= {"stock", "stock, backward"}
    }
    assert not wrong
    assert {case for case, kinds in taken.items() if not kinds} == set()


def test_the_gradient_of_a_mask_is_stocks() -> None:
    before = composites.stats().entries
    q = torch.randn(1, 2, 300, 8, device="xla", requires_grad=True)
    mask = torch.zeros(300, 300, device="xla", requires_grad=True)
    with composites.enabled(ATTENTION, decompositions="small"):
        F.scaled_dot_product_attention(q, q, q, mask).sum().backward()
    assert decompositions_since(before, ATTENTION) == {"blockwise": 1, "stock, backward": 1}
    assert bool(gradient_of(mask).isfinite().all())


def test_operands_of_other_ranks_are_left_to_stock() -> None:
    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, device="xla")

    q, k = numbers(1, 300, 8), numbers(300, 8)
    before = composites.stats().entries
    with composites.enabled(ATTENTION, decompositions="fast"):
        assert F.scaled_dot_product_attention(q, k, k).shape == (1, 300, 8)
        masked = F.scaled_dot_product_attention(q, q, q, numbers(1, 1, 300, 300))
    assert masked.shape == (1, 1, 300, 8)
    assert decompositions_since(before, ATTENTION) == {"stock": 2}


@pytest.mark.parametrize(
    ("length", "rows", "number"),
    [
        # It takes all bits of the scores and of the logarithm of their sum.
        (300, 20, torch.finfo(torch.float32).min),
        # In the rows that are added to make whole blocks, nothing overflows.
        (301, 301, 200.0),
    ],
)
def test_gradients_where_a_mask_adds_much(length: int, rows: int, number: float) -> None:
    mask = torch.zeros(length, length)
    mask[:rows] = number
    mask = mask[:1] if rows == length else mask
    results = {}
    for choice in ("stock", "fast"):
        with composites.enabled(ATTENTION, decompositions=choice):
            results[choice] = attention(length, attn_mask=mask.to("xla"), is_causal=False)
    fast, stock = ([tensor.cpu() for tensor in results[choice]] for choice in ("fast", "stock"))
    torch.testing.assert_close(fast, stock, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_what_ignored_rows_hold_does_not_count(weighted: bool) -> None:
    logits = torch.randn(300, 300)
    target = torch.arange(300)
    logits[:9], target[:9] = torch.nan, -100
    weight = torch.rand(300) if weighted else None
    right = F.cross_entropy(logits, target, weight)
    device = None if weight is None else weight.to("xla")
    with composites.enabled(LOSS, decompositions="fast"):
        mine = F.cross_entropy(logits.to("xla"), target.to("xla"), device)
    torch.testing.assert_close(mine.cpu(), right)
