"""Faster alternatives in a compiled step: which calls they take, what they compute, and why not."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.golden import Parts, check_cases
from composites_testing.kernel_uses import answer
from composites_testing.selection import variants
from torch import Tensor
from torch.nn import functional

import composites
from composites import Program, ProgramError
from lowering.stablehlo.kernels import KernelUse

UNLISTED = "no kernel is listed for cpu"


class Function(torch.nn.Module):
    """A function of parameters and of other tensors, and the sum of its weighted results."""

    def __init__(self, function: Callable[..., Any], parameters: Sequence[Tensor]) -> None:
        super().__init__()
        self.function = function
        self.weights = torch.nn.ParameterList(parameters)

    def forward(self, *operands: Tensor) -> Tensor:
        # By one, so that a gradient of each is a result of the operator's backward.
        result = self.function(*(weight * 1.0 for weight in self.weights), *operands)
        return (result * (result.detach().cos() + 2)).sum()


def floats(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def classes(count: int, below: int) -> Tensor:
    return torch.randint(below, (count,), generator=torch.Generator().manual_seed(0))


def both_ways(name: str, alternative: str) -> dict[str, str | None]:
    return dict.fromkeys((name, f"{name}_backward"), f"{name}={alternative}")


attend = functional.scaled_dot_product_attention

Case = tuple[Callable[..., Any], list[Tensor], list[Tensor], dict[str, str | None]]
CASES: dict[str, Case] = {
    "layer norm": (
        lambda x, weight, bias: functional.layer_norm(x, (256,), weight, bias),
        [floats(4, 64, 256), floats(256), floats(256)],
        [],
        both_ways("layer_norm", "products"),
    ),
    "batch norm": (
        lambda x, weight, bias, mean, variance: functional.batch_norm(
            x, mean.clone(), variance.clone(), weight, bias, training=True
        ),
        [floats(4, 64, 33, 32), floats(64), floats(64)],
        [torch.zeros(64), torch.ones(64)],
        both_ways("batch_norm_training", "products"),
    ),
    "cross entropy": (
        functional.cross_entropy,
        [floats(64, 1024)],
        [classes(64, 1024)],
        both_ways("cross_entropy_loss", "rows"),
    ),
    "bilinear": (
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
        [floats(2, 3, 8, 8)],
        [],
        {
            "upsample_bilinear2d": "upsample_bilinear2d=by_axis",
            "upsample_bilinear2d_backward": "upsample_bilinear2d_backward=phases",
        },
    ),
    "max pool": (
        lambda x: functional.max_pool2d(x, 2),
        [floats(2, 16, 64, 64)],
        [],
        {"max_pool2d": None, "max_pool2d_backward": "max_pool2d=phases"},
    ),
    "top k": (lambda x: x.topk(2).values, [floats(300, 64)], [], {"topk": "topk=maxima"}),
    "embedding": (
        lambda weight, indices: functional.embedding(indices, weight),
        [floats(4096, 256)],
        [classes(64, 4096)],
        {"embedding_dense_backward": "embedding_dense_backward=gathered"},
    ),
}


FAST = ("bilinear", "max pool", "top k", "embedding")


def export(case: str, **options: Any) -> tuple[Program, Function, list[Tensor]]:
    function, weights, operands, _ = CASES[case]
    module = Function(function, weights)
    return composites.export(module, tuple(operands), train=True, **options), module, operands


def run(program: Program, kernels: Any, module: Function, operands: list[Tensor]) -> Any:
    step = program.compile("cpu", kernels)
    outputs, _ = step(step.init(module), *operands)
    return outputs, {use.composite: use for use in step.kernels}


@pytest.mark.filterwarnings("error:Explicitly requested dtype")
@variants("case", CASES, fast=FAST)
def test_auto_takes_alternatives_with_the_same_numbers(case: str) -> None:
    program, module, operands = export(case)
    outputs, uses = run(program, "auto", module, operands)
    for name, alternative in CASES[case][3].items():
        use = uses[f"ptxla.{name}"]
        assert use.alternative == (alternative and f"ptxla.{alternative}"), use.reason
        assert use.kernel is None
        assert str(use.reason).startswith(UNLISTED)
    plain, unused = run(program, None, module, operands)
    assert {use.alternative for use in unused.values()} == {None}
    for name, expected in plain.items():
        scale = np.abs(expected).max()
        # jaxlib 0.7.1: 5.1e-6 for sums of 4,224 numbers of batch norm
        np.testing.assert_allclose(outputs[name] / scale, expected / scale, atol=1e-5, err_msg=name)


REFUSALS: dict[str, tuple[Callable[..., Any], list[Tensor], list[Tensor], dict[str, str]]] = {
    "small": (
        lambda x: functional.layer_norm(x, (128,)),
        [floats(8, 128)],
        [],
        dict.fromkeys(
            ("layer_norm", "layer_norm_backward"),
            f"{UNLISTED}; ptxla.layer_norm=products: needs input.dim() > 1 and input.numel() >="
            " 65536",
        ),
    ),
    "dtype": (
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
        [floats(1, 1, 4, 4).double()],
        [],
        {
            "upsample_bilinear2d": f"{UNLISTED}; ptxla.upsample_bilinear2d=by_axis: takes operands"
            " of f32 or bf16 or f16, not f64"
        },
    ),
    "attribute": (
        partial(attend, dropout_p=0.5),
        [floats(1, 2, 16, 4) for _ in range(3)],
        [],
        {
            "scaled_dot_product_attention": f"{UNLISTED};"
            " ptxla.scaled_dot_product_attention=blockwise_long: takes dropout_p = 0.0, not 0.5"
        },
    ),
    "gradient": (
        attend,
        [floats(1, 1, 1024, 8), floats(1, 1, 512, 8), floats(1, 1, 512, 8), floats(1024, 512)],
        [],
        {
            "scaled_dot_product_attention_backward": f"{UNLISTED};"
            " ptxla.scaled_dot_product_attention=blockwise_long: it has no gradient of attn_mask"
        },
    ),
    "no alternative": (lambda x: x.softmax(-1), [floats(3, 4)], [], {"softmax": UNLISTED}),
}


def test_why_a_call_keeps_its_decomposition() -> None:
    for function, weights, operands, reasons in REFUSALS.values():
        program = composites.export(Function(function, weights), tuple(operands), train=True)
        uses = {use.composite: use for use in program.with_kernels("cpu").kernels}
        for name, reason in reasons.items():
            use = uses[f"ptxla.{name}"]
            assert (use.kernel, use.alternative, use.reason) == (None, None, reason)


# ---- when nothing is chosen ----


def alternatives(uses: Sequence[KernelUse]) -> set[str | None]:
    return {use.alternative for use in uses}


@pytest.mark.parametrize("chosen", ["fast", "stock", "layer_norm=fast"])
def test_a_program_keeps_the_decompositions_it_was_exported_with(
    chosen: str, tmp_path: Path
) -> None:
    program, _, _ = export("bilinear", decompositions=chosen)
    program.save(tmp_path / "program")
    for exported in (program, Program.load(tmp_path / "program")):
        assert exported.keeps_decompositions
        assert alternatives(exported.with_kernels("cpu").kernels) == {None}


def test_the_choice_of_the_process_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice of the environment counts, and so does the choice of a block."""
    model, x = torch.nn.Upsample(scale_factor=2, mode="bilinear"), torch.ones(1, 1, 4, 4)
    assert not composites.export(model, (x,)).keeps_decompositions
    for choice in ("fast", "stock"):
        with composites.enabled("all", decompositions=choice):
            assert composites.export(model, (x,)).keeps_decompositions
        with monkeypatch.context() as context:
            context.setenv("XLA_COMPOSITE_DECOMPOSITION", choice)
            assert composites.export(model, (x,)).keeps_decompositions
    assert not composites.export(model, (x,)).keeps_decompositions


