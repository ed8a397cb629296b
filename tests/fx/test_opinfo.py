"""Every entry of the registry on the samples of PyTorch's database, and on its own samples; and the
operators of the database that have a rule in JAX.

A program with the composite gives the bits of the program without, and both give PyTorch's numbers.
The samples of an entry are one program.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import composites
from composites.registry.catalog import load_catalog
from composites.torch_internals import pytree
from lowering.frontends.aten_in_jax.dtypes import torch_dtype
from lowering.frontends.aten_in_jax.table import LINEAR_ALGEBRA, RULES
from lowering.sample_calls import Sample
from lowering.verification import opinfo
from lowering.verification.bits import same_bits
from lowering.verification.runs import Values, evaluate, is_random, on_cpu
from lowering.verification.samples import Samples, chosen, sources
from lowering.verification.subjects import Subject, make_subjects

CATALOG = load_catalog()
TARGETS = {t.label: t for t in make_subjects(tuple(CATALOG), CATALOG) if t.alternative is None}
FLOATS = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}

ONE, MANY = 1, 12
"""The number of samples of each source that are run."""

ROUNDINGS = {"f32": 16, "bf16": 4, "f16": 8}
"""The distance of results from PyTorch's in f64, in roundings of the largest number of a result, in
addition to twice the distance of PyTorch's own results in that dtype."""

WITHOUT_CPU = frozenset(
    f"ptxla.{name}"
    for name in (
        "adam", "adamw", "convolution", "dropout", "relative_position_bias", "scanned_gru_cell",
        "scaled_attention", "scaled_dot_product_attention",
    )
)  # fmt: skip
"""Entries whose samples PyTorch's CPU does not take as they are, that need the state of random
numbers of a device (tests/export has programs with them), or of older transformers' functions."""

WITHOUT_STOCK = frozenset(["ptxla.embedding_bag"])
"""Entries of operators that are not part of a program without their composite."""

ELSEWHERE = frozenset(
    f"ptxla.{name}"
    for name in (
        "addmm", "baddbmm", "bmm", "instance_norm", "max_pool2d", "mm", "nll_loss2d",
        "upsample_nearest2d",
    )
)  # fmt: skip
"""Entries whose first samples reach another entry, or another overload."""

READING = frozenset(["ptxla.adafactor", "ptxla.fused_adam", "ptxla.fused_adamw"])
"""Optimizers that read the count of steps. An export of a step has them keep it on the device."""

INSIDE_BF16 = frozenset(["ptxla.zeropower_via_newtonschulz"])
"""Entries that compute in bf16, whatever their operands are."""

CHANGED_IN_BF16 = frozenset(["ptxla.muon"])
"""Entries that add to an operand what they computed in bf16."""

PICKING = {"ptxla.sort": 1, "ptxla.stable_sort": 1, "ptxla.topk": 2}
"""Entries whose second result has indices into the first operand, and the position of the dimension
among their arguments. The order of equal numbers is left open."""

TERMS = 2
"""The further distance of a gradient, in roundings of its terms. The terms are products of the same
numbers as those of other gradients, and of the gradients of results, which are about 1. Where they
cancel, as in the gradient of a norm's input, what remains is small and has the terms' roundings."""

ZERO = 1e-9
"""A gradient that is this small in f64, beside the operands, is zero by mathematics: what it is in
another dtype is noise."""


