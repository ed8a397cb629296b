"""Passes that change a module in place, so that a pipeline copies the module only once."""

from collections.abc import Callable
from functools import update_wrapper
from inspect import Parameter, Signature, signature
from typing import Concatenate, Generic, ParamSpec

from .bindings import attributes, find_operations
from .ir_types import IrModule, IrOperation
from .module import Module

P = ParamSpec("P")

_SHARDINGS = ("mhlo.sharding", "sdy.sharding")


class InPlacePass(Generic[P]):
    """A pass, from a module to a changed copy, made from a function that changes a module in
    place."""

    __name__: str

    def __init__(self, change: Callable[Concatenate[IrModule, P], None]) -> None:
        self.change = change
        update_wrapper(self, change)

    @property
    def __signature__(self) -> Signature:
        """The parameters of the pass, which `help` shows instead of its function's."""
        options = list(signature(self.change, follow_wrapped=False).parameters.values())[1:]
        module = Parameter("module", Parameter.POSITIONAL_OR_KEYWORD, annotation=Module)
        return Signature([module, *options], return_annotation=Module)

    def __call__(self, module: Module, *args: P.args, **kwargs: P.kwargs) -> Module:
        result = module.copy_ir()
        self.change(result, *args, **kwargs)
        return Module(result)


in_place = InPlacePass
"""`InPlacePass` under its name as a decorator."""


def rewrites(
    *names: str, sharded: bool = False
) -> Callable[[Callable[[IrOperation], None]], InPlacePass[[]]]:
    """A decorator that makes a pass of a function that rewrites one operation, or leaves it.

    Args:
        names: the operations that the function is called for.
        sharded: True to call the function for operations with shardings too, which replacements
            cannot hold.
    """

    def decorated(rewrite: Callable[[IrOperation], None]) -> InPlacePass[[]]:
        def change(module: IrModule) -> None:
            for operation in find_operations(module.operation, *names):
                if sharded or not is_sharded(operation):
                    rewrite(operation)

        return InPlacePass(update_wrapper(change, rewrite))

    return decorated


def is_sharded(operation: IrOperation) -> bool:
    """Return whether the operation has a sharding, in GSPMD's form or in Shardy's.

    A pass that replaces an operation by several cannot keep its sharding, and leaves it unchanged.
    """
    return any(name in attributes(operation) for name in _SHARDINGS)
