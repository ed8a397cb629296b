"""rename_module: name the module after its model.

module @IrToHlo  =>  module @BertForMaskedLM
"""

import re

from ..in_place import in_place
from ..ir_types import IrModule
from ..symbols import rename

_NO_LETTER = re.compile(r"\W", re.ASCII)


@in_place
def rename_module(module: IrModule, *, name: str) -> None:
    """Rename the module. Characters that MLIR would have to quote become underscores."""
    symbol = _NO_LETTER.sub("_", name)
    if not symbol or symbol[0].isdigit():
        symbol = f"_{symbol}"
    rename(module.operation, symbol)