def test_other_platforms_and_named_kernels_have_none(tmp_path: Path) -> None:
    program, _, _ = export("bilinear")
    assert alternatives(program.with_kernels("rocm").kernels) == {None}
    assert alternatives(program.compile("cpu", {}).kernels) == {None}
    with pytest.raises(ProgramError, match="no kernel is listed on cpu"):
        program.compile("cpu", ["ptxla.upsample_bilinear2d"])
    placed = program.with_kernels("cpu")
    assert "ptxla.upsample_bilinear2d=by_axis" in alternatives(placed.kernels)
    assert alternatives(placed.program.compile("cpu").kernels) == {None}  # they are in it


# ---- beside kernels, and of other registries ----

FUNCTIONS = """
import jax
import jax.numpy as jnp

from composites import UnsupportedCallError

def bilinear(x, *, output_size, align_corners, scales_h=None, scales_w=None):
    return jax.image.resize(x, (*x.shape[:2], *output_size), "bilinear")

def softmax(self, dim, half_to_float=False):
    return jax.nn.softmax(self, axis=dim)

def fails(self, dim, half_to_float=False):
    raise ValueError("boom")

def declines(self, dim, half_to_float=False):
    raise UnsupportedCallError("not today")

def narrow(self, dim, half_to_float=False):
    return jax.nn.softmax(self, axis=dim).astype(jnp.bfloat16)

def further(self, dim, half_to_float=False, *, more):
    return self

def renamed(x, axis=-1, half=False):
    return jax.nn.softmax(x, axis=axis)

def double_x(x, dim, half_to_float=False):
    return jax.nn.softmax(x, axis=dim)
"""


