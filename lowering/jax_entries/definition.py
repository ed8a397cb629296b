"""The definition of an entry in JAX: its arguments, and the function that it computes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from composites.errors import LoweringError
from composites.functions import find_function
from composites.registry.catalog import Catalog
from composites.registry.model import Composite, Registry
from composites.registry.operators import Operator, find_operator, overload
from composites.registry.signatures import describe_function
from lowering.codegen.loader import naming
from lowering.codegen.source import check_arguments
from lowering.dispatch.call import CallForm
from lowering.dispatch.reads import Key, Reads
from lowering.jax_entries.computed_once import computed_once


@dataclass(frozen=True)
class Definition:
    """An entry of a catalog. PyTorch's schema and functions are looked up on first use."""

    entry: Composite
    registry: Registry
    own: Callable[..., Any] | None = None
    """The function under `@composites.jax.composite`; None for an entry that names a function."""

    @property
    @computed_once
    def signature(self) -> Operator:
        """The arguments of the function: those of the operator or the Python function that the
        entry catches, or of the decomposition if the entry adapts them.

        Raises:
            LoweringError: the entry catches a method, whose object JAX programs do not have.
        """
        entry = self.entry
        if entry.op is not None and entry.adapt is None:
            return find_operator(entry.op)
        return describe_function(self.described, self._target)

    @property
    @computed_once
    def described(self) -> Callable[..., Any]:
        """The Python function whose arguments the composite has, unless they are an operator's."""
        return find_function(self._target) if self.own is None else self.own

    @property
    def _target(self) -> str:
        """The path of the Python function whose arguments the composite has."""
        entry = self.entry
        if entry.adapt is not None or entry.gradients:
            assert entry.decomposition.target is not None
            return entry.decomposition.target
        target = entry.functions[0]
        if self.own is None and "." in target.partition(":")[2]:
            raise LoweringError(
                f"{entry.location}: {entry.qualified} catches {target}, a method, and JAX programs"
                " do not have its object; give the entry `adapt`, and a decomposition that takes"
                " tensors"
            )
        return target

    @property
    @computed_once
    def function(self) -> Callable[..., Any]:
        """The composite's meaning, as a function with the arguments of `signature`: of tensors, or
        of arrays if the decomposition is written in JAX."""
        entry = self.entry
        if self.own is not None:
            return self.own
        if entry.decomposition.target is not None:
            return find_function(entry.decomposition.target)
        if entry.op is not None:
            return overload(entry.op)  # type: ignore[no-any-return]
        return self.described

    @property
    @computed_once
    def reads(self) -> Reads | None:
        """Variables that the function under the decorator reads from outside."""
        return None if self.own is None else Reads(self.own)

    def read_now(self) -> Key:
        """A key of the values that the function reads from outside now."""
        return () if self.reads is None else self.reads.now()

    @property
    def is_jax(self) -> bool:
        return self.entry.decomposition.kind == "jax"

    @property
    @computed_once
    def form(self) -> CallForm:
        """The form in which the entry reads a call.

        Raises:
            AllowlistError: the entry does not fit the operator or function.
        """
        with naming(self.entry):
            check_arguments(self.entry, self.signature)
        return CallForm(self.entry, self.signature)

    @property
    @computed_once
    def backward(self) -> "Definition | None":
        """The definition of the entry that is the backward; None if the backward is derived."""
        entry = self.registry.backward_of(self.entry)
        return None if entry is None else Definition(entry, self.registry)


def definitions(catalog: Catalog) -> Iterator[Definition]:
    """All entries of a catalog. Entries of vendors come first."""
    for registry in catalog.registries:
        for entry in catalog.highest(registry.composites):
            yield Definition(entry, registry)
