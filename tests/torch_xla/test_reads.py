"""A function under `@composite` reads more than its arguments: a change reaches the composite."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.tensors import gradient_of
from torch import nn

import composites
from composites.errors import LoweringError

Function = Callable[..., torch.Tensor]

SCALE: Any = 1.0
TABLE: dict[str, Any] = {"scale": 1.0, "inner": {"scale": 1.0}}
NAMES = SimpleNamespace(scale=1.0)
LISTED = [1.0]
HELPERS: dict[str, Function] = {"one": lambda x: x}
log = logging.getLogger("test_reads")
seen: list[int] = []


def helper(x: torch.Tensor) -> torch.Tensor:
    return x * TABLE["inner"]["scale"]


class Settings:
    scale = 1.0

    def __init__(self) -> None:
        self.own = 1.0

    def times(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.own * SCALE


SETTINGS = Settings()
ACTIVATION = nn.LeakyReLU(0.5)


@dataclass
class Scaled:
    _shared = 1.0

    @composites.composite("acme.read_by_class", operands=("x",))
    def method(self, x: torch.Tensor) -> torch.Tensor:
        return self._times(x) * self._shared

    def _times(self, x: torch.Tensor) -> torch.Tensor:
        return x * SCALE


def imported(x: torch.Tensor) -> torch.Tensor:
    from os import environ as variables

    return x * float(variables["TEST_READS"])


def logged(x: torch.Tensor) -> torch.Tensor:
    log.debug("traced")
    seen.append(1)
    return x * SCALE


def read_a_cell() -> tuple[Function, Callable[[Any], None]]:
    scale: Any = 1.0

    def change(value: Any) -> None:
        nonlocal scale
        scale = value

    return lambda x: x * scale, change


CELL, change_cell = read_a_cell()

SCALED = [
    lambda x: x * SCALE,
    lambda x: sum(x * SCALE for _ in range(2)),
    lambda x: x * TABLE["scale"],
    lambda x: x * TABLE.get("scale", 3.0),
    lambda x: x * sum(value for value in TABLE.values() if isinstance(value, float)),
    lambda x: x * NAMES.scale,
    lambda x: x * LISTED[0],
    lambda x: x * sum(LISTED),
    lambda x: x * Settings.scale,
    lambda x: SETTINGS.times(x),
    lambda x: HELPERS["one"](x),
    lambda x: helper(x),
    lambda x: helper(helper(x)),
    lambda x: ACTIVATION(-x),
    lambda x: x * float(os.environ.get("TEST_READS", "1")),
    imported,
    logged,
    CELL,
    vars(Scaled)["method"].__wrapped__.__get__(Scaled()),
]


@contextmanager
def changed(value: float) -> Iterator[None]:
    """Replace each value that the functions above read within this context."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "SCALE", value)
        patch.setitem(TABLE, "scale", value)
        patch.setitem(TABLE["inner"], "scale", value)
        patch.setattr(NAMES, "scale", value)
        LISTED[0] = value
        patch.setattr(Settings, "scale", value)
        patch.setattr(SETTINGS, "own", value)
        patch.setattr(Scaled, "_shared", value)
        patch.setattr(ACTIVATION, "negative_slope", value)
        patch.setitem(HELPERS, "one", lambda x: x * value)
        patch.setenv("TEST_READS", str(value))
        change_cell(value)
        yield
    change_cell(1.0)
    LISTED[0] = 1.0


def forward_and_gradient(function: Function, device: str) -> list[torch.Tensor]:
    x = torch.arange(1.0, 4.0).to(device).requires_grad_()
    result = function(x)
    (gradient,) = torch.autograd.grad(result.sum(), [x])
    if device == "xla":
        assert xm.get_stablehlo([result, gradient]).count('stablehlo.composite "acme.read') == 2
    return [result.detach().cpu(), gradient.cpu()]


