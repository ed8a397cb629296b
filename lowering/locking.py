"""Locks: the contracts of a registry, with hashes of the decompositions of canonical calls.

`composites lock` and `composites diff` use this module, and `composites show` for one call.
Canonical calls are recorded as an export records a program, so nothing is computed, and the lock is
the same in every process.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from composites.allowlist import resolve
from composites.contracts.model import Call, Contract, Lock
from composites.errors import LoweringError, MissingPackageError
from composites.installed import installed
from composites.registry.catalog import Catalog
from composites.registry.contracts import backward_contract, contracts, forward_contract
from composites.registry.model import Composite, Registry
from composites.torch_internals import pytree
from lowering import activation
from lowering.frontends.protocols import Frontend, Recording
from lowering.sample_calls import (
    ExampleCall,
    NoCalls,
    example_calls,
    first_line,
    is_adapted_function,
)
from lowering.stablehlo import Module, rename_decompositions, rename_module, run_passes
from lowering.stablehlo.composites import find_composites, fingerprint, signature
from lowering.stablehlo.ir_types import IrOperation

_PACKAGES = ("torch", "torch_xla", "jax", "jaxlib")
_NOT_CLAIMED = "the entry does not claim the example call; give one that it claims with `example`"


def lock_registry(registry: Registry, catalog: Catalog) -> Lock:
    """Make the lock of a registry, which is part of `catalog`.

    Without torch_xla, the lock has no decompositions.

    Raises:
        LoweringError: a decomposition of the registry failed.
        AllowlistError: an entry cannot be turned on.
    """
    try:
        frontend = activation.backend().frontend
    except MissingPackageError as error:
        bare = (replace(c, no_call=f"nothing was lowered: {error}") for c in contracts(registry))
        return Lock(registry.namespace, {}, tuple(bare), source=registry.source)
    with _alone():
        locked = tuple(_Locker(registry, catalog, frontend).contracts())
    return Lock(registry.namespace, _dependencies(frontend), locked, source=registry.source)


def _dependencies(frontend: Frontend) -> dict[str, str]:
    """The device and the package versions that a decomposition's text depends on."""
    dependencies = {"device": frontend.graph.device}
    for package in _PACKAGES:
        if version := installed(package):
            # Builds of one release, such as +cpu and +cu128, lower alike.
            dependencies[package] = version.partition("+")[0]
    return dependencies


@dataclass(frozen=True, slots=True)
class _Locker:
    registry: Registry
    catalog: Catalog
    frontend: Frontend

    def contracts(self) -> Iterator[Contract]:
        for entry in self.registry.composites:
            yield self._with_calls(forward_contract(entry), entry)
            if entry.derives:
                yield self._with_calls(backward_contract(entry), entry)

    def _with_calls(self, contract: Contract, entry: Composite) -> Contract:
        """The contract with its canonical calls, or with the reason why it has no calls."""
        backward = bool(entry.gradients) or contract.composite != entry.composite_name
        called, examples = _called(entry, self.catalog)
        if isinstance(examples, NoCalls):
            return replace(contract, no_call=examples.reason)
        calls: list[Call] = []
        reasons: list[str] = []
        for example in examples:
            # Some operands have no gradient, such as moving averages. The first operand has one.
            for leaves in (None, 1) if backward else (0,):
                try:
                    calls += self._calls(contract, called, example, leaves)
                    break
                except LoweringError as error:
                    if not backward:
                        raise
                    reasons.append(f"the example call failed: {type(error).__name__}")
                except Exception as error:  # the frontend may refuse a call that the CPU accepts
                    reasons.append(f"the example call failed: {first_line(error)}")
        if calls:
            return replace(contract, calls=tuple(dict.fromkeys(calls)))
        return replace(contract, no_call=reasons[0] if reasons else _NOT_CLAIMED)

    def _calls(
        self, contract: Contract, entry: Composite, example: ExampleCall, leaves: int | None
    ) -> list[Call]:
        module = recorded_example(self.frontend, entry, self.catalog, example, leaves)
        return [
            _call(module, composite)
            for composite in find_composites(module.ir)
            if "main" in str(composite.parent.attributes["sym_name"])  # in no decomposition
            and (call := signature(composite)).name == contract.composite
            and call.version == contract.version
        ]


