"""The passes, one in each file: functions from module to module, usable alone or in a pipeline."""

from . import (
    bind,
    clean,
    decompose,
    drop_cast_roundtrips,
    legalize_chlo,
    to_custom_call,
    widen_dots,
)

COMMAND_LINE = (
    clean.OPTIONS,
    bind.OPTIONS,
    to_custom_call.OPTIONS,
    decompose.OPTIONS,
    legalize_chlo.OPTIONS,
    drop_cast_roundtrips.OPTIONS,  # before widen_dots, which would widen products for these casts
    widen_dots.OPTIONS,
)
"""The passes that `composites lower` offers, in the order in which it runs them."""
