"""Installing hooks into the dispatcher and into Python functions, and removing them.

An operator that reaches the backend undecomposed is caught at the backend's dispatch key. If
PyTorch or the frontend decomposes it earlier, or if its arguments are adapted, it is caught at
autograd's key, or in inference mode at the key of functionalization. A Python function is caught by
replacing it; see `patches`.
"""

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import MethodType, ModuleType
from typing import Any

import torch

from composites import torch_internals
from composites.errors import (
    AllowlistError,
    CompositesError,
    DeclinedError,
    LoweringError,
    UnsupportedCallError,
    UnusableFunctionError,
)
from composites.functions import find_function, import_module
from composites.in_place import InPlace, copy_each
from composites.registry import model
from composites.registry.catalog import Catalog
from composites.registry.model import Composite, Registry
from composites.registry.operators import Operator, find_in_place, find_operator
from composites.registry.signatures import callee_of, describe_function
from lowering.codegen import loader, source
from lowering.copies.search import Copy, Search, is_in
from lowering.dispatch.autograd.compiled_calls import CompiledCalls
from lowering.dispatch.autograd.function import CompositeFunction
from lowering.dispatch.backend import EntryLowering
from lowering.dispatch.call import CallForm
from lowering.dispatch.compiled_functions import Replacement, traced_function
from lowering.dispatch.computations import Computations
from lowering.dispatch.definition import ActiveEntry, ExplicitBackward
from lowering.dispatch.reads import Reads, first_change
from lowering.dispatch.statistics import Statistics
from lowering.frontends.protocols import Frontend, Kernel, Override, StockKernel
from lowering.installation.overriding import find_owner, make_guard
from lowering.installation.patches import CopyPatches, Patch, Wrapper, replace_imports
from lowering.installation.variants import in_place, tensors_in


@dataclass(frozen=True, slots=True)
class Installation:
    """The kernels that were registered with the dispatcher, and the functions that were replaced.

    Each is recorded as soon as it is installed. The caller can therefore remove all of it at any
    time, also after an error or an interrupt.
    """

    overrides: list[Override] = field(default_factory=list)

    def remove(self) -> None:
        """Restore the stock kernels and the original functions. An error for one does not keep the
        rest from being restored."""
        with ExitStack() as removals:
            for override in self.overrides:
                removals.callback(override.remove)


def import_functions(entries: Sequence[Composite]) -> None:
    """Import the modules that installing the hooks of `entries` would import.

    Modules can run code of users, and wait for imports of other threads. A function that cannot be
    imported is reported when a hook needs it.
    """
    targets: list[str] = []
    for entry in entries:
        caught = (*entry.functions, *(name for name, _ in entry.rewrites if "::" not in name))
        targets += (t for t in caught if t.partition(":")[0] in sys.modules)  # may be half imported
        targets += (function for _, function in entry.rewrites)
        at_once = entry.adapt is not None or entry.gradients or entry.backward is not None
        decomposition = entry.decomposition.target if at_once else None
        targets += (t for t in (entry.adapt, decomposition) if t is not None)
    packages = {package for entry in entries for package in entry.copies}
    targets += (name for name in list(sys.modules) if is_in(name, packages))  # half imported too
    for module in dict.fromkeys(target.partition(":")[0] for target in targets):
        with suppress(UnusableFunctionError):
            import_module(module)


def registries_by_identity(catalog: Catalog) -> dict[str, Registry]:
    """The registry of each entry, by the entry's identity."""
    return {e.identity: r for r in catalog.registries for e in r.composites}


@dataclass(frozen=True, slots=True)
class _Claim:
    """An entry that catches calls of an operator or a function."""

    entry: Composite
    rewrite: tuple[str, str] | None = None
    """For calls that the entry rewrites first: their operator or function, and the function that
    rewrites them."""
    in_place: bool = False
    """True for the in-place variant of an operator that the entry catches at autograd's key."""