@pytest.fixture
def registry(listed: Callable[[str, str], tuple[Path, str]]) -> Callable[[str], str]:
    """Writes a registry file for XLA_COMPOSITE_REGISTRY, and returns its module of functions."""
    return lambda text: listed(FUNCTIONS, text)[1]


KERNEL = """
kernels:
  ptxla.upsample_bilinear2d:
    cpu: [{function: MODULE:bilinear, priority: PRIORITY}]
"""


@pytest.mark.parametrize(("priority", "takes_kernel"), [(0, True), (-1, False)])
def test_kernels_come_first_unless_their_priority_is_negative(
    priority: int, takes_kernel: bool, registry: Any
) -> None:
    module = registry(KERNEL.replace("PRIORITY", str(priority)))
    program, model, inputs = export("bilinear")
    outputs, uses = run(program, "auto", model, inputs)
    use = uses["ptxla.upsample_bilinear2d"]
    kernel = f"{module}:bilinear"
    alternative = "ptxla.upsample_bilinear2d=by_axis"
    expected = (kernel, None) if takes_kernel else (None, alternative)
    assert (use.kernel, use.alternative, use.reason) == (*expected, None)
    np.testing.assert_allclose(outputs["loss"], run(program, None, model, inputs)[0]["loss"], 1e-5)


def test_a_kernel_behind_alternatives_takes_what_they_leave(registry: Any) -> None:
    module = registry(KERNEL.replace("PRIORITY", "-1"))
    up = torch.nn.Upsample(scale_factor=1.7, mode="bilinear")
    (use,) = composites.export(up, (torch.ones(1, 1, 8, 8),)).with_kernels("cpu").kernels
    assert use.kernel == f"{module}:bilinear"
    assert "by_axis: needs scales_h is None or" in str(use.reason)


SOFTMAX = """
kernels:
  ptxla.softmax:
    other:
      goals: [fast]
      when: {WHEN}
      decomposition: FUNCTION
"""


@cache
def softmax() -> Program:
    return composites.export(torch.nn.Softmax(-1), (floats(3, 4),))


def softmax_with(registry: Any, function: str, when: str = "") -> KernelUse:
    registry(SOFTMAX.replace("FUNCTION", function).replace("WHEN", when))
    (use,) = softmax().with_kernels("cpu").kernels
    return use


