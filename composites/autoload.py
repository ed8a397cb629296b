"""From `import torch_xla` to active composites, without a line in the user's script.

PyTorch calls `autoload` at the end of `import torch` (entry-point group `torch.backends`). With
XLA_COMPOSITE_OP unset that is all that ever happens. Otherwise the composites are turned on when
torch_xla has registered its kernels, which is after the last module that its __init__ imports;
that module is waited for because torch_xla may be half imported already (`import torch_xla` is
what imports torch then).
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from composites.settings import ALLOWLIST

LAST_MODULE_OF_TORCH_XLA = "torch_xla._internal.c10d_registration"
"""Imported last by the __init__ of torch_xla 2.9.0."""


def autoload() -> None:
    """Entry point of `torch.backends`."""
    if ALLOWLIST.read():
        after_import(LAST_MODULE_OF_TORCH_XLA, enable_allowlist)


def enable_allowlist() -> None:
    """Turn on what XLA_COMPOSITE_OP names.

    Raises:
        AllowlistError: naming the variable, so that whoever set it finds it.
    """
    from composites.activation import enable
    from composites.allowlist import split_allowlist
    from composites.errors import AllowlistError

    text = ALLOWLIST.read()
    try:
        enable(*split_allowlist(text))
    except AllowlistError as error:
        raise AllowlistError(f"{ALLOWLIST.name}={text}: {error}") from None


def after_import(module: str, action: Callable[[], None]) -> Callable[[], None]:
    """Run `action` once `module` is imported, or now if it is; the result stops waiting for it."""
    if module in sys.modules:
        action()
        return lambda: None
    watcher = _ImportWatcher(module, action)
    sys.meta_path.insert(0, watcher)
    return watcher.stop


class _ImportWatcher(importlib.abc.MetaPathFinder):
    """Finds one module as the other finders do, with a loader that runs an action afterwards."""

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
