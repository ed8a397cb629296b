"""Passes that change a module in place, so that a pipeline copies the module only once."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Concatenate, Generic, ParamSpec

from .bindings import IrModule
from .module import Module

P = ParamSpec("P")


class InPlacePass(Generic[P]):
    """A pass, from a module to a changed copy, made from a function that changes a module in
    place."""

    __name__: str

    def __init__(self, change: Callable[Concatenate[IrModule, P], None]) -> None:
        self.change = change
        update_wrapper(self, change)

    def __call__(self, module: Module, *args: P.args, **kwargs: P.kwargs) -> Module:
        result = module.copy_ir()
        self.change(result, *args, **kwargs)
        return Module(result)


in_place = InPlacePass
"""`InPlacePass` under its name as a decorator."""