def test_a_file_adds_alternatives_to_entries_of_others(registry: Any) -> None:
    use = softmax_with(
        registry, "jax:MODULE:softmax", "dim: [-1, 1], where: ['self.shape[0] == 3']"
    )
    assert (use.alternative, use.reason) == ("ptxla.softmax=other", UNLISTED)


def test_why_an_alternative_is_not_taken(listed: Callable[[str, str], tuple[Path, str]]) -> None:
    def reasons(parts: Parts) -> str:
        path, _ = listed(FUNCTIONS, f"kernels:\n  {parts['']}")
        return answer(lambda: softmax().with_kernels("cpu").kernels, path.parent)

    check_cases(Path(__file__).parent / "golden" / "listed_alternatives.txt", reasons)


@pytest.mark.slow
def test_auto_takes_what_is_faster_on_the_platform() -> None:
    """Programs with the choices of `auto` are only lowered where the machine has no GPU."""

    def call(query: Tensor, x: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        attended = attend(query, query, query, is_causal=True)
        larger = functional.interpolate(x, scale_factor=2, mode="bilinear")
        for mode in ("nearest", "bicubic"):
            larger = larger + functional.interpolate(x, scale_factor=2, mode=mode)
        chosen = torch.topk(logits.view(1024, 128), 2).values
        norm = functional.layer_norm(attended, (64,))
        loss = functional.cross_entropy(logits, labels)
        return norm.mean() + larger.mean() + chosen.mean() + loss

    operands = [floats(1, 2, 1024, 64), floats(1, 2, 8, 8), floats(256, 512)]
    program = composites.export(Function(call, operands), (classes(256, 512),), train=True)
    taken = {}
    for platform in ("cpu", "cuda", "tpu"):
        uses = program.with_kernels(platform).kernels
        taken[platform] = {use.alternative.partition(".")[2] for use in uses if use.alternative}
    assert taken["tpu"] == set()
    assert taken["cuda"] == {
        "scaled_dot_product_attention=causal_rows",
        "topk=maxima",
        "upsample_bicubic2d=by_axis",
        "upsample_bilinear2d=by_axis",
        "upsample_bilinear2d_backward=phases",
        "upsample_nearest2d=repeated",
    }
    assert {"scaled_dot_product_attention=blockwise_long", "cross_entropy_loss=rows"} < taken["cpu"]


@pytest.mark.slow
def test_what_a_gpu_may_round() -> None:
    """A GPU rounds factors of products to TF32 unless they say otherwise. Those in bf16 say what
    they are, and f32 ones what stock does without products."""

    def call(query: Tensor, image: Tensor) -> Tensor:
        attended = attend(query, query, query, is_causal=True)
        larger = functional.interpolate(image.detach(), scale_factor=1.5, mode="bilinear")
        return attended.float().mean() + larger.mean()

    operands = [floats(1, 2, 1024, 64).bfloat16(), floats(1, 2, 8, 8)]
    module = Function(call, operands)
    program = composites.export(module, (), train=True, decompositions="fast", target="cuda")
    products = [line for line in program.mlir.splitlines() if "stablehlo.dot_general" in line]
    in_bf16 = [line for line in products if "rhs_precision_type = bf16" in line]
    assert len(in_bf16) == 7 * 4  # two forward and five backward, of four blocks
    assert products != in_bf16
    for line in products:
        assert (line in in_bf16) != ("precision = [HIGHEST, HIGHEST]" in line), line


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_gradients_of_images_are_not_rounded(mode: str) -> None:
    module = Function(
        lambda x: functional.interpolate(x, scale_factor=1.5, mode=mode).square().mean(),
        [floats(1, 2, 8, 8)],
    )
    program = composites.export(module, (), train=True)
    assert f"ptxla.upsample_{mode}2d_backward" in program.mlir
    lines = program.mlir.splitlines()
    products = [line for line in lines if "dot_general" in line and "(tensor<1x2x" in line]
    assert len(products) == 2  # rows and columns
    assert all("precision = [HIGHEST, HIGHEST]" in line for line in products)
