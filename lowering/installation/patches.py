"""Replacing Python functions, now or when their module is imported."""

import functools
import logging
import sys
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from composites.errors import AllowlistError, did_you_mean
from composites.registry.model import BUILTIN_NAMESPACE, Composite
from lowering.copies.original import PATCH, original_function
from lowering.copies.search import Copy, Search, is_in
from lowering.dispatch.compiled_functions import Replacement
from lowering.import_hook import after_import, after_imports

log = logging.getLogger("composites")

Wrapper = Callable[[Callable[..., Any]], Replacement]


@dataclass(slots=True)
class Patch:
    """A function that is replaced until the patch is removed.

    The caller keeps the patch before it calls `install`, and removes it after an error.
    """

    target: str
    """`package.module:Class.method`"""
    wrapper: Wrapper
    claimed_by: Composite
    removed: bool = False
    stop_waiting: Callable[[], object] | None = None
    undo: Callable[[], None] | None = None
    """Restores the function; None while it is not replaced."""

    def install(self) -> None:
        """Replace the function as soon as its module is imported.

        The module is not imported for this: a program that never imports it does not call the
        function.
        """
        self.stop_waiting = after_import(self.target.partition(":")[0], self.apply)

    def apply(self) -> None:
        """Replace the function. Its module must be imported.

        A function of the built-in registry that this release of its package does not have is left
        alone, with a warning.

        Raises:
            AllowlistError: the module has no such function, and an entry of a vendor names it.
        """
        if self.removed:
            return
        module_name, _, path = self.target.partition(":")
        owner: Any = None
        before: Any = sys.modules[module_name]
        for name in path.split("."):
            owner = before
            if name not in vars(owner):
                self._miss(owner, name)
                return
            before = vars(owner)[name]
        is_classmethod = isinstance(before, classmethod)
        original = original_function(before.__func__ if is_classmethod else before)
        replacement = self.wrapper(original)
        stand_in, called = _stand_in(self.target, original)

        def undo() -> None:
            with suppress(ValueError):  # not added yet, or another thread was faster
                called.remove(replacement)
            if called == [original] and _function_in(owner, name) is stand_in:
                setattr(owner, name, classmethod(original) if is_classmethod else original)

        self.undo = undo  # first, so that an interrupt leaves nothing behind
        called.append(replacement)
        if _function_in(owner, name) is not stand_in:
            setattr(owner, name, classmethod(stand_in) if is_classmethod else stand_in)
        if self.removed:  # by another thread, while this one imported the module
            undo()

    def remove(self) -> None:
        """Restore the function."""
        self.removed = True
        if self.stop_waiting is not None:
            self.stop_waiting()
        if self.undo is not None:
            self.undo()
            self.undo = None

    def _miss(self, owner: Any, name: str) -> None:
        entry = self.claimed_by
        package = self.target.partition(".")[0]
        if entry.namespace == BUILTIN_NAMESPACE:
            log.warning(
                "%s does not catch %s: %s has no %s in this release of %s; turn the entry off with"
                " -%s to silence this warning",
                *(entry.qualified, self.target, owner.__name__, name, package, entry.name),
            )
            return
        raise AllowlistError(
            f"{entry.qualified} ({entry.location}): {owner.__name__} has no {name}"
            f"{did_you_mean(name, list(vars(owner)))}; correct `function: {self.target}`, or"
            f" turn the entry off with -{entry.name}"
        )


def _stand_in(target: str, original: Any) -> tuple[Any, list[Any]]:
    """The function that replaces an original one, and the list of functions that it may call.

    A stand-in calls the last function of the list: new hooks are added before old ones are removed.
    An original function keeps a stand-in for each target, with or without patches, because code
    that imported the name holds the stand-in.
    """
    stand_ins = original.__dict__.setdefault(_STAND_INS, {})
    if target not in stand_ins:
        called = [original]

        @functools.wraps(original)
        def stand_in(*arguments: Any, **keywords: Any) -> Any:
            return called[-1](*arguments, **keywords)

        setattr(stand_in, PATCH, called)
        # A pickle names a function by module and name, which lead to the original without the
        # patch. The original may be defined elsewhere, as torch_xla's clip_grad_norm_ in
        # torch.nn.utils.
        stand_in.__module__, _, stand_in.__qualname__ = target.partition(":")
        stand_ins[target] = stand_in
    stand_in = stand_ins[target]
    return stand_in, vars(stand_in)[PATCH]


_STAND_INS = "_composites_stand_ins"
"""The attribute of an original function that holds its stand-ins, by target."""


def _function_in(owner: Any, name: str) -> Any:
    """The function that a module or a class has under a name."""
    value = vars(owner).get(name)
    return getattr(value, "__func__", value)


def replace_imports(patches: Iterable[object]) -> None:
    """Give modules of other packages that imported a function by its name the replacement.

    They keep the replacement, which calls the original once the patch is removed. Modules of the
    same package keep the original, because entries name each function that they catch.
    """
    replaced: dict[str, dict[str, Any]] = {}
    for patch in patches:
        if isinstance(patch, Patch) and patch.undo is not None:
            home, _, name = patch.target.partition(":")
            function = vars(sys.modules[home]).get(name)  # None for a method
            if PATCH in getattr(function, "__dict__", ()):
                replaced.setdefault(name, {})[home.partition(".")[0]] = function
    if not replaced:  # the usual case: do not visit thousands of modules
        return
    for module_name, module in sys.modules.copy().items():  # other threads may import
        values = getattr(module, "__dict__", {})
        for name in replaced.keys() & values.keys():
            for package, function in replaced[name].items():
                is_other = module_name.partition(".")[0] != package
                if is_other and values[name] is function.__wrapped__:
                    values[name] = function


@dataclass(slots=True)
class CopyPatches:
    """The copies of functions that entries name, until the patches are removed."""

    search: Search
    named: Collection[str]
    """Functions that have patches of their own."""
    wrapper: Callable[[Copy], Wrapper]
    """Makes the replacement of a copy."""
    patches: list[Patch] = field(default_factory=list)
    removed: bool = False
    stop_waiting: Callable[[], object] | None = None

    def install(self) -> None:
        """Replace the copies in imported modules, and in others as soon as they are imported."""
        packages = self.search.packages
        self.stop_waiting = after_imports(packages, self._imported)
        for name in list(sys.modules):
            if is_in(name, packages):
                after_import(name, functools.partial(self._imported, name))

    def _imported(self, name: str) -> None:
        module = sys.modules.get(name)
        if self.removed or not isinstance(module, ModuleType):
            return
        for copy in self.search.in_module(module):
            if copy.target in self.named:
                continue
            catching = ", ".join(entry.identity for entry in copy.entries)
            log.debug("%s also catches %s", catching, copy.target)
            patch = Patch(copy.target, self.wrapper(copy), copy.entries[0])
            self.patches.append(patch)  # first, so that an interrupt leaves nothing behind
            patch.apply()
        if self.removed:  # by another thread, while this one imported the module
            self._restore()

    def remove(self) -> None:
        """Restore all functions."""
        self.removed = True
        if self.stop_waiting is not None:
            self.stop_waiting()
        self._restore()

    def _restore(self) -> None:
        with ExitStack() as removals:
            for patch in list(self.patches):
                removals.callback(patch.remove)
