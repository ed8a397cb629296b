"""The types of MLIR's bindings, which mypy cannot read. These names say what each `Any` is."""

from typing import Any, TypeAlias

IrContext: TypeAlias = Any
IrModule: TypeAlias = Any
IrOperation: TypeAlias = Any
IrValue: TypeAlias = Any
IrType: TypeAlias = Any
IrAttribute: TypeAlias = Any
