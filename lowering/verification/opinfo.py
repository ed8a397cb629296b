"""PyTorch's database of samples (OpInfo). It is private; only this module uses it."""

import random
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import _lazy as torch_lazy

from composites.errors import MissingPackageError
from lowering.sample_calls import Sample

# Operators whose name is not close to any name in the database, and the names of their samples.
_ELSEWHERE = {
    "cross_entropy_loss": "nn.functional.cross_entropy",
    "log_sigmoid_forward": "nn.functional.logsigmoid",
    "log_sigmoid": "nn.functional.logsigmoid",
    "native_batch_norm": "nn.functional.batch_norm",
    "native_group_norm": "nn.functional.group_norm",
    "native_layer_norm": "nn.functional.layer_norm",
    "nll_loss_forward": "nn.functional.nll_loss",
    "nll_loss2d_forward": "nn.functional.nll_loss",
    "nll_loss2d": "nn.functional.nll_loss",
    "upsample_bilinear2d": "nn.functional.upsample_bilinear",
    "upsample_nearest2d": "nn.functional.upsample_nearest",
}

_ABORTING: dict[str, Callable[[Any], bool]] = {
    "nn.functional.nll_loss": lambda sample: sample.input.dim() == 1
}
"""Samples with which stock torch_xla 2.9 ends the process, with composites or without."""

MOST = 2000
"""The largest number of samples that are made, from which some are chosen."""


@cache
def _database() -> tuple[Any, ...]:
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"PyTorch's samples need {error.name}, which is not installed; pip install {error.name}"
        ) from error
    return tuple(op_db)


def make_samples(operator: str, dtype: torch.dtype, gradients: bool) -> Iterator[Sample]:
    """Make calls of functions that call `aten::name`, or the forward of `aten::name_backward`."""
    for info in _infos(operator):
        if dtype not in info.dtypes:
            continue
        wants = gradients and info.supports_autograd
        # The same samples in every process.
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)
        aborts = _ABORTING.get(info.name, lambda sample: False)
        for sample in islice(info.sample_inputs("cpu", dtype, requires_grad=wants), MOST):
            if aborts(sample):
                continue
            arguments = (sample.input, *sample.args)
            yield Sample(_without_steps(info.op), arguments, dict(sample.kwargs))


def _without_steps(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function of a sample so that it does not call `mark_step`, as samples do on a device
    of the type `lazy` (torch 2.15.0): the frontend `fx` has no lazy tensors of PyTorch's own."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        with mock.patch.object(torch_lazy, "mark_step"):
            return function(*arguments, **keywords)

    return call


def _infos(operator: str) -> list[Any]:
    namespace, _, name = operator.partition("::")
    if namespace != "aten":
        return []
    plain = name.partition(".")[0]
    forward = plain.removesuffix("_data").removesuffix("_backward")  # as in _softmax_backward_data
    for candidate in (plain, forward):
        listed = _ELSEWHERE.get(candidate, candidate.removeprefix("_"))
        infos = [i for i in _database() if i.name == listed or i.name == f"nn.functional.{listed}"]
        if infos:
            return infos
    return [i for i in _database() if i.aten_name == plain or i.aten_backward_name == plain]
