"""From `import torch_xla` to active composites, without a line in the user's script.

PyTorch calls `autoload` at the end of `import torch` (entry-point group `torch.backends`). With
XLA_COMPOSITE_OP unset that is all that ever happens. Otherwise the composites are turned on when
torch_xla has registered its kernels. `import torch_xla` may be what imports torch, so torch_xla can
be half imported already, and the last module of its own import is waited for.
"""

from __future__ import annotations

from composites.settings import ALLOWLIST


def autoload() -> None:
    """Entry point of `torch.backends`."""
    if ALLOWLIST.read():
        from lowering.frontends.torch_xla import LAST_IMPORTED_MODULE
        from lowering.import_hook import after_import

        after_import(LAST_IMPORTED_MODULE, enable_allowlist)


def enable_allowlist() -> None:
    """Turn on what XLA_COMPOSITE_OP names.

    Raises:
        AllowlistError: naming the variable, so that whoever set it finds it.
    """
    from composites.allowlist import split_allowlist
    from composites.errors import AllowlistError
    from lowering.activation import enable

    text = ALLOWLIST.read()
    try:
        enable(*split_allowlist(text))
    except AllowlistError as error:
        raise AllowlistError(f"{ALLOWLIST.name}={text}: {error}") from None
