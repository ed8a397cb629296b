"""clip_grad_norm: one composite for the norm and all gradients."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
import torch_xla
from composites_testing.tensors import compilations, values
from torch import nn

import composites

SameAsStock = Callable[..., Any]
SHAPES = ((7, 5), (5,), (2, 3, 4))


def parameters(device: str = "xla") -> list[nn.Parameter]:
    made = []
    for number, shape in enumerate(SHAPES):
        parameter = nn.Parameter(values(*shape, device=device))
        parameter.grad = values(*shape, seed=number, device=device)
        made.append(parameter)
    return [*made, nn.Parameter(values(3, device=device))]  # which has no gradient


def clipped(group: Callable[[list[nn.Parameter]], Any] = list, **options: Any) -> Mapping[str, Any]:
    made = parameters()
    norm = nn.utils.clip_grad_norm_(group(made), 1.0, **options)
    grads = {f"grad {n}": p.grad for n, p in enumerate(made) if p.grad is not None}
    return {"norm": norm, **grads}


def from_generator(made: Iterable[nn.Parameter]) -> Iterator[nn.Parameter]:
    yield from made


def test_forms_of_parameters_have_the_bits_of_stock(same_as_stock: SameAsStock) -> None:
    """See test_sample_fidelity.py for kinds of norms."""
    subjects = {
        "generator": partial(clipped, from_generator),
        "one tensor": partial(clipped, lambda made: made[0]),
    }
    ours = same_as_stock(subjects, emits={"clip_grad_norm"}).ours
    assert all(nodes == {"ptxla.clip_grad_norm": 1} for nodes in ours.nodes.values())


def sharing(view: bool) -> Mapping[str, Any]:
    """A shared gradient is scaled more than once, since each parameter scales its gradient."""
    made = [nn.Parameter(values(6, device="xla")) for _ in range(2)]
    made[0].grad = values(6, seed=1, device="xla")
    made[1].grad = made[0].grad.view(6) if view else made[0].grad
    norm = nn.utils.clip_grad_norm_(made, 0.5)
    return {"norm": norm, **{f"grad {n}": p.grad for n, p in enumerate(made)}}


def test_calls_that_take_the_original(same_as_stock: SameAsStock) -> None:
    subjects = {
        "error_if_nonfinite": partial(clipped, error_if_nonfinite=True),
        "foreach": partial(clipped, foreach=True),
        "none": lambda: {"norm": nn.utils.clip_grad_norm_(iter([nn.Parameter(values(3))]), 1.0)},
        "one gradient of two": partial(sharing, view=False),
        "a view of another gradient": partial(sharing, view=True),
    }
    same_as_stock(subjects, emits=(), raises=["foreach"])


def test_a_generator_is_not_used_up_by_a_call_that_is_not_claimed() -> None:
    """No call is claimed on the CPU; the stock function would get an empty generator."""

    def run() -> list[torch.Tensor]:
        made = parameters(device="cpu")
        norm = nn.utils.clip_grad_norm_(from_generator(made), 1.0)
        return [norm, *(p.grad for p in made if p.grad is not None)]

    stock = run()
    with composites.enabled("clip_grad_norm"):
        ours = run()
    assert len(ours) == len(stock) == 4
    assert all(torch.equal(a, b) for a, b in zip(stock, ours, strict=True))


def test_a_bound_that_changes_compiles_nothing() -> None:
    with composites.enabled("clip_grad_norm"):
        counts = []
        for step in range(4):
            before = compilations()
            made = parameters()
            torch_xla.sync()
            nn.utils.clip_grad_norm_(made, 1.0 + step)
            torch_xla.sync()
            counts.append(compilations() - before)
    assert counts[2:] == [0, 0]
