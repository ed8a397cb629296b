"""rename_module: name the module after the model that it was made from.

module @IrToHlo  =>  module @BertForMaskedLM
"""

import re

from ..in_place import in_place
from ..ir_types import IrModule
from ..symbols import rename

_NO_LETTER = re.compile(r"\W", re.ASCII)


@in_place
def rename_module(module: IrModule, *, name: str) -> None:
    """Give the module a name. Characters that MLIR would have to quote become underscores."""
    symbol = _NO_LETTER.sub("_", name)
    if not symbol or symbol[0].isdigit():
        symbol = f"_{symbol}"
    rename(module.operation, symbol)
