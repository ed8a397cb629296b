"""Running an action as soon as a module is imported, without importing it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType


def after_import(module: str, action: Callable[[], None]) -> Callable[[], object]:
    """Run `action` once `module` is imported, or now if it is already imported.

    Returns:
        A function that stops waiting for the module.
    """
    if module in sys.modules:
        action()
        return lambda: None
    watcher = _ImportWatcher(module, action)
    sys.meta_path.insert(0, watcher)
    if module in sys.modules and watcher.stop():  # another thread has begun to import it
        importlib.import_module(module)  # waits for that thread
        action()
    return watcher.stop


class _ImportWatcher(importlib.abc.MetaPathFinder):
    """Finds one module as the other finders do, with a loader that runs an action after the
    import."""

    def __init__(self, module: str, action: Callable[[], None]) -> None:
        self.module = module
        self.action = action
        self.searching = threading.local()

    def stop(self) -> bool:
        """Stop waiting. Returns whether it was waiting until now."""
        try:
            sys.meta_path.remove(self)
        except ValueError:
            return False
        return True

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.module or getattr(self.searching, "active", False):
            return None
        self.searching.active = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.searching.active = False
        if spec is not None and spec.loader is not None:
            spec.loader = _LoaderWithAction(spec.loader, self._imported)
        return spec

    def _imported(self) -> None:
        # It waits until here, as an import can fail, or a program may only look for the module.
        if self.stop():
            self.action()


class _LoaderWithAction(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, action: Callable[[], None]) -> None:
        self.loader = loader
        self.action = action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        self.action()
