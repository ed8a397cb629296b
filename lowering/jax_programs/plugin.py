"""Turning composites on in JAX programs, without a line in the user's script.

JAX calls its plugins (entry-point group `jax_plugins`) when it starts its devices, which is before
a program makes its first array. This plugin registers no devices. If XLA_COMPOSITE_OP is not set,
it only warns about misspelled variables.
"""

import sys
from typing import Any

from composites.settings import ALLOWLIST, LOG, STATS, warn_of_unknown_variables

_FRONTENDS = ("torch_xla", "lowering.frontends.fx.frontend")


def initialize() -> None:
    """Turn on the entries of the variable; JAX calls this function. In a process that has imported
    a frontend, the variable applies to PyTorch programs instead."""
    if any(name in sys.modules for name in _FRONTENDS):
        return
    warn_of_unknown_variables()
    if LOG.read() or STATS.read():
        from composites.log import show_messages

        show_messages(LOG.read())
    if ALLOWLIST.read():
        try:
            _enable(ALLOWLIST.read())
        except Exception as error:  # JAX would log the error and continue
            _raise_in_program(error)


def _enable(text: str) -> None:
    from composites.errors import AllowlistError

    try:
        from composites.allowlist import split_allowlist
        from lowering.jax_programs.activation import enable, stats
        from lowering.stats.collect import report_at_exit
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from composites.errors import MissingPackageError, installing

        raise MissingPackageError(
            f"{ALLOWLIST.name}={text}: composites of JAX programs need torch; {installing('jax')}"
        ) from None
    report_at_exit(stats)
    try:
        enable(*split_allowlist(text))
    except AllowlistError as error:
        raise AllowlistError(f"{ALLOWLIST.name}={text}: {error}") from None


def _raise_in_program(error: Exception) -> None:
    """Make the program end with an error at the next function that JAX traces or compiles."""
    from jax import monitoring

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monitoring.register_event_duration_secs_listener(fail)