class Calls(torch.nn.Module):
    """Calls of samples, whose tensors are the arguments."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        super().__init__()
        self.samples = samples
        self.operands = [t for sample in samples for t in tensors_of(sample)]

    def forward(self, *arguments: torch.Tensor) -> list[torch.Tensor]:
        by_id = {id(t): argument for t, argument in zip(self.operands, arguments, strict=True)}

        def substitute(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in by_id:  # of a module, or the direction of a gradient
                return tensor.detach().to(arguments[0].device)
            return by_id[id(tensor)].clone().requires_grad_(tensor.requires_grad)

        with torch.enable_grad():
            return [
                tensor
                for sample in self.samples
                for tensor in evaluate(sample, substitute, sample.function).tensors
            ]


def tensors_of(sample: Sample) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves((sample.arguments, dict(sample.keywords)))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def samples_of(target: Subject, element_type: str, count: int) -> Iterator[list[Sample]]:
    """Samples that PyTorch takes on the CPU, of each source."""
    for source in sources(target, element_type, count):
        taken = source.samples if isinstance(source, Samples) else ()
        usable = [s for s in taken if tensors_of(s) and isinstance(on_cpu(s), Values)]
        if usable:
            yield usable


def run(samples: Sequence[Sample], ops: Sequence[str]) -> tuple[list[torch.Tensor], set[str]]:
    """Results of the exported calls, and the composites among them."""
    module = Calls(samples)
    arguments = tuple(tensor.detach() for tensor in module.operands)
    program = composites.export(module, arguments, ops=list(ops), frontend="fx")
    values: dict[str, Any] = {
        f"arg:{n}": t.resolve_conj().resolve_neg() for n, t in enumerate(arguments)
    }
    values["rng_seed"] = np.asarray(0, np.int64)
    results = program.run({value.name: values[value.name] for value in program.inputs})
    arrays = [results[output.name] for output in program.outputs]
    return [to_torch(array) for array in arrays], set(program.composites)


def to_torch(array: Any) -> torch.Tensor:
    if array.dtype.isbuiltin != 1:  # bf16 and 8-bit floats, which NumPy does not have
        bits = array.view(f"i{array.dtype.itemsize}").copy()
        return torch.from_numpy(bits).view(torch_dtype(array.dtype))
    return torch.from_numpy(np.array(array))


def parts(values: Values) -> Iterator[tuple[str, torch.Tensor]]:
    for kind, tensors in (
        ("result", values.results),
        ("gradient", values.gradients),
        ("operand", values.operands),
    ):
        for number, tensor in enumerate(tensors):
            if isinstance(tensor, torch.Tensor):
                yield f"{kind} {number}", tensor


def differences(
    label: str, sample: Sample, results: Iterator[torch.Tensor], eps: float
) -> Iterator[str]:
    """The results in which a program differs from PyTorch."""
    cpu, wide = on_cpu(sample), on_cpu(sample, wide=True)
    assert isinstance(cpu, Values)
    exact = dict(parts(wide)) if isinstance(wide, Values) else {}
    random = is_random(sample, cpu)
    gradients = [t for name, t in exact.items() if name.startswith("gradient")]
    terms = max([1.0, *map(largest_of, gradients)])
    indices: tuple[torch.Tensor, torch.Tensor] | None = None
    position = dict(enumerate(sample.arguments)).get(PICKING.get(label, 0), -1)
    dim = sample.keywords.get("dim", position)
    for name, want in parts(cpu):
        mine = next(results)
        if mine.shape != want.shape or mine.dtype != want.dtype:
            yield f"{name}: {mine.dtype}{list(mine.shape)}, not {want.dtype}{list(want.shape)}"
        elif not random and want.numel():
            best = exact.get(name, want)
            if label in PICKING and name == "result 1" and picks_the_same(sample, dim, mine, want):
                indices = mine, want
                continue
            if indices is not None and name == "gradient 0":
                mine = picked(mine, dim, indices[0])
                best, want = (picked(gradient, dim, indices[1]) for gradient in (best, want))
            error = distance(mine, best)
            own = distance(want, best)
            largest = largest_of(best)
            if name.startswith("gradient") and name in exact and largest < ZERO:
                continue
            limit = eps * largest * (want.is_floating_point() or want.is_complex()) + 2 * own
            if name.startswith("gradient") and want.dtype in FLOATS.values():
                limit += TERMS * torch.finfo(want.dtype).eps * terms
            if label in CHANGED_IN_BF16 and name.startswith("operand"):
                before = tensors_of(sample)[int(name.split()[1])].detach()
                change = largest_of(best.double() - before.double())
                limit += 2 * ROUNDINGS["bf16"] * torch.finfo(torch.bfloat16).eps * change
            if not error <= limit:
                yield f"{name}: error {error:.2e}, at most {limit:.2e}"


def distance(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference. Numbers that are not finite must be the same."""
    dtype = torch.complex128 if actual.is_complex() else torch.float64
    actual, expected = actual.to(dtype), expected.to(dtype)
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    left = torch.where(same, 0, (actual - expected).abs())
    return float(left.nan_to_num(nan=float("inf")).max())