@dataclass(frozen=True, slots=True)
class Installer:
    """Makes the hooks of entries, and installs them."""

    registries: Mapping[str, Registry]
    """See `registries_by_identity`."""
    frontend: Frontend
    compiled_calls: CompiledCalls
    entries: Sequence[Composite] = ()
    """The entries, in the order in which they are tried."""
    computations: Computations = field(default_factory=partial(defaultdict, dict))
    """The computations that these entries lowered when they were last installed."""
    statistics: Statistics = field(default_factory=Statistics)
    """Counts the calls."""
    chosen: Mapping[str, tuple[model.Kernel, ...]] = field(default_factory=dict)
    """The alternatives that may take calls of an entry, by its identity."""
    overrides: list[Override] = field(default_factory=list)
    """The hooks that are installed; see `Installation`. After an error, the caller removes them."""

    def install(self) -> None:
        """Install the hooks. If several entries claim one operator, the first one has priority.

        Raises:
            AllowlistError: an entry's operator never reaches a hook, or its function does not
                exist.
        """
        search = Search(self.entries)
        at_backend: dict[str, list[Composite]] = {}
        at_autograd: dict[str, list[_Claim]] = {}
        functions: dict[str, list[_Claim]] = {}
        for entry in self.entries:
            self.statistics.for_entry(entry)  # also if its function's module is never imported
            if entry.op is not None and self._is_caught_at_autograd(entry):
                at_autograd.setdefault(entry.op, []).append(_Claim(entry))
                written = find_in_place(find_operator(entry.op))
                # The entry's own rewriting function has priority.
                if written is not None and written.qualified not in dict(entry.rewrites):
                    in_place_claim = _Claim(entry, in_place=True)
                    at_autograd.setdefault(written.qualified, []).append(in_place_claim)
            elif entry.op is not None:
                at_backend.setdefault(entry.op, []).append(entry)
            for target in entry.functions:
                functions.setdefault(target, []).append(_Claim(entry))
            for rewrite in entry.rewrites:
                claims = at_autograd if "::" in rewrite[0] else functions
                claims.setdefault(rewrite[0], []).append(_Claim(entry, rewrite))
        for name, claiming in at_backend.items():
            self._at_backend(find_operator(name), claiming)
        for name, claims_at_autograd in at_autograd.items():
            self._at_autograd(find_operator(name), claims_at_autograd)
        for target, claims_on_function in functions.items():
            self._function(target, claims_on_function, search)
        replace_imports(self.overrides)
        if search.packages:
            copies = CopyPatches(search, frozenset(functions), self._wrapper_of_copy)
            self.overrides.append(copies)
            copies.install()

    def _is_caught_at_autograd(self, entry: Composite) -> bool:
        assert entry.op is not None
        operator = find_operator(entry.op)
        registry = self.registries[entry.identity]
        if entry.adapt or source.is_caught_at_autograd(entry, operator, registry):
            return True
        if self.frontend.decomposes(operator):
            raise AllowlistError(
                f"{entry.qualified} ({entry.location}): the frontend decomposes {entry.op} before"
                f" its {self.frontend.dispatching.dispatch_key} kernel is called; write"
                " `backward: derive` to catch the call at autograd's dispatch key"
            )
        return False

    def _at_backend(self, operator: Operator, claims: Sequence[Composite]) -> None:
        dispatching = self.frontend.dispatching
        stock = dispatching.stock_kernel(operator, dispatching.dispatch_key)
        kernel: Kernel = stock
        for entry in reversed(claims):
            kernel = self._lowered(entry, operator, stock, kernel)
        kernel = self._for_tensors(operator, claims[0], kernel, stock)
        self.overrides.append(dispatching.override(operator, dispatching.dispatch_key, kernel))

    def _at_autograd(self, operator: Operator, claims: Sequence[_Claim]) -> None:
        dispatching = self.frontend.dispatching
        for key in (dispatching.autograd_key, dispatching.functionalization_key):
            stock = dispatching.stock_kernel(operator, key)
            kernel: Kernel = stock.call_boxed
            for claim in reversed(claims):
                if claim.rewrite is not None:
                    kernel = self._tried(claim.entry, _rewriting(claim), kernel, keys=1)
                elif claim.in_place:
                    kernel = self._in_place(claim.entry, key, kernel)
                else:
                    kernel = self._above_backend(claim.entry, operator, stock, kernel)
            kernel = self._for_tensors(operator, claims[0].entry, kernel, stock.call_boxed, keys=1)
            if key == dispatching.functionalization_key:
                kernel = _in_inference_mode(kernel, stock.call_boxed)
            self.overrides.append(dispatching.override(operator, key, kernel))

    def _for_tensors(
        self, operator: Operator, entry: Composite, kernel: Kernel, stock: Kernel, *, keys: int = 0
    ) -> Kernel:
        """Limit `kernel` to calls with tensors. PyTorch may pass a number instead of a tensor, as
        in `x + 1`; such a call goes to the stock kernel."""
        if not torch_internals.takes_numbers(operator.name):
            return kernel
        positions = [(keys + position, name) for position, name in operator.tensor_positions]
        statistics, numbers = self.statistics.for_entry(entry), (bool, int, float, complex)

        def checked(*arguments: Any, **keywords: Any) -> Any:
            for position, name in positions:
                if isinstance(arguments[position], numbers):
                    tensors = tensors_in(arguments[keys:])
                    statistics.fallback(f"{name} is a number", tensors).count_call()
                    return stock(*arguments, **keywords)
            return kernel(*arguments, **keywords)

        return checked

    def _in_place(self, entry: Composite, key: str, otherwise: Kernel) -> Kernel:
        """A kernel for in-place calls. Calls that the entry does not claim go to `otherwise`."""
        operator = find_operator(entry.op or "")
        stock = self.frontend.dispatching.stock_kernel(operator, key)
        return in_place(self._above_backend(entry, operator, stock, _decline), otherwise)

    def _above_backend(
        self, entry: Composite, operator: Operator, stock: StockKernel, otherwise: Kernel
    ) -> Kernel:
        """A kernel of an entry's operator that takes the dispatch keys as its first argument. Calls
        that the entry does not claim go to `otherwise`."""
        if entry.adapt is not None:
            return self._tried(entry, self._adapter(entry), otherwise, keys=1)
        hook = self._hooks(entry).AUTOGRAD_HOOKS[self._key(entry)]
        composite = self._composite(CallForm(entry, operator), stock, otherwise)
        return MethodType(hook, composite)

    def _function(self, target: str, claims: Sequence[_Claim], search: Search) -> None:
        module = target.partition(":")[0]

        def wrapper(original: Kernel) -> Replacement:
            # The function may also be a copy of a function that other entries name.
            caught = map(_Claim, search.catching(module, find_owner(target), original))
            order = {entry.identity: n for n, entry in enumerate(self.entries)}
            every = dict.fromkeys((*claims, *caught))
            ordered = sorted(every, key=lambda claim: order[claim.entry.identity])
            return self._replacement(original, target, ordered)

        patch = Patch(target, wrapper, claims[0].entry)
        self.overrides.append(patch)
        patch.install()

    def _wrapper_of_copy(self, copy: Copy) -> Wrapper:
        claims = list(map(_Claim, copy.entries))
        return lambda original: self._replacement(original, copy.target, claims)

    def _replacement(self, original: Kernel, target: str, claims: Sequence[_Claim]) -> Replacement:
        called = traced = original
        reads = Reads(original, functions_only=True)
        for claim in reversed(claims):
            entry = claim.entry
            if claim.rewrite is not None:
                rewrite = self._tried(entry, _rewriting(claim), called)
                called = self._on_backend(rewrite, called)
                continue
            guard = make_guard(entry, original, target)
            if entry.adapt is not None:
                taken, traced_taken = self._adapter(entry), self._traced_adapter(entry)
            else:
                registry = self.registries[entry.identity]
                hook = _function_hook(entry, original, target, registry)
                form = CallForm(entry, describe_function(original, target))
                composite = self._composite(form, original, called)
                taken = MethodType(hook, composite)
                node = MethodType(hook, replace(composite, otherwise=original))
                traced_taken = traced_function(
                    composite.definition, original, target, node, traced, reads
                )
            if guard is not None:
                taken, traced_taken = guard(taken), guard(traced_taken)
            if guard is not None or entry.adapt is not None:  # these decline calls
                taken = self._tried(entry, taken, called)
                # Dynamo traces this function, which therefore counts nothing.
                traced_taken = _tried(traced_taken, traced)
            called, traced = taken, traced_taken
        before = reads.now()
        if not before:
            return Replacement(called, traced)

        # A function computes something else once a function that it calls is replaced.
        def checked(*arguments: Any, **keywords: Any) -> Any:
            change = first_change(before, reads.now())
            if change is None:
                return called(*arguments, **keywords)
            tensors = tensors_in((*arguments, *keywords.values()))
            if any(self.frontend.tensors.owns(tensor) for tensor in tensors):
                reason = f"{change[0]}, which it calls, was replaced"
                for claim in claims:
                    counted = self.statistics.for_entry(claim.entry)
                    counted.fallback(reason, tensors).count_call()
            return original(*arguments, **keywords)

        def is_unchanged() -> bool:
            return reads.now() == before

        torch.compiler.assume_constant_result(is_unchanged)

        def traced_while_unchanged(*arguments: Any, **keywords: Any) -> Any:
            taken = traced if is_unchanged() else original
            return taken(*arguments, **keywords)

        return Replacement(checked, traced_while_unchanged)

    def _adapter(self, entry: Composite) -> Kernel:
        """The entry's `adapt` function, with the composite as its first argument.

        Calls of a Python function with arguments that `adapt` does not take are declined, since
        they may be mistakes of the program. Other arguments that do not fit are a LoweringError.
        """
        assert entry.adapt is not None
        context = f"{entry.location}: {entry.qualified}: adapt: {entry.adapt}"
        composite = _fitting(
            self.as_function(entry),
            LoweringError,
            f"{context} passes arguments that {entry.decomposition} does not have",
        )
        called = entry.op or ", ".join(entry.functions) or "the backward"
        adapt = _fitting(
            partial(find_function(entry.adapt), composite),
            UnsupportedCallError if entry.functions else LoweringError,
            f"{context} does not take the arguments of {called}",
        )
        return _writing(adapt, self.frontend.write)

    def _traced_adapter(self, entry: Composite) -> Kernel:
        """The `adapt` function for torch.compile to trace, with the composite as one node."""
        target = entry.decomposition.target
        assert entry.adapt is not None
        assert target is not None
        if entry.decomposition.kind == "jax":  # Dynamo cannot trace a JAX function
            return _decline
        meaning = find_function(target)
        hook: Any = self.as_function(entry, meaning)
        reads = Reads(meaning, functions_only=True)
        node = traced_function(hook.__self__.definition, meaning, target, hook, _decline, reads)
        return _writing(partial(find_function(entry.adapt), node), copy_each)

    def as_function(self, entry: Composite, otherwise: Kernel | None = None) -> Kernel:
        """The composite as a function with its decomposition's signature: a hook, bound to a
        `CompositeFunction`. Calls that the entry does not claim go to `otherwise`; by default, they
        raise a DeclinedError."""
        target = entry.decomposition.target
        assert target is not None
        hook = self._hooks(entry).FUNCTION_HOOKS[self._key(entry)]
        callee = callee_of(entry)
        assert callee is not None
        form = CallForm(entry, callee)
        return MethodType(hook, self._composite(form, find_function(target), otherwise or _decline))

    def _lowered(
        self, entry: Composite, operator: Operator, stock: Kernel, otherwise: Kernel
    ) -> Kernel:
        """A kernel at the backend. Calls that the entry does not claim go to `otherwise`."""
        computations, statistics = self.computations[entry, stock], self.statistics.for_entry(entry)
        statistics.caches["backend"] = computations
        form, chosen = CallForm(entry, operator), self.chosen.get(entry.identity, ())
        definition = ActiveEntry(form, self.frontend, statistics, stock, chosen)
        lowering = EntryLowering(definition, otherwise, computations)
        return MethodType(self._hooks(entry).BACKEND_HOOKS[self._key(entry)], lowering)

    def _composite(self, form: CallForm, native: Kernel, otherwise: Kernel) -> CompositeFunction:
        entry = form.entry
        backward = source.explicit_backward(entry, self.registries[entry.identity])
        explicit = None if backward is None else self._backward(backward)
        forward = self.computations[entry, native, "forward"]
        derived = self.computations[entry, native, "backward"]
        statistics = self.statistics.for_entry(entry)
        statistics.caches |= {"forward": forward, "derived backward": derived}
        chosen = self.chosen.get(entry.identity, ())
        definition = ActiveEntry(form, self.frontend, statistics, native, chosen, explicit, derived)
        return CompositeFunction(definition, self.compiled_calls, otherwise, forward)

    def _backward(self, entry: Composite) -> ExplicitBackward:
        target = entry.decomposition.target
        assert target is not None
        if entry.adapt is None:
            arguments = describe_function(find_function(target), target).arguments
            kernel = self.as_function(entry, _nothing)
        else:
            arguments = describe_function(find_function(entry.adapt), entry.adapt).arguments[1:]
            kernel = self._tried(entry, self._adapter(entry), _nothing)
        return ExplicitBackward(entry, kernel, tuple(argument.name for argument in arguments))

    def _on_backend(self, function: Kernel, otherwise: Kernel) -> Kernel:
        """A function that calls `otherwise` if no argument is a tensor of the backend."""

        def checked(*arguments: Any, **keywords: Any) -> Any:
            tensors = tensors_in((*arguments, *keywords.values()))
            with torch_internals.without_torch_function():  # `function` may be that
                is_owned = any(map(self.frontend.tensors.owns, tensors))
            if is_owned:
                return function(*arguments, **keywords)
            return otherwise(*arguments, **keywords)

        return checked

    def _tried(
        self, entry: Composite, function: Kernel, otherwise: Kernel, *, keys: int = 0
    ) -> Kernel:
        """A kernel that calls `function`, and `otherwise` for the calls that `function` declines.
        It counts these as fallbacks of the entry.

        Args:
            keys: number of leading arguments that `function` does not take.
        """
        statistics, owns = self.statistics.for_entry(entry), self.frontend.tensors.owns

        def kernel(*arguments: Any, **keywords: Any) -> Any:
            try:
                return function(*arguments[keys:], **keywords)
            except DeclinedError:
                pass
            except UnsupportedCallError as error:
                tensors = tensors_in((*arguments[keys:], *keywords.values()))
                if any(owns(tensor) for tensor in tensors):
                    statistics.fallback(str(error), tensors).count_call()
            return otherwise(*arguments, **keywords)

        return kernel

    def _key(self, entry: Composite) -> str:
        """The key of an entry's hooks in the tables of its registry."""
        return self.registries[entry.identity].key(entry)

    def _hooks(self, entry: Composite) -> ModuleType:
        registry = self.registries[entry.identity]
        if not registry.builtin:
            return _vendor_hooks(registry)
        from lowering.generated import ptxla

        return ptxla


