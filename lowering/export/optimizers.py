"""Optimizers of exported programs: made from placeholders, and stepped once."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any

import torch

from composites import torch_internals
from composites.errors import ExportError
from lowering.frontends.errors import NoKernelError, ValueReadError

OptimizerFactory = Callable[..., torch.optim.Optimizer]
"""A function from parameters to an optimizer, such as `partial(torch.optim.AdamW, lr=1e-3)`."""

_EXAMPLE = "functools.partial(torch.optim.AdamW, lr=1e-3)"


def check_factory(factory: object) -> None:
    """Check the optimizer's factory, before anything is recorded.

    Raises:
        ExportError: the factory cannot make an optimizer.
    """
    if isinstance(factory, torch.optim.Optimizer):
        raise ExportError(
            f"optimizer is {type(factory).__name__} with parameters of its own; pass a function"
            f" that makes one from the program's parameters, such as {_EXAMPLE}"
        )
    if not callable(factory):
        raise ExportError(
            f"optimizer must make an optimizer from parameters, such as {_EXAMPLE}, not {factory!r}"
        )


def make_optimizer(
    factory: OptimizerFactory, parameters: Sequence[torch.nn.Parameter]
) -> torch.optim.Optimizer:
    """Make an optimizer of parameters. Its step count stays on the device, where it is an input and
    an output of the program.

    Parameters are updated one by one unless the factory sets `foreach`. PyTorch would update all
    parameters at once on some devices, and with `fused`.

    Raises:
        ExportError: the result is not an optimizer, has other parameters, or needs a closure.
    """
    optimizer = factory(list(parameters))
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ExportError(
            f"optimizer returned a {type(optimizer).__name__}; return a torch.optim.Optimizer of"
            " the parameters that it gets"
        )
    name = type(optimizer).__name__
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ExportError(
            f"the step of {name} calls a closure that computes the loss again, and an exported"
            " program computes it once; use an optimizer whose step needs no closure"
        )
    passed = set(map(id, parameters))
    for group in optimizer.param_groups:
        if any(id(parameter) not in passed for parameter in group["params"]):
            raise ExportError(
                f"{name} has parameters that were not passed to optimizer, such as the module's"
                " own; make groups of the passed parameters, for example by p.ndim"
            )
        # A fused update is a kernel of a device.
        settings = {"capturable": True, "foreach": bool(group.get("foreach")), "fused": False}
        group.update({name: value for name, value in settings.items() if name in group})
    return optimizer


def step_once(
    optimizer: torch.optim.Optimizer, trained: Mapping[str, torch.nn.Parameter] | None = None
) -> None:
    """Make a step on tensors without values.

    Args:
        trained: the parameters by name, to check that the step changes no Python number: these are
            constants of the program.

    Raises:
        ExportError: the optimizer reads a value, or changes a number.
    """
    before = {} if trained is None else _numbers(optimizer, trained)
    try:
        with torch.no_grad(), torch_internals.WritingToHolders():
            optimizer.step()
    except NoKernelError:
        raise
    except ValueReadError as error:
        raise ExportError(
            f"{type(optimizer).__name__} reads the value of a tensor in its step, such as the count"
            f" of steps, but an exported program takes the same path for all values ({error}); use"
            " an optimizer with the option capturable, as torch.optim.AdamW has"
        ) from error
    after = {} if trained is None else _numbers(optimizer, trained)
    for name, value in before.items():
        now = after.get(name, value)
        if now != value and not (now != now and value != value):
            raise ExportError(
                f"{type(optimizer).__name__} changes {name}, a Python number, in each step, but the"
                " program would have the same number in all steps; use an optimizer that keeps it"
                " as a tensor, as those of torch.optim do"
            )


def _numbers(
    optimizer: torch.optim.Optimizer, trained: Mapping[str, torch.nn.Parameter]
) -> dict[str, Number]:
    """The Python numbers that an optimizer holds, by their names in messages."""
    held: dict[str, Mapping[Any, Any]] = {"of itself": vars(optimizer)}
    held |= {f"of {name}": optimizer.state.get(p, {}) for name, p in trained.items()}
    held |= {f"of group {n}": group for n, group in enumerate(optimizer.param_groups)}
    return {
        f"{key!r} {owner}": value
        for owner, values in held.items()
        for key, value in values.items()
        if isinstance(value, Number)
    }
