"""Gradients that are accumulated in f32, for the training of narrow parameters."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from composites.operators import wide_products
from lowering.activation import backend, enable
from lowering.frontends.chosen import is_installed

__all__ = ["MainParameters", "accumulate_gradients_in_fp32"]


class MainParameters:
    """For each parameter of a module, the f32 tensor that an optimizer updates, and its gradient.

    For an f32 parameter, as under autocast, the tensor is the parameter itself. For a narrower
    parameter it is a copy in f32. Its `.grad` holds the gradient, accumulated over any number of
    backward passes.
    """

    def __init__(self, module: nn.Module) -> None:
        self._main: dict[Tensor, nn.Parameter] = {}
        self._hooks: list[Any] = []
        self._layers: list[_AccumulatingLinear] = []
        for parameter in module.parameters():
            self._main[parameter] = self._make_main(parameter)
        for layer in module.modules():
            if type(layer) is nn.Linear:
                layer.__class__ = _AccumulatingLinear
                assert isinstance(layer, _AccumulatingLinear)
                layer._main_parameters = self
                self._layers.append(layer)

    def __getitem__(self, parameter: Tensor) -> nn.Parameter:
        """The f32 tensor of a parameter."""
        return self._main[parameter]

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters to give to an optimizer, in the order of the module's parameters."""
        return iter(self._main.values())

    @torch.no_grad()
    def copy_to_module(self) -> None:
        """Round the f32 copies into the narrower parameters. Call this after each update."""
        for parameter, main in self._main.items():
            if main is not parameter:
                parameter.copy_(main)

    def remove(self) -> None:
        """Restore the module. Gradients stay where they are."""
        for layer in self._layers:
            layer.__class__ = nn.Linear  # type: ignore[assignment]
            del layer._main_parameters
        for hook in self._hooks:
            hook.remove()
        self._layers, self._hooks = [], []

    def _make_main(self, parameter: nn.Parameter) -> nn.Parameter:
        narrow = parameter.is_floating_point() and parameter.element_size() < 4
        if not narrow or not parameter.requires_grad:
            return parameter
        main = nn.Parameter(parameter.detach().to(torch.float32, copy=True))

        def accumulated(narrow: Tensor) -> None:
            if narrow.grad is not None:  # `_Linear` gives its weight no gradient
                _accumulate(main, narrow.grad)
                narrow.grad = None

        register: Any = parameter.register_post_accumulate_grad_hook
        self._hooks.append(register(accumulated))
        return main


def accumulate_gradients_in_fp32(module: nn.Module) -> MainParameters:
    """Give the parameters of a module that is trained in bf16 or f16 gradients in f32.

    A weight gradient is a product of narrow matrices that was computed in a wide accumulator. The
    stock lowering rounds it to the narrow dtype in each backward pass and then adds the rounded
    values. With this function, the `nn.Linear` layers add the accumulator itself to the gradient.
    On XLA this is one composite, `ptxla.matmul_accumulate`, or `ptxla.mm` in the first backward
    pass. Gradients of other layers have their parameter's dtype and are added in f32.

    This works for modules whose parameters are bf16 or f16, and for f32 parameters under autocast:

        main = composites.nn.accumulate_gradients_in_fp32(model)
        optimizer = torch.optim.AdamW(main.parameters(), lr=1e-4)
        for inputs in batches:
            model(inputs).backward()    # any number of times
            optimizer.step()
            main.copy_to_module()       # for bf16 and f16 parameters
            optimizer.zero_grad()

    Call it when the module is on its device. Weights of linear layers get gradients from
    `backward()` only, not from `torch.autograd.grad`, and their own hooks do not run. If torch_xla
    is installed, `mm` and `matmul_accumulate` are turned on.
    """
    if is_installed():
        enable("mm", "matmul_accumulate")
    return MainParameters(module)


class _AccumulatingLinear(nn.Linear):
    """nn.Linear whose weight gradient goes to the main parameter."""

    _main_parameters: MainParameters

    def forward(self, input: Tensor) -> Tensor:
        device = input.device.type
        autocast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if autocast else self.weight.dtype
        trained = torch.is_grad_enabled() and self.weight.requires_grad
        if not trained or dtype.itemsize >= 4:
            return super().forward(input)
        with torch.autocast(device, enabled=False):
            bias = None if self.bias is None else self.bias.to(dtype)
            result: Tensor = _Linear.apply(  # type: ignore[no-untyped-call]
                input.to(dtype), self.weight, bias, self._main_parameters[self.weight], dtype
            )
        return result


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        weight: nn.Parameter,
        bias: Tensor | None,
        main: nn.Parameter,
        dtype: torch.dtype,
    ) -> Tensor:
        ctx.save_for_backward(input, weight)
        ctx.main, ctx.dtype = main, dtype
        return functional.linear(input, weight.to(dtype), bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, Tensor | None, None, None]:
        input, weight = ctx.saved_tensors
        rows = grad.reshape(-1, grad.shape[-1])
        _accumulate_product(ctx.main, rows.T, input.reshape(-1, input.shape[-1]))
        return (
            torch.matmul(grad, weight.to(ctx.dtype)) if ctx.needs_input_grad[0] else None,
            None,
            rows.sum(0) if ctx.needs_input_grad[2] else None,
            None,
            None,
        )


def _accumulate(main: nn.Parameter, grad: Tensor) -> None:
    wide = grad.to(torch.float32)
    main.grad = wide if main.grad is None else main.grad.add_(wide)


def _accumulate_product(main: nn.Parameter, left: Tensor, right: Tensor) -> None:
    if not (is_installed() and backend().frontend.tensors.owns(left)):  # no composites
        _accumulate(main, wide_products.matmul(left, right, torch.float32))
    elif main.grad is None:
        main.grad = torch.mm(left, right, out_dtype=torch.float32)
    else:
        main.grad = torch.addmm(main.grad, left, right, out_dtype=torch.float32)
