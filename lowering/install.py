"""Hooks into the dispatcher: which kernel goes where, and out again.

An operator that reaches the backend whole is caught at the backend's key. One that PyTorch takes
apart before (CompositeImplicitAutograd) is caught above, and sent on to an operator of ours with
the same schema, which reaches the backend whole and which torch.compile keeps as one node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from composites.errors import AllowlistError
from composites.registry.catalog import Catalog
from composites.registry.model import Composite, Registry
from composites.registry.operators import Operator
from lowering import codegen
from lowering.frontends import Frontend, Kernel, Override
from lowering.hooks import make_lowering


@dataclass(frozen=True, slots=True)
class Installation:
    """Kernels that were put into the dispatcher."""

    overrides: tuple[Override, ...]

    def remove(self) -> None:
        """Put the stock kernels back."""
        for override in reversed(self.overrides):
            override.remove()


def install(
    entries: Sequence[Composite],
    operators: Mapping[str, Operator],
    catalog: Catalog,
    frontend: Frontend,
) -> Installation:
    """Hook the operators of `entries`; of several that claim one, the first is asked first.

    Raises:
        AllowlistError: an entry's operator never reaches a hook.
    """
    by_operator: dict[str, list[Composite]] = {}
    for entry in entries:
        by_operator.setdefault(entry.op, []).append(entry)
    for entry in entries:
        if frontend.takes_apart(operators[entry.op]) and not operators[entry.op].dissolves:
            raise AllowlistError(
                f"{entry.qualified} ({entry.location}): torch_xla takes {entry.op} apart before its"
                f" {frontend.dispatch_key} kernel is asked, so the entry would never be used"
            )
    overrides: list[Override] = []
    try:
        for name, claims in by_operator.items():
            chain = _above_decompositions if operators[name].dissolves else _at_backend
            chain(claims, operators[name], catalog, frontend, overrides)
    except BaseException:
        Installation(tuple(overrides)).remove()
        raise
    return Installation(tuple(overrides))


def _at_backend(
    claims: Sequence[Composite],
    operator: Operator,
    catalog: Catalog,
    frontend: Frontend,
    overrides: list[Override],
) -> None:
    stock = frontend.stock_kernel(operator, frontend.dispatch_key)
    kernel: Kernel = stock
    for entry in reversed(claims):
        hook = _hooks(entry, catalog).HOOKS[entry.name]
        kernel = hook(make_lowering(entry, operator, frontend, stock), kernel)
    overrides.append(frontend.override(operator, frontend.dispatch_key, kernel))


def _above_decompositions(
    claims: Sequence[Composite],
    operator: Operator,
    catalog: Catalog,
    frontend: Frontend,
    overrides: list[Override],
) -> None:
    stock = frontend.stock_kernel(operator, frontend.autograd_key)
    kernel: Kernel = stock.call_boxed
    for entry in reversed(claims):
        hooks = _hooks(entry, catalog)
        own_name = codegen.operator_name(entry)
        own = frontend.define_operator(own_name, operator)
        lowering = make_lowering(entry, operator, frontend, stock)
        # The hook above has checked the entry's conditions, so there is nothing to fall back to
        # but the stock kernel, for calls that its lowering cannot take.
        overrides.append(frontend.implement(own_name, hooks.HOOKS[entry.name](lowering, stock)))
        kernel = hooks.ABOVE_DECOMPOSITIONS[entry.name](own, kernel)
    overrides.append(frontend.override(operator, frontend.autograd_key, kernel))


def _hooks(entry: Composite, catalog: Catalog) -> ModuleType:
    registry = next(r for r in catalog.registries if entry in r.composites)
    return _builtin_hooks() if registry.builtin else _vendor_hooks(registry)


def _builtin_hooks() -> ModuleType:
    from lowering.generated import ptxla

    return ptxla


@cache
def _vendor_hooks(registry: Registry) -> ModuleType:
    return codegen.load(registry)