def test_a_changed_value_is_in_the_next_call() -> None:
    wrong = []
    for n, function in enumerate(SCALED):
        composed = composites.composite(f"acme.read_{n}", operands=("x",))(function)
        if hasattr(function, "__self__"):
            composed = function.__self__.method
        for value in (1.0, 2.0):
            with changed(value):
                ours = forward_and_gradient(composed, "xla")
                theirs = forward_and_gradient(function, "cpu")
            if not all(map(torch.equal, ours, theirs)):
                wrong.append((n, value, ours, theirs))
    assert not wrong, wrong
    entry = composites.stats().entries["acme.read_0"]
    assert entry.cached == {"forward": 2, "derived backward": 2}


def test_settings_of_pytorch() -> None:
    @composites.composite("acme.read_settings")
    def with_settings(x: torch.Tensor) -> torch.Tensor:
        branch = 2.0 if torch.is_grad_enabled() else 1.0
        return x * branch * torch.ones(3, device=x.device)

    x = torch.ones(3, dtype=torch.int32, device="xla")
    for dtype in (torch.float32, torch.float16, torch.float32):
        torch.set_default_dtype(dtype)
        try:
            for enabled, expected in ((True, 2.0), (False, 1.0)):
                with torch.set_grad_enabled(enabled):
                    result = with_settings(x)
                assert (result.dtype, result.tolist()) == (dtype, [expected] * 3)
        finally:
            torch.set_default_dtype(torch.float32)
    assert not composites.stats().entries["acme.read_settings"].fallbacks


def test_a_value_that_changes_between_forward_and_backward_is_named() -> None:
    @composites.composite("acme.read_early")
    def early(x: torch.Tensor) -> torch.Tensor:
        return x * SCALE

    x = torch.ones(3, device="xla", requires_grad=True)
    result = early(x)
    with changed(2.0), pytest.raises(LoweringError, match=r"SCALE has changed from 1\.0 to 2\.0"):
        result.sum().backward()
    assert forward_and_gradient(early, "xla")[1].tolist() == [1.0] * 3  # the graph was not freed
    result = early(x)
    with changed(2.0):  # it is known by now
        result.sum().backward()
    assert gradient_of(x).tolist() == [1.0] * 3


def numbers() -> Iterator[float]:
    while True:
        yield 1.0
        yield 2.0


NUMBERS = numbers()
COUNTED = 0


def counting(x: torch.Tensor) -> torch.Tensor:
    global COUNTED
    COUNTED += 1
    return x * COUNTED


def test_what_is_not_compared_is_refused_with_its_name() -> None:
    x = torch.ones(2, device="xla")
    drawing = composites.composite("acme.read_drawing")(lambda x: x * next(NUMBERS))
    assert [drawing(x).tolist()[0] for _ in range(4)] == [1.0, 2.0, 1.0, 2.0]
    (fallback,) = composites.stats().entries["acme.read_drawing"].fallbacks
    assert fallback.reason.startswith("it reads NUMBERS, a generator, which is not compared; pass")
    counted = composites.composite("acme.read_counting")(counting)
    assert [counted(x).tolist()[0] - COUNTED for _ in range(3)] == [0.0] * 3
    (fallback,) = composites.stats().entries["acme.read_counting"].fallbacks
    assert fallback.reason.startswith("it reads COUNTED, which it changes; pass")


def test_exports_and_compiled_graphs_have_the_new_value() -> None:
    composed = composites.composite("acme.read_again")(lambda x: helper(x) * SCALE)
    module = nn.Module()
    module.forward = composed
    x = torch.ones(2, device="xla")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: composed(x), backend="aot_eager", fullgraph=True)
    for value in (1.0, 3.0, 1.0):
        with changed(value):
            program = composites.export(module, (torch.ones(2),))
            assert program.composites == {"acme.read_again": 1}
            (result,) = program.run({"arg:0": torch.ones(2)}).values()
            assert result.tolist() == [value**2] * 2
            assert compiled(x).tolist() == [value**2] * 2
    reasons = {row.reason for row in composites.stats().entries["acme.read_again"].fallbacks}
    assert not reasons


# ---- tensors ----


