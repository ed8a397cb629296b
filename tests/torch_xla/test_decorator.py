"""`@composite` on functions of one's own: values and gradients, graphs, and what is refused."""

import copy
import functools
import pickle
import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.tensors import gradient_of
from composites_testing.written import written_composites

import composites
from composites import torch_internals
from composites.errors import LoweringError
from lowering.frontends.torch_xla.value_guard import GUARD


@composites.composite("acme.swiglu", attributes=("limit", "name", "sizes"))
def swiglu(
    gate: torch.Tensor,
    up: torch.Tensor,
    limit: float = 7.0,
    *,
    name: str = "plain",
    sizes: tuple[int, ...] = (1, 2),
) -> torch.Tensor:
    """Gate `up`."""
    return F.silu(gate.clamp(max=limit)) * up


@composites.composite("acme.pair")
def pair(a: torch.Tensor, b: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
    return {"sum": 2 * a if b is None else a + b, "square": a * a}


@composites.composite("acme.outer")
def outer(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return swiglu(gate, up, 1.0) + gate


class Norm(torch.nn.Module):
    def __init__(self, eps: float = 1e-3) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(1, 2, 3))
        self.eps = eps
        self.shift = self._shift = 2.0

    @composites.composite("acme.norm", operands=("x", "self.weight"), attributes=("self.eps",))
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight * torch.rsqrt(x.square().mean() + self.eps)

    @composites.composite("acme.shifted", operands=("x",))
    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.shift

    @composites.composite("acme.hidden", operands=("x",))
    def hidden(self, x: torch.Tensor) -> torch.Tensor:
        return x + self._shift

    @composites.composite("acme.normed", operands=("x", "self.weight"))
    def normed(self, x: torch.Tensor) -> torch.Tensor:
        return self._squared(x) * self.weight

    def _squared(self, x: torch.Tensor) -> torch.Tensor:
        self._twice = x * self._TWO
        return self._twice * x / self._TWO

    _TWO = 2.0

    @property
    def _ones(self) -> torch.Tensor:
        return self.weight / self.weight

    @composites.composite("acme.ones", operands=("x", "self.weight"))
    def ones(self, x: torch.Tensor) -> torch.Tensor:
        return x * self._ones

    @composites.composite("acme.called", operands=("x", "self.weight"), attributes=("self.eps",))
    def called(self, x: torch.Tensor) -> torch.Tensor:
        return x if hasattr(self, "_nothing") else self(x) + 1


def calls(*tensors: torch.Tensor) -> list[str]:
    """Composites of the graph's main function."""
    return sorted(written_composites(xm.get_stablehlo(list(tensors))).elements())


def data(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same values on the CPU and on XLA, both wanting gradients."""
    torch.manual_seed(0)
    values = torch.randn(*shape)
    return values.clone().requires_grad_(), values.to("xla").requires_grad_()


def test_forward_and_backward_are_a_composite_each() -> None:
    (a, x), (b, y) = data(4, 3), data(4, 3)
    result = swiglu(x, y, 0.5)
    gradients = torch.autograd.grad(result.sum(), [x, y])
    assert calls(result, *gradients) == ["acme.swiglu", "acme.swiglu_backward"]
    text = xm.get_stablehlo([result])
    assert (
        'limit = 5.000000e-01 : f32, name = "plain", sizes = dense<[1, 2]> : tensor<2xi64>' in text
    )
    expected = swiglu(a, b, 0.5)
    theirs = torch.autograd.grad(expected.sum(), [a, b])
    actual = [tensor.cpu() for tensor in (result, *gradients)]
    torch.testing.assert_close(actual, [expected, *theirs])


def check(
    on_xla: Callable[[torch.Tensor], torch.Tensor],
    on_cpu: Callable[[torch.Tensor], torch.Tensor],
    *names: str,
) -> None:
    """Check that result and gradient equal the CPU's, and that the graph has these composites."""
    a, x = data(4, 3)
    actual, expected = on_xla(x), on_cpu(a)
    (mine,), (right,) = (torch.autograd.grad(r.sum(), [t]) for r, t in ((actual, x), (expected, a)))
    assert set(calls(actual, mine)) == {*names, *(f"{name}_backward" for name in names)}
    torch.testing.assert_close(actual.cpu(), expected)
    torch.testing.assert_close(mine.cpu(), right)


def test_it_stays_the_function_it_was() -> None:
    assert (swiglu.__name__, swiglu.__doc__) == ("swiglu", "Gate `up`.")
    check(lambda x: swiglu(up=x, gate=x), lambda a: F.silu(a.clamp(max=7.0)) * a, "acme.swiglu")


@composites.composite("acme.oddly", attributes=("type", "tuple"))
def oddly(
    Arguments: torch.Tensor,
    dict: torch.Tensor | None = None,
    type: int = 2,
    tuple: tuple[int, ...] = (1, 2),
) -> torch.Tensor:
    return Arguments * type + len(tuple) if dict is None else Arguments * dict


def test_arguments_with_the_names_of_builtins() -> None:
    check(oddly, lambda a: a * 2 + 2, "acme.oddly")
    check(lambda x: oddly(x, x * 2), lambda a: a * a * 2, "acme.oddly")
    check(lambda x: oddly(Arguments=x, type=3, tuple=(1,)), lambda a: a * 3 + 1, "acme.oddly")


def test_arguments_with_the_names_of_generated_code_are_refused() -> None:
    def chosen(x: torch.Tensor, torch: int = 1) -> torch.Tensor:
        return x * torch

    def named_twice(self: torch.nn.Linear, self_weight: torch.Tensor) -> torch.Tensor:
        return self.weight * self_weight

    for function, name, operands in (
        (chosen, "torch", ("x",)),
        (named_twice, "self_weight", ("self.weight", "self_weight")),
    ):
        with pytest.raises(composites.AllowlistError, match=f"an argument named {name}, which"):
            composites.composite("acme.f", operands=operands)(function)


def test_a_sync_in_a_function_is_an_error() -> None:
    @composites.composite("acme.synced")
    def synced(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch_xla.sync()
        return y * 2

    _, x = data(4, 3)
    with pytest.raises(composites.LoweringError, match=r"acme\.synced: torch_xla\.sync\(\) runs"):
        synced(x)
    torch_xla.sync()
    with pytest.raises(composites.ExportError, match=r"torch_xla\.sync\(\) runs the graph"):
        composites.export(_Synced(), (torch.ones(2),))
    assert torch.equal(torch.ones(2, device="xla").cpu(), torch.ones(2))


class _Synced(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch_xla.sync()
        return x + 1


def test_a_failure_that_passes_is_not_remembered() -> None:
    fails = True

    @composites.composite("acme.sometimes")
    def sometimes(x: torch.Tensor) -> torch.Tensor:
        if fails and torch_internals.includes_key(GUARD):
            raise MemoryError("too much at once")
        return x * 2 + 1

    a, x = data(4, 3)
    with pytest.warns(composites.CompositesWarning, match="MemoryError: too much at once; the nex"):
        first = sometimes(x)
    assert calls(first) == []
    fails = False
    second = sometimes(x)
    assert calls(second) == ["acme.sometimes"]
    for result in (first, second):
        torch.testing.assert_close(result.cpu(), sometimes(a))


def test_results_of_any_structure() -> None:
    a, x = data(4, 3)
    alone, both = pair(x), pair(x, x)
    assert calls(alone["sum"], alone["square"]) == ["acme.pair"]
    torch.testing.assert_close(both["sum"].cpu(), pair(a, a)["sum"])
    (gradient,) = torch.autograd.grad(both["square"].sum(), [x])
    torch.testing.assert_close(gradient.cpu(), 2 * a)


def test_the_outer_one_wins_and_the_inner_one_stays_inside() -> None:
    _, x = data(4, 3)
    with composites.enabled("silu"):
        result = outer(x, x)
        assert calls(result) == ["acme.outer"]
        text = xm.get_stablehlo([result])
    assert set(re.findall(r'stablehlo.composite "([^"]+)"', text)) == {
        "acme.outer", "acme.swiglu", "ptxla.silu",
    }  # fmt: skip


def test_a_method_reads_what_it_lists() -> None:
    for eps in (1e-3, 1.0):  # two modules do not share a graph that only one of them is right for
        check(Norm(eps).to("xla"), Norm(eps), "acme.norm")
    on_cpu, on_xla = Norm(), Norm().to("xla")
    for module, x in ((on_cpu, data(4, 3)[0]), (on_xla, data(4, 3)[1])):
        module(x).sum().backward()
    torch.testing.assert_close(gradient_of(on_xla.weight).cpu(), gradient_of(on_cpu.weight))
    assert type(on_xla) is Norm


@pytest.mark.parametrize(("name", "read"), [("shifted", "shift"), ("hidden", "_shift")])
def test_a_method_that_reads_something_else_says_what_to_list(name: str, read: str) -> None:
    _, x = data(4, 3)
    message = rf"acme\.{name} reads self\.{read}, which is neither an operand nor an attribute"
    with pytest.raises(composites.LoweringError, match=message):
        getattr(Norm().to("xla"), name)(x)


def test_a_method_reads_what_objects_share() -> None:
    """Methods read other methods, constants of the class, new attributes and properties."""
    on_xla, on_cpu = Norm().to("xla"), Norm()
    for name in ("normed", "called", "ones"):
        check(getattr(on_xla, name), getattr(on_cpu, name), f"acme.{name}")
    assert not hasattr(on_xla, "_twice")


@pytest.mark.parametrize("times", [64, 65])
def test_random_numbers_are_drawn_as_often_as_a_composite_can(times: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(times):
            x = F.dropout(x, 0.01)
        return x

    drawn = composites.composite(f"acme.drawn_{times}")(function)
    _, x = data(4, 3)
    torch_xla.manual_seed(3)
    result = drawn(x)
    torch_xla.sync()
    torch_xla.manual_seed(3)
    assert torch.equal(result.cpu(), function(x).cpu())
    fallbacks = [f.reason for f in composites.stats().entries[f"acme.drawn_{times}"].fallbacks]
    assert fallbacks == ([] if times == 64 else ["it draws random numbers more than 64 times"])


class Described(type):
    """A metaclass with attributes of its own."""


class Scaled(metaclass=Described):
    scale = 3.0
    subclasses: ClassVar[list[str]] = []

    def __init_subclass__(cls, **keywords: object) -> None:
        Scaled.subclasses.append(cls.__name__)

    @staticmethod
    @composites.composite("acme.doubled")
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @composites.composite("acme.tripled")
    @staticmethod
    def tripled(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @classmethod
    @composites.composite("acme.scaled", attributes=("cls.scale",))
    def scaled(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.scale

    @composites.composite("acme.scaled_too", attributes={"factor": "cls.scale"})
    @classmethod
    def scaled_too(cls, x: torch.Tensor) -> torch.Tensor:
        """Scale."""
        return cls.scaled(x) + cls.offset()

    @classmethod
    def offset(cls) -> float:
        return 0.5

    @classmethod
    @composites.composite("acme.careless")
    def careless(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.scale


class Shifting(Scaled):
    @classmethod
    def offset(cls) -> float:
        return 7.0


class Further(Scaled):
    scale = 5.0

    @classmethod
    @composites.composite("acme.further", attributes=("cls.scale",))
    def scaled(cls, x: torch.Tensor) -> torch.Tensor:
        return super().scaled(x) + cls.scale


@pytest.mark.parametrize("name", ["doubled", "tripled", "scaled", "scaled_too"])
@pytest.mark.parametrize("owner", [Scaled, Further, Scaled(), Further()])
def test_methods_without_an_object(owner: Any, name: str) -> None:
    method = getattr(owner, name)
    is_further = name == "scaled" and "Further" in repr(owner)
    check(method, method, "acme.further" if is_further else f"acme.{name}")
    assert method.__name__ == name


def test_what_a_class_is_asked_for_is_listed() -> None:
    assert "factor = 5.000000e+00" in xm.get_stablehlo([Further.scaled_too(data(4, 3)[1])])
    assert Scaled.scaled_too.__doc__ == "Scale."
    with pytest.raises(LoweringError, match=r"acme\.careless reads cls.scale, which is neither"):
        Scaled.careless(data(4, 3)[1])
    assert Scaled.subclasses == ["Shifting", "Further"]  # no class was made that others can see


def test_classes_with_other_methods_do_not_share_a_graph() -> None:
    for owner in (Scaled, Shifting):
        check(owner.scaled_too, owner.scaled_too, "acme.scaled_too")


class Slotted:
    __slots__ = ("eps", "weight")

    def __init__(self) -> None:
        self.weight, self.eps = torch.linspace(1, 2, 3, device="xla"), 0.5

    @composites.composite("acme.slotted", operands=("x", "self.weight"), attributes=("self.eps",))
    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.eps


class Tupled(NamedTuple):
    weight: torch.Tensor
    eps: float = 0.5

    @composites.composite("acme.tupled", operands=("x", "self.weight"), attributes=("self.eps",))
    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight + self.eps


def test_methods_of_objects_that_are_no_modules() -> None:
    weight = torch.linspace(1, 2, 3)
    for owner in (Slotted(), Tupled(weight.to("xla"))):
        check(owner.method, lambda a: a * weight + 0.5, f"acme.{type(owner).__name__.lower()}")


class Shifted(Norm):
    def __init__(self) -> None:
        super().__init__()
        self.eps = 1e-2

    @composites.composite(
        "acme.shifted_norm", operands=("x", "self.weight"), attributes={"epsilon": "self.eps"}
    )
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


def test_an_inherited_method_is_inside_the_composite() -> None:
    module = Shifted().to("xla")
    check(module, Shifted(), "acme.shifted_norm")
    text = xm.get_stablehlo([module(data(4, 3)[1])])
    assert '"acme.norm"' in text  # in the decomposition
    assert "epsilon = 0.00999999977 : f32" in text


def test_copies_of_objects_with_methods() -> None:
    module = Norm()
    for made in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert type(made) is Norm
        check(made.to("xla"), module, "acme.norm")
    assert pickle.loads(pickle.dumps(swiglu)) is swiglu
    assert pickle.loads(pickle.dumps(Scaled.scaled)) == Scaled.scaled
    check(Norm().to("xla").forward, module, "acme.norm")


def takes_positions(*tensors: torch.Tensor) -> torch.Tensor:
    return tensors[0]


def hidden(_x: torch.Tensor) -> torch.Tensor:
    return _x


UNFIT: list[tuple[Callable[..., Any], str, dict[str, Any], str]] = [
    (oddly, "swiglu", {}, "'swiglu' is not a valid composite name; write"),
    (Shifted.forward, "acme.s", {"attributes": ("alpha",)}, "no argument 'alpha'; it has self, x"),
    (Norm, "acme.a", {}, "Norm is not a function"),
    (takes_positions, "acme.f", {}, r"takes \*tensors; a composite's arguments"),
    (hidden, "acme.f", {}, "'_x' cannot be the name of an argument"),
    (torch.sigmoid, "acme.f", {}, "the signature of .*sigmoid cannot be read"),
    (
        functools.partial(torch.add, alpha=2),
        "acme.b",
        {},
        "functools.partial.* is not a function; put @composite on a function or a method",
    ),
    (
        Shifted.forward,
        "acme.c",
        {"operands": ("x", "self.inner.weight")},
        "'self.inner.weight' has more than one step",
    ),
    (
        Shifted.forward,
        "acme.d",
        {"attributes": ("self.a", "x.a")},
        "two of the attributes self.a, x.a have one name; write a mapping",
    ),
    (
        Shifted.forward,
        "acme.e",
        {"attributes": {"1 2": "self.eps"}},
        "'1 2' is not the name of an attribute",
    ),
    (
        Shifted.forward,
        "acme.f",
        {"attributes": {"eps": "this.eps"}},
        "has no argument 'this.eps'; it has self, x",
    ),
]


def test_what_cannot_be_decorated() -> None:
    for function, name, options, message in UNFIT:
        with pytest.raises(composites.RegistryError, match=message):
            composites.composite(name, **options)(function)


CAPTURED = torch.tensor(3.0)
CAPTURED_VECTOR = torch.tensor([3.0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * CAPTURED,
        lambda x: x * CAPTURED.detach(),
        lambda x: x * CAPTURED.to(x.device),
        lambda x: x * CAPTURED_VECTOR[0].to(x.device),
        lambda x: x + CAPTURED_VECTOR.sum(),
    ],
)
def test_a_captured_tensor_on_the_cpu_is_not_a_constant(function: Callable[..., Any]) -> None:
    composed = composites.composite("acme.captured")(function)
    x = torch.arange(3.0).to("xla")
    try:
        for _ in range(2):
            assert composed(x).tolist() == function(torch.arange(3.0)).tolist()
            CAPTURED.add_(1)
            CAPTURED_VECTOR.add_(1)
    finally:
        CAPTURED.fill_(3)
        CAPTURED_VECTOR.fill_(3)
    (fallback,) = composites.stats().entries["acme.captured"].fallbacks
    assert "reads a CPU tensor that is not an operand (torch.float32" in fallback.reason