def picks_the_same(sample: Sample, dim: int, mine: torch.Tensor, want: torch.Tensor) -> bool:
    """Check that indices select PyTorch's values, and that all are different."""
    operand = tensors_of(sample)[0].detach()
    if not operand.dim() or sample.keywords.get("stable"):
        return torch.equal(mine, want)
    if bool((mine.sort(dim).values.diff(dim=dim) == 0).any()):
        return False
    return same_bits(operand.gather(dim, mine), operand.gather(dim, want))


def picked(gradient: torch.Tensor, dim: int, indices: torch.Tensor) -> torch.Tensor:
    """A gradient at indices; elsewhere it is zero."""
    if not gradient.dim():
        return gradient
    assert not gradient.scatter(dim, indices, 0).any()
    return gradient.gather(dim, indices)


def largest_of(tensor: torch.Tensor) -> float:
    """The largest finite number, without its sign."""
    numbers = finite(tensor)
    return float(numbers.abs().max()) if numbers.numel() else 0.0


def finite(tensor: torch.Tensor) -> torch.Tensor:
    wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
    return wide[wide.isfinite()]


def _named(reason: str, *names: str) -> dict[str, str]:
    return {f"ptxla.{name}": reason for name in names}


OTHER_BITS: dict[str, str] = {
    **_named(
        "a decomposition of its own computes in another way than the operators that it stands for",
        "fft_c2c", "fft_c2r", "frozen_batch_norm", "glu", "glu_backward", "grid_sampler_2d",
        "grid_sampler_2d_backward", "gru", "gru_cell", "huber_loss", "huber_loss_backward",
        "kimi_delta_rule", "lstm", "lstm_cell", "muon", "top_k_routing",
        "upsample_bicubic2d_backward", "upsample_bilinear2d", "upsample_bilinear2d_backward",
        "weight_norm", "zeropower_via_newtonschulz",
    ),
    **_named(
        "a composite keeps batch and heads of its products apart, where the call merges them",
        "attention_with_sinks", "dot_product_attention", "eager_attention", "scaled_attention",
    ),
    **_named(
        "the operations are the same; XLA:CPU fuses them in another way, or folds constants of the"
        " sample in another order",
        "avg_pool2d", "avg_pool2d_backward", "gptj_rotary_embedding",
    ),
}  # fmt: skip
"""Entries whose programs may have other bits than those without them, and why. All others, of
operators and of functions, have the same."""


def check(label: str, element_type: str, count: int) -> None:
    """Compare with the samples of each source, until the entry claims some."""
    target = TARGETS[label]
    compared = False
    for samples in samples_of(target, element_type, count):
        compared = True
        claimed = compare(target, samples, element_type)
        if claimed:
            return
    if not compared:
        assert label in WITHOUT_CPU or element_type != "f32", "an entry has samples in f32"
        return
    # An entry with conditions may claim none of the samples.
    assert target.entry.when or label in ELSEWHERE, "the entry claims no sample"


