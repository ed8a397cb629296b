"""Names for the types of MLIR's bindings. mypy cannot read the bindings, so each is `Any`."""

from typing import Any, TypeAlias

IrContext: TypeAlias = Any
IrModule: TypeAlias = Any
IrOperation: TypeAlias = Any
IrValue: TypeAlias = Any
IrType: TypeAlias = Any
IrAttribute: TypeAlias = Any
