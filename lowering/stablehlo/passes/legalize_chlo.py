"""legalize_chlo: replace CHLO with StableHLO, for consumers that do not know CHLO."""

from .. import bindings
from ..bindings import IrModule
from ..in_place import in_place
from ..options import switch


@in_place
def legalize_chlo(module: IrModule) -> None:
    """Expand every CHLO operation with the official pass `chlo-legalize-to-stablehlo`."""
    bindings.legalize_chlo(module)


OPTIONS = switch("--legalize-chlo", legalize_chlo, "Expand CHLO operations to StableHLO.")
