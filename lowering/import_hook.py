"""Running an action as soon as a module is imported, without importing it."""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Collection, Sequence
from types import ModuleType
from typing import Any


def after_import(module: str, action: Callable[[], None]) -> Callable[[], object]:
    """Run `action` once `module` is imported, or now if it is already imported.

    The import may be under way: the module itself, or one that it imports, may call this.

    Returns:
        A function that stops waiting for the module.
    """
    if module in sys.modules:
        return _at_end_of_import(module, action)
    watcher = _Watcher(lambda name: name == module, lambda _: once())

    def once() -> None:
        # The watcher stops only now: an import can fail, or a program may only look for the module.
        if watcher.stop():
            action()

    try:
        sys.meta_path.insert(0, watcher)
        if module in sys.modules and watcher.stop():  # another thread has begun to import it
            importlib.import_module(module)  # waits for that thread
            action()
        return watcher.stop
    except BaseException:  # the caller has no function to stop the watcher
        watcher.stop()
        raise


def after_imports(packages: Collection[str], action: Callable[[str], None]) -> Callable[[], object]:
    """Run `action` with the name of each module of `packages`, once the module is imported.

    Modules that are already imported, or whose import has begun, are left out.

    Returns:
        A function that stops waiting for imports.
    """
    beginnings = tuple(f"{package}." for package in packages)
    watcher = _Watcher(lambda name: f"{name}.".startswith(beginnings), action)
    try:
        sys.meta_path.insert(0, watcher)
        return watcher.stop
    except BaseException:  # the caller has no function to stop the watcher
        watcher.stop()
        raise


def _at_end_of_import(module: str, action: Callable[[], None]) -> Callable[[], object]:
    spec = getattr(sys.modules[module], "__spec__", None)
    if not isinstance(spec, importlib.machinery.ModuleSpec) or not _is_under_way(spec):
        action()
        return lambda: None
    waiting = [action]

    def end() -> None:
        for waited in waiting[:1]:
            waiting.clear()
            if module in sys.modules:  # a failed import has removed the module
                waited()

    ends = vars(spec).setdefault(_ENDS, [])
    ends.append(end)
    if type(spec) is importlib.machinery.ModuleSpec:
        spec.__class__ = _SpecUnderWay
    if not _is_under_way(spec):  # another thread imported it
        end()
    return waiting.clear


_ENDS = "_composites_ends"
"""The attribute of a spec that lists the functions to call when the import ends."""


def _is_under_way(spec: importlib.machinery.ModuleSpec) -> bool:
    return bool(getattr(spec, "_initializing", False))


class _SpecUnderWay(importlib.machinery.ModuleSpec):
    """The spec of a module while it is imported.

    importlib reports the end of an import only by setting `_initializing` to False.
    """

    @property
    def _initializing(self) -> bool:
        return bool(vars(self)["_initializing"])

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        vars(self)["_initializing"] = value
        if not value:
            self.__class__ = importlib.machinery.ModuleSpec  # type: ignore[assignment]
            for end in vars(self).pop(_ENDS, ()):
                end()


class _Watcher(importlib.abc.MetaPathFinder):
    """Finds modules as the other finders do, with a loader that runs an action after the import."""

    def __init__(self, watches: Callable[[str], bool], action: Callable[[str], None]) -> None:
        self.watches = watches
        self.action = action

    def stop(self) -> bool:
        """Stop waiting. Return True if the watcher was waiting until now."""
        try:
            sys.meta_path.remove(self)
        except ValueError:
            return False
        return True

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not self.watches(name):
            return None
        spec = self._spec_from_later_finders(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _LoaderWithAction(spec.loader, lambda: self.action(name))
        return spec

    def _spec_from_later_finders(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec from the finders after this one; the earlier finders have been tried."""
        finders = list(sys.meta_path)
        start = finders.index(self) + 1 if self in finders else len(finders)
        for finder in finders[start:]:
            if not hasattr(finder, "find_spec"):  # importlib skips these too
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


class _LoaderWithAction(importlib.abc.Loader):
    """A loader that wraps another loader, and runs an action after the import."""

    def __init__(self, loader: Any, action: Callable[[], None]) -> None:
        self.loader = loader
        self.action = action

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        # The module asks its loader for its data and source.
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.action()