def _called(
    entry: Composite, catalog: Catalog
) -> tuple[Composite, tuple[ExampleCall, ...] | NoCalls]:
    """The entry that catches the canonical calls of an entry, and the calls. For a backward without
    an operator, this entry is its forward."""
    called = catalog.forward_of(entry) if entry.gradients else entry
    if called is None:
        return entry, NoCalls("no entry of the registry names it as its backward")
    return called, example_calls(called)


@contextmanager
def _alone() -> Iterator[None]:
    with activation.all_off(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns about examples that do not fit a backward
        yield


def example_text(entry: Composite, catalog: Catalog, *, gradients: bool = False) -> str | NoCalls:
    """The StableHLO of a call that the entry catches, with only the entry and its backward turned
    on. The call is recorded and not run.

    Args:
        gradients: record the gradients of the call instead, for a backward without an operator.

    Raises:
        CompositesError: the entry cannot be turned on, or its decomposition fails.
        MissingPackageError: torch_xla is not installed.
    """
    frontend = activation.backend().frontend
    called, examples = _called(entry, catalog)
    if isinstance(examples, NoCalls):
        return examples
    leaves = None if gradients or entry.gradients else 0
    with _alone():
        module = recorded_example(frontend, called, catalog, examples[0], leaves)
        return rename_module(module, name=entry.name).text


def _call(module: Module, composite: IrOperation) -> Call:
    call = signature(composite)
    return Call(
        operands=call.operands,
        attributes="{}" if call.attributes is None else str(call.attributes),
        results=call.results,
        decomposition=fingerprint(module, composite),
    )


@dataclass(slots=True)
class _Placeholders:
    """The placeholders of a call."""

    frontend: Frontend
    most_leaves: int | None
    """The largest number of tensors with a gradient; None for all floats and complex numbers."""
    inputs: list[torch.Tensor] = field(default_factory=list)
    leaves: list[torch.Tensor] = field(default_factory=list)

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        self.inputs.append(self.frontend.tensors.placeholder(tensor))
        copy = self.inputs[-1].clone()
        full = self.most_leaves is not None and len(self.leaves) >= self.most_leaves
        if not full and (tensor.is_floating_point() or tensor.is_complex()):
            self.leaves.append(copy.requires_grad_())
        return copy


def recorded_example(
    frontend: Frontend,
    entry: Composite,
    catalog: Catalog,
    example: ExampleCall,
    leaves: int | None,
) -> Module:
    """The StableHLO of an example call of an entry, turned on by itself with its backward.

    Args:
        leaves: the largest number of tensors that get a gradient; see `recorded`.
    """
    if is_adapted_function(entry):
        function = activation.composite_function(entry, catalog)
        example = replace(example, function=function)
    with activation.installed(catalog, resolve([entry.identity], catalog)):
        return recorded(frontend, example, leaves)


def recorded(frontend: Frontend, example: ExampleCall, leaves: int | None) -> Module:
    """The StableHLO of a call, and of its gradients unless `leaves` is 0.

    `leaves` is the largest number of tensors that get a gradient; None for all tensors of floats.
    If no tensor has a gradient, the module holds the call alone.
    """
    recording = frontend.recording
    with _recording(recording, differentiable=leaves != 0):
        placeholders = _Placeholders(frontend, leaves)
        results = _tensors(example.run(placeholders))
        if leaves != 0:
            reached = [result for result in results if result.requires_grad]
            inputs = tuple(placeholders.leaves)
            grads = [placeholders(result.detach()).detach() for result in reached]
            gradients = torch.autograd.grad(reached, inputs, grads, allow_unused=True)
            results = _tensors(gradients) or results
        graph = recording.lower_graph([r.detach() for r in results], placeholders.inputs)
    return run_passes(graph.module, [rename_decompositions])


@contextmanager
def _recording(recording: Recording, differentiable: bool) -> Iterator[None]:
    with (
        torch.inference_mode(False),
        recording.recording(),
        torch.set_grad_enabled(differentiable),
    ):
        yield


def _tensors(results: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
