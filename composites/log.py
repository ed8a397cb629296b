"""Messages of the project on stderr, at the level that XLA_COMPOSITE_LOG sets."""

import logging
import warnings

from composites.errors import CompositesWarning, did_you_mean
from composites.settings import LOG

LEVELS = {"info": logging.INFO, "debug": logging.DEBUG}


_NAME = "composites"
"""The name of the handler."""


def show_messages(level: str) -> None:
    """Show messages of a level, `info` or `debug`, and of higher levels. Empty text changes
    nothing; any other text causes a warning."""
    if not level:
        return
    chosen = LEVELS.get(level.lower())
    if chosen is None:
        hint = did_you_mean(level.lower(), list(LEVELS)) or f" (known: {', '.join(LEVELS)})"
        warnings.warn(f"{LOG.name}={level} is not a level{hint}", CompositesWarning, stacklevel=2)
        return
    logger = logging.getLogger("composites")
    for earlier in [h for h in logger.handlers if h.get_name() == _NAME]:
        logger.removeHandler(earlier)  # both PyTorch and JAX programs call this function
    handler = logging.StreamHandler()
    handler.set_name(_NAME)
    handler.setFormatter(logging.Formatter("composites: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(chosen)
    logger.propagate = False  # a handler of the root logger would show them a second time
