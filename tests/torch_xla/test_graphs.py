"""The comparison of graphs, which stands for a run, sees every difference and no other."""

from collections.abc import Callable

import pytest
import torch
from composites_testing.graphs import Numbering
from composites_testing.tensors import values
from torch import Tensor

import composites

Function = Callable[[Tensor, Tensor], Tensor]


def numbers(*functions: Function) -> tuple[Numbering, list[int]]:
    numbering, results = Numbering(), list[int]()
    for function in functions:
        x, y = values(3, 4), values(3, 4, seed=1)
        results += numbering.graph_of([function(x, y)]).results
    return numbering, results


DIFFERENT: dict[str, tuple[Function, Function, str]] = {
    "another constant": (
        lambda x, y: x.relu() + torch.zeros_like(x),
        lambda x, y: x.relu() + torch.ones_like(x),
        "filled f32[3,4] [0.0] is now filled f32[3,4] [1.0]",
    ),
    "another number": (
        lambda x, y: x * 0.5,
        lambda x, y: x * 0.25,
        "data f32[] [0.5] is now data f32[] [0.25]",
    ),
    "swapped operands": (lambda x, y: x - y, lambda x, y: y - x, "data f32[3,4] ["),
    "another attribute": (
        lambda x, y: x.softmax(0),
        lambda x, y: x.softmax(1),
        "{dimensions: 1} is now",
    ),
    "data that is a constant": (
        lambda x, y: x + torch.ones(3, 4).to("xla"),
        lambda x, y: x + torch.ones_like(x),
        "data f32[3,4] [1.0, 1.0, 1.0, 1.0]… is now filled f32[3,4] [1.0]",
    ),
    "another comparison": (
        lambda x, y: x > y,
        lambda x, y: x >= y,
        '{comparison_direction: "GT"} is now compare',
    ),
    "an operator in the middle": (
        lambda x, y: x.tanh().exp() * y,
        lambda x, y: x.sigmoid().exp() * y,
        "tanh f32[3,4] (data f32[3,4]) {} is now logistic",
    ),
    "another type": (lambda x, y: x.double(), lambda x, y: x.half(), "f64[3,4]"),
    "other data": (lambda x, y: x.tanh(), lambda x, y: y.tanh(), "data f32[3,4] ["),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_differences_are_seen(case: str) -> None:
    *functions, message = DIFFERENT[case]
    numbering, (first, second) = numbers(*functions)
    assert first != second
    assert message in numbering.difference(first, second)


SAME: dict[str, tuple[Function, Function]] = {
    "in another order": (
        lambda x, y: (lambda a, b: a - b)(x.tanh(), y.exp()),
        lambda x, y: (lambda b, a: a - b)(y.exp(), x.tanh()),
    ),
    "repeated": (lambda x, y: (lambda a: a * a)(x.tanh()), lambda x, y: x.tanh() * x.tanh()),
    "times one": (lambda x, y: x.tanh(), lambda x, y: x.tanh() * torch.ones_like(x)),
    "reshaped twice": (
        lambda x, y: x.tanh().reshape(12),
        lambda x, y: x.tanh().reshape(2, 6).reshape(4, 3).reshape(12),
    ),
    "constants of constants": (
        lambda x, y: x + torch.ones_like(x),
        lambda x, y: x + (torch.zeros_like(x) + torch.ones_like(x)),
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_what_is_the_same_has_one_number(case: str) -> None:
    numbering, (first, second) = numbers(*SAME[case])
    assert first == second, numbering.difference(first, second)


def scaled(x: Tensor, y: Tensor) -> Tensor:
    return torch.softmax(x * 0.3 + y, -1)


def test_a_composite_is_its_decomposition() -> None:
    numbering = Numbering()
    x, y = values(3, 4), values(3, 4, seed=1)
    plain = numbering.graph_of([scaled(x, y)])
    with composites.enabled("softmax"):
        ours = numbering.graph_of([composites.composite("acme.scaled")(scaled)(x, y)])
    assert ours.results == plain.results
    assert ours.composites == {"acme.scaled": 1}  # that inside is not counted