def _tried(function: Kernel, otherwise: Kernel) -> Kernel:
    """A function that calls `function`, and `otherwise` for the calls that `function` declines."""

    def kernel(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except UnsupportedCallError:
            return otherwise(*arguments, **keywords)

    return kernel


def _rewriting(claim: _Claim) -> Kernel:
    """The function of a rewrite. As with `adapt`, calls of a Python function with arguments that it
    does not take are declined; calls of an operator with such arguments are a LoweringError."""
    assert claim.rewrite is not None
    caught, function = claim.rewrite
    return _fitting(
        find_function(function),
        LoweringError if "::" in caught else UnsupportedCallError,
        f"{claim.entry.location}: {claim.entry.qualified}: {misfit(caught, function)}",
    )


def misfit(caught: str, function: str) -> str:
    """The message about a rewrite that does not take the arguments of its operator or function."""
    return f"rewrites: {function} does not take the arguments of {caught}"


def _fitting(function: Kernel, refusal: type[CompositesError], text: str) -> Kernel:
    """A function that raises `refusal`, with this text and the reason, for arguments that it does
    not have."""

    def called(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except TypeError as error:
            try:
                inspect.signature(function).bind(*arguments, **keywords)
            except TypeError as mismatch:
                raise refusal(f"{text}: {mismatch}") from error
            raise

    return called


def _writing(adapt: Kernel, write: Callable[[InPlace], None]) -> Kernel:
    """Let an adapting function also write to the arguments that its `InPlace` result names."""

    def called(*arguments: Any, **keywords: Any) -> Any:
        result = adapt(*arguments, **keywords)
        return write(result) if isinstance(result, InPlace) else result

    return called


def _decline(*arguments: Any, **keywords: Any) -> Any:
    raise DeclinedError("the composite does not claim this call")


def _nothing(*arguments: Any, **keywords: Any) -> None:
    return None


def _in_inference_mode(kernel: Kernel, stock: Kernel) -> Kernel:
    """Use `kernel` in inference mode only. Otherwise the call has already passed autograd's key."""

    def chosen(keys: Any, *arguments: Any, **keywords: Any) -> Any:
        taken: Callable[..., Any] = kernel if torch.is_inference_mode_enabled() else stock
        return taken(keys, *arguments, **keywords)

    return chosen


_function_hook = cache(loader.load_function_hook)


@cache
def _vendor_hooks(registry: Registry) -> ModuleType:
    return loader.load_hooks(registry)