@pytest.mark.parametrize("synchronized", [False, True])
def test_a_tensor_of_the_device_is_no_constant(synchronized: bool) -> None:
    scale = nn.Parameter(torch.ones(3, device="xla"))
    if synchronized:
        torch_xla.sync()
    composed = composites.composite(f"acme.lazy_{synchronized}")(lambda x: x * scale)
    x = torch.full((3,), 2.0, device="xla", requires_grad=True)
    for value in (1.0, 10.0):
        with torch.no_grad():
            scale.fill_(value)
        scale.grad = None
        result = composed(x)
        result.sum().backward()
        assert (result.tolist(), gradient_of(scale).tolist()) == ([2 * value] * 3, [2.0] * 3)
    for row in composites.stats().entries[f"acme.lazy_{synchronized}"].fallbacks:
        assert "reads a traced tensor that is not an operand (torch.float32" in row.reason


# ---- objects ----


def over_self(self: Any, x: torch.Tensor) -> torch.Tensor:
    for layer in self:
        x = layer(x)
    return x


BODIES: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "for": over_self,
    "star": lambda self, x: next(iter(self))(x),
    "len": lambda self, x: x * len(self),
    "item": lambda self, x: self[0](x),
    "in": lambda self, x: x if any(isinstance(layer, nn.ReLU) for layer in self) else -x,
    "children": lambda self, x: next(self.children())(x),
    "named_children": lambda self, x: next(self.named_children())[1](x),
    "parameters": lambda self, x: x * len(list(self.parameters())),
    "state_dict": lambda self, x: x * len(self.state_dict()),
    "get_submodule": lambda self, x: self.get_submodule("0")(x),
    "registry": lambda self, x: self._modules["0"](x),
    "in the registry": lambda self, x: x if "0" in self._modules else -x,
    "vars": lambda self, x: x * vars(self)["factor"],
    "get": lambda self, x: x * self.__dict__.get("factor", 1),
    "all": lambda self, x: x * len(vars(self)),
}


@pytest.mark.parametrize("name", BODIES)
def test_an_object_is_not_read_without_a_word(name: str) -> None:
    class Chain(nn.Sequential):
        forward = composites.composite("acme.chain", operands=("x",))(BODIES[name])

    chain = Chain(nn.ReLU())
    vars(chain)["factor"] = 2.0
    with pytest.raises(LoweringError, match=r"acme\.chain reads (the contents of self|self\.)"):
        chain(torch.ones(2, device="xla"))


def derive_builtin(base: type, body: Callable[[Any, Any], Any]) -> Any:
    method = composites.composite("acme.builtin", operands=("x",))(body)
    return type("Extended", (base,), {"method": method})


@pytest.mark.parametrize(
    "owner",
    [
        derive_builtin(list, over_self)([abs]),
        derive_builtin(tuple, lambda self, x: x * self[0])([2.0]),
        derive_builtin(dict, lambda self, x: x * self.get("a"))(a=2.0),
        derive_builtin(float, lambda self, x: x * (self + 1))(2.0),
    ],
)
def test_an_extended_builtin_is_not_read_without_a_word(owner: Any) -> None:
    with pytest.raises(LoweringError, match=r"reads values that self holds as a subclass of"):
        owner.method(torch.ones(2, device="xla"))


# ---- results and gradients ----


def test_gradients_are_none_where_pytorch_has_none() -> None:
    def two(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        return x * w, x.detach() * b, 2 * c.detach()

    composed = composites.composite("acme.unused")(two)
    for chosen in ([0], [1], [0, 1], [0, 1, 2]):
        grads = []
        for function, device in ((composed, "xla"), (two, "cpu")):
            leaves = [torch.ones(3, device=device).requires_grad_() for _ in range(4)]
            results = function(*leaves)
            sum(results[n].sum() for n in chosen).backward()
            grads.append([None if t.grad is None else t.grad.tolist() for t in leaves])
        assert grads[0] == grads[1], chosen


def test_one_tensor_is_returned_as_one() -> None:
    def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        result = 2 * x
        return result, result

    function = composites.composite("acme.twice")(twice)
    first, second = function(torch.ones(2, device="xla"))
    assert first is second
    x = torch.ones(2, device="xla", requires_grad=True)
    first, second = function(x)
    assert first is second
    (first + second).sum().backward()
    assert gradient_of(x).tolist() == [4, 4]
    assert composites.stats().entries["acme.twice"].calls == 2
