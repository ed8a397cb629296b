"""Running an action as soon as a module is imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


def after_import(module: str, action: Callable[[], None]) -> Callable[[], None]:
    """Run `action` once `module` is imported, or now if it is already imported.

    Returns:
        A function that stops waiting for the module.
    """
    if module in sys.modules:
        action()
        return lambda: None
    watcher = _ImportWatcher(module, action)
    sys.meta_path.insert(0, watcher)
    return watcher.stop


class _ImportWatcher(importlib.abc.MetaPathFinder):
    """Finds one module as the other finders do, with a loader that runs an action after the
    import."""

    def __init__(self, module: str, action: Callable[[], None]) -> None:
        self.module = module
        self.action = action

    def stop(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.module:
            return None
        self.stop()
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _LoaderWithAction(spec.loader, self.action)
        return spec


class _LoaderWithAction(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, action: Callable[[], None]) -> None:
        self.loader = loader
        self.action = action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.action()
