"""Statements about the kernels of a program."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from composites.errors import CompositesError
from lowering.stablehlo import StableHLOError
from lowering.stablehlo.kernels import KernelUse


def answer(choose: Callable[[], Sequence[KernelUse]], folder: Path) -> str:
    """The kernel or alternative of each composite and why no other one, or the error.

    `folder` has the registry file, and the module that the fixture `listed` writes.
    """
    try:
        uses = choose()
    except (CompositesError, StableHLOError) as error:
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
    else:
        text = "".join(
            f"{use.composite}: {use.kernel or use.alternative or 'none'}; {use.reason or ''}\n"
            for use in uses
        )
    return re.sub(r"listed_\d+", "MODULE", text.replace(f"{folder}/", ""))
