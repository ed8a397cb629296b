"""Turning composites on after `import torch_xla`, without a line in the user's script.

PyTorch calls `autoload` at the end of `import torch` (entry-point group `torch.backends`). If
XLA_COMPOSITE_OP is not set, nothing is turned on; variables that look like it cause a warning.
Otherwise the composites are turned on once torch_xla has registered its kernels.
`import torch_xla` may itself import torch, so torch_xla can be half imported at this point. The
hook therefore waits for the last module that torch_xla imports.
"""

import atexit
import sys
from contextlib import suppress
from functools import wraps
from typing import Any

from composites.settings import (
    ALLOWLIST,
    COMPILE,
    LOG,
    STATS,
    allowlist_at_import,
    warn_of_late_allowlist,
    warn_of_unknown_variables,
)


def autoload() -> None:
    """The entry point of `torch.backends`."""
    warn_of_unknown_variables()
    if not allowlist_at_import():
        atexit.register(_warn_at_exit)
    if LOG.read() or STATS.read():
        _observe()
    _register_with_transformers()
    if COMPILE.read():
        _compile_with_composites()
    if ALLOWLIST.read():
        from lowering.frontends.chosen import package
        from lowering.import_hook import after_import

        after_import(package().LAST_IMPORTED_MODULE, enable_allowlist)


def _register_with_transformers() -> None:
    """Register `attn_implementation="composites"` and `experts_implementation="composites"` in
    transformers once it is imported."""
    from lowering.import_hook import after_import

    def register() -> None:
        with suppress(ImportError):  # a transformers without these interfaces
            from composites.operators import transformers_attention, transformers_experts

            transformers_attention.register()
            transformers_experts.register()

    after_import("transformers.modeling_utils", register)


def _compile_with_composites() -> None:
    """Make `torch.compile` use `backend="composites"` where a program names no backend, or names
    PyTorch's default backend, as trainers of other packages do.

    `mode` and `options` then belong to PyTorch's own backend, and are left out.
    """
    import torch

    original = torch.compile

    @wraps(original)
    def compile(*arguments: Any, **keywords: Any) -> Any:
        if keywords.get("backend") in (None, "inductor"):
            keywords = {k: v for k, v in keywords.items() if k not in ("mode", "options")}
            keywords["backend"] = "composites"
        return original(*arguments, **keywords)

    torch.compile = compile


def _warn_at_exit() -> None:
    """Warn if XLA_COMPOSITE_OP was set too late, unless the program turned composites on itself."""
    if "torch_xla" not in sys.modules:  # the variable may be set for other processes
        return
    if "lowering.activation" in sys.modules:
        from lowering.activation import active

        active()
    else:
        warn_of_late_allowlist()


def _observe() -> None:
    """Apply XLA_COMPOSITE_LOG and XLA_COMPOSITE_STATS."""
    from composites.log import show_messages
    from lowering.frontends.chosen import package
    from lowering.import_hook import after_import

    show_messages(LOG.read())

    def report() -> None:
        from lowering.stats.collect import report_at_exit

        report_at_exit()

    after_import(package().LAST_IMPORTED_MODULE, report)


def enable_allowlist() -> None:
    """Turn on the composites that XLA_COMPOSITE_OP names.

    Raises:
        AllowlistError: the message names the variable, so that the user finds it.
    """
    from composites.allowlist import split_allowlist
    from composites.errors import AllowlistError
    from lowering.activation import enable

    text = ALLOWLIST.read()
    if not text:  # the variable was unset after `import torch`
        return
    try:
        enable(*split_allowlist(text))
    except AllowlistError as error:
        raise AllowlistError(f"{ALLOWLIST.name}={text}: {error}") from None