def compare(target: Subject, samples: Sequence[Sample], element_type: str) -> set[str]:
    """Compare one program of samples with PyTorch and with the program without the entry. What it
    claims is returned."""
    label = target.label
    inside = "bf16" if label in INSIDE_BF16 else element_type
    eps = ROUNDINGS[inside] * torch.finfo(FLOATS[inside]).eps * (1 + (label in INSIDE_BF16))
    ours, claimed = run(samples, [entry.identity for entry in target.entries])
    if label not in WITHOUT_STOCK:
        numbers = with_other_bits(samples, ours)
        assert not numbers or label in OTHER_BITS, f"{numbers} have other bits"
    results = iter(ours)
    wrong = [
        f"{sample.text}: {text}"
        for sample in samples
        for text in differences(label, sample, results, eps)
    ]
    assert not wrong, "\n".join(wrong)
    return claimed


def with_other_bits(samples: Sequence[Sample], ours: Sequence[torch.Tensor]) -> list[int]:
    """The results of a program, by their numbers, that have other bits without composites."""
    plain, none = run(samples, [])
    assert not none
    return [n for n, (a, b) in enumerate(zip(plain, ours, strict=True)) if not same_bits(a, b)]


# Those of backwards are those of their forwards, which have gradients.
FORWARDS = [
    label for label, target in TARGETS.items() if not target.is_backward and label not in READING
]


@pytest.mark.parametrize("label", FORWARDS)
def test_one_sample_in_f32(label: str) -> None:
    check(label, "f32", ONE)


@pytest.mark.exhaustive
@pytest.mark.parametrize("element_type", FLOATS)
@pytest.mark.parametrize("label", [label for label in TARGETS if label not in READING])
def test_many_samples(label: str, element_type: str) -> None:
    check(label, element_type, MANY)


# ---- operators that no entry has ----

RULED = {
    operator.name().partition(".")[0]
    for operator in RULES
    if isinstance(operator, torch._ops.OpOverload)  # others are functions of this project
}
OTHERS = {
    f"aten::{name}"
    for name in (
        "adaptive_avg_pool3d", "adaptive_max_pool2d", "bilinear", "cdist", "conv_transpose1d",
        "fft_fft2", "fft_irfftn", "fft_rfftn", "interpolate", "matrix_exp", "multi_margin_loss",
        "multilabel_margin_loss", "pad", "stft",
    )
}  # fmt: skip
"""Functions that end in several operators."""
REFUSED = {"aten::repeat_interleave", "aten::to"}
"""Operators with samples that have no form in JAX, or leave the device; see test_operators.py."""
ROUGH = {"aten::erfinv": 3}
"""The factor by which results may have more roundings."""
NAMES = sorted((RULED | OTHERS) - REFUSED)
PARTS = 8


def few_samples(name: str, dtype: torch.dtype) -> list[Sample]:
    """Samples that PyTorch takes on the CPU, one of them of a tensor without dimensions."""
    every = [s for s in opinfo.make_samples(name, dtype, gradients=True) if tensors_of(s)]
    scalars = [s for s in every if not tensors_of(s)[0].dim()]
    by_id = {id(s): s for s in (*chosen(every, 2), *scalars[-1:])}
    return [sample for sample in by_id.values() if isinstance(on_cpu(sample), Values)]


@pytest.mark.parametrize("part", range(PARTS))
def test_operators_have_the_numbers_of_pytorch(part: int) -> None:
    """Operators with a rule in JAX have the numbers; linear algebra, complex ones too."""
    algebra = {operator.name().partition(".")[0] for operator in LINEAR_ALGEBRA}
    wrong = []
    for name in NAMES[part::PARTS]:
        eps = ROUNDINGS["f32"] * torch.finfo(torch.float32).eps * ROUGH.get(name, 1)
        for dtype in (torch.float32, *[torch.complex64] * (name in algebra)):
            samples = few_samples(name, dtype)
            numbers = iter(run(samples, [])[0] if samples else ())
            wrong += [
                f"{name}, {[list(t.shape) for t in tensors_of(sample)]}, {sample.keywords}: {text}"
                for sample in samples
                for text in differences(name, sample, numbers, eps)
            ]
    assert not wrong, "\n".join(wrong)
