"""Every sample of PyTorch's OpInfo database, with composites on and off: the same bits.

OPERATORS lists the operators of the database that reach one of registry.yaml, found by running the
samples of all. A change is tested with their samples in f32. CI takes the reference inputs and the
other types too. Graphs run where they differ from those of stock; the exhaustive run executes all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch_xla.core.xla_model as xm
from composites_testing.subjects import Subjects
from torch.utils._pytree import tree_leaves, tree_map
from torch_xla.experimental.eager import eager_mode_context

import composites
from composites.registry.builtin import builtin_registry_path
from composites.registry.validation import load_registry

if TYPE_CHECKING:
    from torch.testing._internal.opinfo.core import OpInfo, SampleInput

# torch_xla's own selu says so, with composites or without.
pytestmark = pytest.mark.filterwarnings(
    "ignore:aten..selu_?. an autograd kernel was not registered"
)

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
NARROW_AND_WIDE = (torch.bfloat16, torch.float32)
ONE = (torch.float32,)
OTHERS = (torch.bool, torch.uint8, torch.int64, torch.complex64)


@dataclass(frozen=True, slots=True)
class Reaches:
    """An operator of the database, and the composites that its samples become."""

    name: str
    forward: tuple[str, ...]
    backward: tuple[str, ...]
    floats: tuple[torch.dtype, ...] = FLOATS
    may: tuple[str, ...] = ()
    """Composites that some of the samples become, and others do not."""
    refuses: Callable[[SampleInput], bool] = lambda sample: False
    """The samples with which stock torch_xla raises."""
    differentiates: bool = True
    """False where stock torch_xla leaves the graph for the gradient; see test_backend_operators."""
    aborts: Callable[[SampleInput], bool] = lambda sample: False
    """The samples with which stock torch_xla ends the process."""
    takes: Callable[[int, SampleInput], bool] = lambda number, sample: True
    """The samples that are run, where these are not all."""
    variants: tuple[str, ...] = ()
    """Of several entries of the database with this name, those that are run; all if empty."""


def is_scalar(sample: SampleInput) -> bool:
    return bool(sample.input.dim() == 0)


def is_scalar_with_dim(sample: SampleInput) -> bool:
    return is_scalar(sample) and sample.kwargs.get("dim") is not None


def has_a_wide_sum(number: int, sample: SampleInput) -> bool:
    """Entries leave sums in a narrow type of integers to stock."""
    narrow = (torch.bool, torch.uint8)
    return sample.input.dtype not in narrow or sample.kwargs.get("dtype") is not None


def is_complex(sample: SampleInput) -> bool:
    return bool(sample.input.is_complex())


def is_vector(sample: SampleInput) -> bool:
    return bool(sample.input.dim() == 1)


def one_in(step: int, number: int) -> bool:
    """Whether to run this sample of very many; COMPOSITES_ALL_SAMPLES=1 runs all."""
    return number % step == 0 or "COMPOSITES_ALL_SAMPLES" in os.environ


def is_dilated(sample: SampleInput) -> bool:
    return sample.kwargs.get("dilation", 1) not in (1, (1, 1))


def normalizes_with_running_statistics(sample: SampleInput) -> bool:
    return not sample.kwargs.get("training", False) and bool(sample.input.numel())


SOFTMAX = (("softmax",), ("softmax_backward",))
LOG_SOFTMAX = (("log_softmax",), ("log_softmax_backward",))
ATTENTION = (("scaled_dot_product_attention",), ("scaled_dot_product_attention_backward",))
CROSS_ENTROPY = (("cross_entropy_loss",), ("cross_entropy_loss_backward",))
OF_ONE_NAME = (
    *("gelu", "silu", "hardswish", "mish", "elu", "hardsigmoid", "softplus", "leaky_relu"),
    *("hardtanh", "group_norm", "kl_div", "mse_loss", "binary_cross_entropy"),
)
OPERATORS = (
    *(Reaches(f"nn.functional.{name}", (name,), (f"{name}_backward",)) for name in OF_ONE_NAME),
    Reaches("softmax", *SOFTMAX, refuses=is_scalar),
    # Its own gradient with respect to grad_output is a softmax backward too.
    Reaches("_softmax_backward_data", ("softmax_backward",), ("softmax_backward",)),
    Reaches("log_softmax", *LOG_SOFTMAX, refuses=is_scalar),
    Reaches("nn.functional.selu", ("elu",), ("elu_backward",), NARROW_AND_WIDE),
    # torch_xla lowers aten::celu itself; only the backward is elu's.
    Reaches("nn.functional.celu", (), ("elu_backward",), NARROW_AND_WIDE),
    Reaches("nn.functional.softmin", *SOFTMAX, NARROW_AND_WIDE, refuses=is_scalar),
    Reaches("masked.softmax", *SOFTMAX, ONE, refuses=is_scalar),
    Reaches("masked.softmin", *SOFTMAX, ONE, refuses=is_scalar),
    Reaches("torch.ops.aten._safe_softmax.default", *SOFTMAX, NARROW_AND_WIDE),
    Reaches("nn.functional.scaled_dot_product_attention", *ATTENTION),
    Reaches(
        "nn.functional.multi_head_attention_forward",
        ("softmax", "dropout"),
        ("softmax_backward", "dropout_backward"),
        NARROW_AND_WIDE,
    ),
    # Of no elements stock gives a result without gradient; a bias without weight is left to stock.
    Reaches("nn.functional.layer_norm", ("layer_norm",), (), may=("layer_norm_backward",)),
    # Where mean and deviation leave a graph that also has the gradient, XLA fuses stock's graph in
    # another way than ours, and the gradient differs in the last bit. layer_norm has the gradient.
    Reaches("native_layer_norm", (), (), may=("layer_norm",), differentiates=False),
    Reaches(
        "nn.functional.rms_norm",
        ("rms_norm",),
        ("rms_norm_backward",),
        FLOATS[:3],  # in f64, sums over several dimensions have other last bits
        refuses=is_complex,
    ),
    Reaches("nn.functional.dropout", (), (), may=("dropout", "dropout_backward")),
    Reaches("masked.log_softmax", *LOG_SOFTMAX, ONE, refuses=is_scalar),
    Reaches("nn.functional.cross_entropy", *CROSS_ENTROPY),
    Reaches("nn.functional.embedding", ("embedding",), (), may=("embedding_dense_backward",)),
    Reaches(
        "nn.functional.nll_loss",
        (),
        (),
        may=("nll_loss", "nll_loss_backward", "nll_loss2d", "nll_loss2d_backward"),
        aborts=is_vector,
    ),
    Reaches(  # an l1_loss where beta is 0
        "nn.functional.smooth_l1_loss",
        (),
        (),
        may=("smooth_l1_loss", "smooth_l1_loss_backward"),
    ),
    Reaches(
        "nn.functional.binary_cross_entropy_with_logits",
        (),
        (),
        # A pos_weight without weight is left to stock.
        may=("binary_cross_entropy_with_logits", "log_sigmoid"),
    ),
    Reaches("nn.functional.logsigmoid", ("log_sigmoid",), ("log_sigmoid_backward",)),
    Reaches(
        "nn.functional.multilabel_soft_margin_loss",
        ("log_sigmoid",),
        ("log_sigmoid_backward",),
        NARROW_AND_WIDE,
    ),
    Reaches("nn.functional.relu6", ("hardtanh",), ("hardtanh_backward",), NARROW_AND_WIDE),
    # The gradient of some forms of pooling leaves the graph in stock torch_xla.
    Reaches("nn.functional.avg_pool2d", ("avg_pool2d",), (), may=("avg_pool2d_backward",)),
    # 1440 samples: all combinations of sizes, strides, paddings, dilations and results. Stock
    # torch_xla leaves the graph for dilated pooling, and raises in its gradient for some sizes.
    Reaches(
        "nn.functional.max_pool2d",
        (),
        (),
        may=("max_pool2d", "max_pool2d_backward"),
        takes=lambda number, sample: one_in(17, number) and not is_dilated(sample),
    ),
    Reaches(
        "nn.functional.max_pool2d",
        (),
        (),
        differentiates=False,
        takes=lambda number, sample: one_in(17, number) and is_dilated(sample),
    ),
    Reaches(
        "nn.functional.avg_pool1d",
        ("avg_pool2d",),
        (),
        NARROW_AND_WIDE,
        may=("avg_pool2d_backward",),
    ),
    Reaches(
        "nn.functional.local_response_norm", (), (), ONE, may=("avg_pool2d", "avg_pool2d_backward")
    ),
    Reaches(
        "nn.functional.batch_norm",
        (),
        (),
        may=("batch_norm_inference", "batch_norm_training"),
        differentiates=False,
    ),
    Reaches(
        "nn.functional.batch_norm",
        (),
        (),
        may=("batch_norm_training", "batch_norm_training_backward"),
        refuses=normalizes_with_running_statistics,
    ),
    Reaches(
        "nn.functional.instance_norm",
        (),
        (),
        NARROW_AND_WIDE,
        may=(
            "batch_norm_training",
            "batch_norm_training_backward",
            "instance_norm",
            "instance_norm_backward",
        ),
    ),
    Reaches(
        "native_batch_norm",
        (),
        (),
        may=("batch_norm_backward",),
        refuses=lambda sample: not sample.args[4] and bool(sample.input.numel()),
    ),
    Reaches("var", ("var",), (), refuses=is_complex),
    Reaches("std", ("std",), (), refuses=is_complex),
    Reaches("var_mean", ("var_mean",), (), refuses=is_complex),
    Reaches("topk", ("topk",), (), refuses=is_scalar),
    # The gradient of a cumsum is another.
    Reaches("cumsum", ("cumsum",), (), refuses=is_scalar, takes=has_a_wide_sum),
    Reaches("sort", (), (), may=("sort",), refuses=is_scalar),
    Reaches("msort", ("sort",), (), ONE, refuses=is_scalar),
    Reaches("argsort", (), (), ONE, may=("sort",), refuses=is_scalar),
    # Stock leaves the graph without include_self, and for a mean; it refuses some scalars.
    Reaches(
        "scatter_reduce",
        (),
        (),
        may=("scatter_reduce",),
        takes=lambda number, sample: not is_scalar(sample),
        variants=("sum", "prod", "amax", "amin"),
    ),
    Reaches("argmax", ("argmax",), (), refuses=is_scalar_with_dim),
    Reaches("masked.argmax", ("argmax",), (), ONE, refuses=is_scalar_with_dim),
    Reaches(
        "nn.functional.upsample_nearest",
        (),
        (),
        may=("upsample_nearest2d",),
        differentiates=False,
    ),
    Reaches("nn.functional.upsample_bilinear", ("upsample_bilinear2d",), (), differentiates=False),
    Reaches("nn.functional.glu", ("glu",), (), differentiates=False),
)


DIFFERENT_GRAPHS = {
    "native_layer_norm": "sums without a dimension of one",
    "nn.functional.cross_entropy": "the gradient without one-hot rows, losses without a dimension",
    "nn.functional.embedding": "indices without a dimension of one",
    "nn.functional.group_norm": "sums without a dimension of one",
    "nn.functional.kl_div": "a mask as a boolean, losses without a dimension of one",
    "nn.functional.layer_norm": "sums without a dimension of one",
    "nn.functional.multi_head_attention_forward": "as attention",
    "nn.functional.rms_norm": "dimensions in increasing order, sums without a dimension of one",
    "nn.functional.scaled_dot_product_attention": "a mask of rows as a reduction",
    "std": "without a dimension of one",
    "var": "without a dimension of one",
    "var_mean": "without a dimension of one",
}
"""Operators whose composites compute in f32 in another way than stock; their graphs run."""
PARTS = 4
"""Of all operators, so that each part is a graph or two."""


def entries(operator: Reaches) -> list[OpInfo]:
    """The entries of the database with an operator's name; they are variants of it."""
    from torch.testing._internal.common_methods_invocations import op_db

    return [
        info
        for info in op_db
        if info.name == operator.name
        and (not operator.variants or info.variant_test_name in operator.variants)
    ]


def samples(
    operator: Reaches,
    info: OpInfo,
    dtype: torch.dtype,
    *,
    requires_grad: bool,
    references: bool = False,
) -> dict[str, SampleInput]:
    """The samples that are run, by a name that also says of what.

    Args:
        references: whether to take reference inputs. Those of elementwise operators are their
            samples, and large, extremal and non-contiguous tensors.
    """
    torch.manual_seed(0)
    # The reference inputs of multi-head attention are 192 shapes.
    more = info.reference_inputs_func if references and "attention" not in info.name else None
    # Not `info.sample_inputs`, which looks through the stack for the name of a test.
    make = more or info.sample_inputs_func
    return {
        f"{info.name} {info.variant_test_name} {dtype}, {i}: {sample.summary()}": sample
        for i, sample in enumerate(make(info, "cpu", dtype, requires_grad))
        if operator.takes(i, sample) and not operator.aborts(sample)
    }


def on_device(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().to("xla").requires_grad_(value.requires_grad)


def forward_and_gradient(function: Callable[..., Any], sample: SampleInput) -> dict[str, Any]:
    """Results of one sample, and the gradient of each of its inputs for a random direction."""
    given = tree_map(on_device, (sample.input, tuple(sample.args), dict(sample.kwargs)))
    inputs = [t for t in tree_leaves(given) if isinstance(t, torch.Tensor) and t.requires_grad]
    returned = tree_leaves(function(given[0], *given[1], **given[2]))
    named: dict[str, Any] = {f"result {i}": result for i, result in enumerate(returned)}
    results = [t for t in returned if isinstance(t, torch.Tensor) and t.requires_grad]
    if results:
        directions = [random_like(result) for result in results]
        gradients = torch.autograd.grad(results, inputs, directions, allow_unused=True)
        named |= {f"gradient {i}": gradient for i, gradient in enumerate(gradients)}
    return named


def random_like(tensor: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(tensor.shape, dtype=tensor.dtype, generator=generator)
    if values.dim() == 0:  # one that comes from the CPU would be a number, and numbers constants
        return values.reshape(1).to("xla").reshape(())
    return values.to("xla")


def in_place(info: OpInfo, tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> torch.Tensor:
    copy = tensor.clone()
    assert info.inplace_variant(copy, *arguments, **keywords) is copy
    return copy


def subjects(
    function: Callable[..., Any], samples: Mapping[str, SampleInput]
) -> dict[str, Callable[[], Mapping[str, Any]]]:
    return {name: partial(forward_and_gradient, function, s) for name, s in samples.items()}


def refused(operator: Reaches, samples: Mapping[str, SampleInput]) -> list[str]:
    return [name for name, sample in samples.items() if operator.refuses(sample)]


def tables(
    operator: Reaches, dtype: torch.dtype, *, references: bool = False
) -> Iterator[Subjects]:
    """The samples of an operator in one type, forward and, of floats, backward too."""
    differentiates = dtype.is_floating_point and operator.differentiates
    for info in entries(operator):
        if dtype not in info.dtypes:
            continue
        made = samples(operator, info, dtype, requires_grad=differentiates, references=references)
        emits = {*operator.forward, *(operator.backward if dtype.is_floating_point else ())}
        yield Subjects(
            subjects(info.op, made),
            emits=emits,
            may=operator.may,
            raises=refused(operator, made),
        )


def part_of(part: int, dtype: torch.dtype) -> list[Reaches]:
    chosen = [o for o in OPERATORS if dtype in o.floats or not dtype.is_floating_point]
    return chosen[part::PARTS]


def typed(*dtypes: torch.dtype) -> list[Any]:
    """Types for CI, and all of them executed in the exhaustive run."""
    return [
        *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in dtypes),
        *(pytest.param(dtype, marks=pytest.mark.exhaustive, id=f"run-{dtype}") for dtype in dtypes),
    ]


@pytest.mark.parametrize("dtype", [None, *typed(*FLOATS)], ids=str)
@pytest.mark.parametrize("part", range(PARTS))
def test_results_and_gradients_are_those_of_stock(
    all_same_as_stock: Callable[..., Any], part: int, dtype: torch.dtype | None
) -> None:
    """Without a type, the samples in f32 that are no reference inputs."""
    references, dtype = dtype == torch.float32, dtype or torch.float32
    operators = {
        operator: [*tables(operator, dtype, references=references)]
        for operator in part_of(part, dtype)
    }
    both = all_same_as_stock(*(table for made in operators.values() for table in made))
    ours, differences = both.ours, both.differences
    if dtype == torch.float32:
        others = {n: differences[n] for n in differences if n.split()[0] not in DIFFERENT_GRAPHS}
        assert not others
    for operator, made in operators.items():
        found = {
            name for table in made for call in table.calls for name in ours.nodes.get(call, ())
        }
        assert {f"ptxla.{name}" for name in operator.may} <= found, operator.name


@pytest.mark.parametrize("dtype", typed(*FLOATS), ids=str)
def test_in_place_results_and_gradients_are_those_of_stock(
    all_same_as_stock: Callable[..., Any], dtype: torch.dtype
) -> None:
    found = []
    for operator in OPERATORS:
        for info in entries(operator):
            if info.inplace_variant is None or dtype not in {*operator.floats} & {*info.dtypes}:
                continue
            made = samples(operator, info, dtype, requires_grad=True)
            for name in refused(operator, made):
                del made[name]
            calls = subjects(partial(in_place, info), made)
            emits = {*operator.forward, *operator.backward}
            found.append(Subjects(calls, emits=emits, may=operator.may))
    all_same_as_stock(*found)


@pytest.mark.parametrize("dtype", typed(*OTHERS), ids=str)
def test_other_dtypes_give_what_stock_gives(
    all_same_as_stock: Callable[..., Any], dtype: torch.dtype
) -> None:
    all_same_as_stock(*(t for operator in OPERATORS for t in tables(operator, dtype)))


# These calls save and restore the state of random numbers, which no graph can do.
WITH_STATE = (
    "nn.functional.dropout",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.scaled_dot_product_attention",
)
# Entries on operators and their backwards, above autograd, with several results, with integers,
# with an operator in place of a kernel of the backend.
COMPILED_FAST = (
    "nn.functional.gelu",
    "softmax",
    "nn.functional.layer_norm",
    "nn.functional.embedding",
    "nn.functional.avg_pool2d",
    "nn.functional.upsample_bilinear",
)
# Stock torch_xla takes the gradient of one alpha for that of another if it has seen that before.
WITH_WRONG_GRADIENT = ("nn.functional.celu",)


def compiled(function: Callable[..., Any], sample: SampleInput) -> dict[str, Any] | Exception:
    """Results and gradients in a graph of torch.compile that is run operator by operator."""
    torch._dynamo.reset()
    graph = torch.compile(
        lambda *arguments, **keywords: function(*arguments, **keywords),
        backend="aot_eager",
        fullgraph=True,
        dynamic=False,
    )
    try:
        named = forward_and_gradient(graph, sample)
        return {name: value.detach().cpu() for name, value in named.items() if value is not None}
    except Exception as error:
        return error


def compiled_names() -> list[Any]:
    """Some operators in every run, all of the registry in CI, all others in the exhaustive run."""
    found = []
    for name in dict.fromkeys(operator.name for operator in OPERATORS):
        direct = any(o.floats == FLOATS for o in OPERATORS if o.name == name)
        if name in (*WITH_STATE, *WITH_WRONG_GRADIENT):
            continue
        marks = [] if name in COMPILED_FAST else [pytest.mark.slow]
        if direct:
            found.append(pytest.param(name, False, marks=marks, id=name))
        found.append(pytest.param(name, True, marks=pytest.mark.exhaustive, id=f"all, {name}"))
    return found


@pytest.mark.parametrize(("name", "every"), compiled_names())
def test_compiled_results_and_gradients_are_those_of_stock(name: str, every: bool) -> None:
    """But for rounding, for the middle, first and last sample, with and without gradients; or for
    the first of these that stock takes."""
    for operator in (o for o in OPERATORS if o.name == name):
        for info in entries(operator)[: None if every else 1]:
            assert compared(operator, info, every=every)


def compared(operator: Reaches, info: OpInfo, *, every: bool) -> int:
    """How many samples have the same results in compiled graphs; stock does not take all."""
    count = 0
    for requires_grad in sorted({False, operator.differentiates}, reverse=True):
        made = samples(operator, info, torch.float32, requires_grad=requires_grad)
        names = [name for name in made if not operator.refuses(made[name])]
        for name in dict.fromkeys((names[len(names) // 2], names[0], names[-1])):
            if count and not every:
                return count
            stock = compiled(info.op, made[name])
            with composites.enabled("all"):
                ours = compiled(info.op, made[name])
            if isinstance(stock, Exception):
                continue
            assert not isinstance(ours, Exception), f"{name}: {ours}"
            same = {key: ours[key] for key in stock}  # kl_div has a gradient, stock has none
            torch.testing.assert_close(same, stock, equal_nan=True)
            count += 1
    return count


def in_eager_mode(function: Callable[..., Any], sample: SampleInput) -> dict[str, Any]:
    xm.set_rng_state(0)
    with eager_mode_context(True):
        try:
            named = forward_and_gradient(function, sample)
        except RuntimeError as error:
            return {"raised": str(error)}
        return {name: value.detach().cpu() for name, value in named.items() if value is not None}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "operator",
    # Stock takes the gradient of elu's alpha for that of selu's.
    [operator for operator in OPERATORS if operator.name != "nn.functional.selu"],
    ids=lambda operator: operator.name,
)
def test_eager_mode_gives_what_stock_gives(operator: Reaches) -> None:
    """The first, middle and last sample. Where a composite stands for several operators, stock
    rounds between them."""
    for info in entries(operator):
        made = [*samples(operator, info, torch.float32, requires_grad=True).values()]
        for sample in (made[0], made[len(made) // 2], made[-1]):
            stock = in_eager_mode(info.op, sample)
            with composites.enabled("all"):
                ours = in_eager_mode(info.op, sample)
            assert ours.pop("raised", None) == stock.pop("raised", None)
            torch.testing.assert_close(
                {key: ours[key] for key in stock}, stock, equal_nan=True, rtol=1e-4, atol=1e-5
            )


def test_every_operator_with_the_stock_lowering_is_reached() -> None:
    reached = {
        name
        for operator in OPERATORS
        for name in (*operator.forward, *operator.backward, *operator.may)
    }
    native, own = set[str](), set[str]()
    for entry in load_registry(builtin_registry_path(), builtin=True).composites:
        both = {entry.name, f"{entry.name}_backward"} if entry.derives else {entry.name}
        if str(entry.decomposition) == "native" and entry.op is not None:
            native |= both if entry.composite == entry.name else {entry.composite}
        else:
            own |= both
    assert native == reached - own


def test_every_operator_is_in_the_database() -> None:
    assert not [operator.name for operator in OPERATORS if not entries(operator)]
