"""The only module that imports jaxlib's MLIR bindings.

`jaxlib.mlir` is private to jaxlib, and its names change between releases. This module handles the
differences between releases, and the rest of the package uses this module.

jaxlib is imported on first use. Importing `lowering.stablehlo` is therefore cheap, and a machine
without jaxlib gets an error that says what to install.
"""

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeAlias, TypeVar

from composites.lazy_modules import np

from .errors import (
    AttributeConversionError,
    BytecodeError,
    MissingJaxError,
    ParseError,
    VerificationError,
    VersionError,
)
from .ir_types import IrAttribute, IrContext, IrModule, IrOperation, IrType, IrValue

T = TypeVar("T")

# The releases of jaxlib that the tests were run with. They have StableHLO 1.13, 1.17 and 1.22.
TESTED_RELEASES = ("0.7.1", "0.10.2", "0.12.0")

PORTABLE_VERSION = (1, 13, 0)
"""The StableHLO version of portable artifacts by default.

It is the version of jaxlib 0.7.1, the oldest release in `pyproject.toml`. A jaxlib of a year ago
(0.8.1, of November 2025) has 1.13.3. From 1.14 on, every composite is `vhlo.composite_v2`, which
jaxlib 0.8.1 cannot read. `.ci/run artifacts` reads files with three releases.
"""

# The first bytes of every MLIR bytecode file. The producer's name follows, terminated by a zero
# byte. A portable artifact is bytecode whose producer is `StableHLO_v<version>`.
BYTECODE_MAGIC = b"ML\xefR"
_PRODUCER = re.compile(rb"StableHLO_v(\d+)\.(\d+)\.(\d+)\x00")
_ILLEGAL = re.compile(r"failed to legalize operation '([^']+)' that was explicitly marked illegal")
_COMMENT = re.compile(r"//.*")
_LOCATION = re.compile(r":(\d+):(\d+)\)?$")
_PYTHON_LINE = re.compile(r'"([^"]+\.py)":(\d+)')
_OPERATOR = re.compile(r"([a-z_]+?)__(\w+)")
_ROOT = re.escape(str(Path(__file__).resolve().parents[2]))
_FRAMEWORK = re.compile(
    rf".*/(?:site|dist)-packages/(torch|torch_xla)/|{_ROOT}/(composites|lowering)/"
)
_EXPORT = re.compile(rf"{_ROOT}/lowering/export/")
_LOCATION_NAME = re.compile(r'loc\((?:fused\[)?"([^"]+)"[(),]')

Version: TypeAlias = tuple[int, int, int]


@lru_cache(maxsize=1)
def ir() -> Any:
    """`jaxlib.mlir.ir`, with the StableHLO passes registered."""
    # JAX sets this too, but is imported later. Without it, jaxlib prints its devices to stderr.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    try:
        from jaxlib.mlir import ir as module
        from jaxlib.mlir.dialects import stablehlo
    except ImportError as error:
        raise MissingJaxError(
            f"lowering.stablehlo needs jaxlib to read StableHLO, but jaxlib cannot be imported "
            f"({error}); install it with: pip install jaxlib"
        ) from error
    # Registering the passes twice aborts the process in some releases. The cache prevents this.
    stablehlo.register_stablehlo_passes()
    return module


def _stablehlo() -> Any:
    ir()
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo


def new_context() -> IrContext:
    """A context with StableHLO, quantized types, CHLO, func and the dialects that jax prints.

    Each parsed module gets its own context, because a context never frees its constants.
    """
    context = ir().Context()
    # A thread pool for each context would cost more than it saves, and would not survive a fork.
    context.enable_multithreading(False)
    try:
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, sdy
    except ImportError as error:
        raise MissingJaxError(
            f"this jaxlib does not have the expected modules ({error}); "
            f"tested versions: {', '.join(TESTED_RELEASES)}"
        ) from error
    registry = ir().DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)  # func, among others
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (_stablehlo(), chlo, sdy):
        dialect.register_dialect(context, load=True)
    with building(context):
        # Loads the dialect of `!quant.uniform`, for which jaxlib has no function.
        run_pipeline(ir().Module.create(), "builtin.module(vhlo-legalize-to-stablehlo)")
    return context


@contextmanager
def building(context: IrContext) -> Iterator[None]:
    """Build attributes and operations inside `context`, at an unknown location."""
    with context, ir().Location.unknown():
        yield


# ---- reading ----


def parse_text(text: str, source: str = "<text>", context: IrContext | None = None) -> IrModule:
    """Parse and verify MLIR text. `source` is the name that errors refer to."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        before = text[: error.start].split("\n")
        position = len(before), len(before[-1]) + 1
        raise ParseError(source, *position, "half of a surrogate pair is not text", "") from None
    context = context or new_context()
    try:
        module = ir().Module.parse(text, context)
    except ir().MLIRError as error:
        line, column, problem = _first_diagnostic(error)
        raise ParseError(source, line, column, problem, text) from None
    # MLIR wraps the contents of a file in a module, even if the file is empty.
    if not module.body.operations and not _COMMENT.sub("", text).strip():
        raise ParseError(source, 1, 1, "there is no module; the file or text is empty", "")
    return module


def parse_bytes(data: bytes, source: str = "<bytes>") -> IrModule:
    """Parse MLIR text, MLIR bytecode or a portable StableHLO artifact, told apart by the first
    bytes."""
    if data.startswith(BYTECODE_MAGIC):
        return _parse_bytecode(data, source)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BytecodeError(
            f"{source}: neither MLIR text nor MLIR bytecode "
            f"(it starts with {data[:8]!r}; bytecode starts with {BYTECODE_MAGIC!r})"
        ) from None
    return parse_text(text, source)


def _parse_bytecode(data: bytes, source: str) -> IrModule:
    version = artifact_version(data)
    if version is not None and version > current_version():
        raise BytecodeError(
            f"{source}: written by StableHLO {_dotted(version)}, but the installed jaxlib "
            f"reads up to {_dotted(current_version())}; install a newer jaxlib, or write the "
            f"file for version {_dotted(current_version())}"
        )
    context = new_context()

    def parse() -> IrModule:
        if version is None:
            return ir().Module.parse(data, context)
        return _stablehlo().deserialize_portable_artifact(context, data)

    module, problems = _with_diagnostics(context, parse)
    if module is None:
        raise BytecodeError(f"{source}: damaged or unreadable bytecode: {problems}")
    return module


def artifact_version(data: bytes) -> Version | None:
    """The StableHLO version that wrote a portable artifact; None for anything else."""
    match = _PRODUCER.search(data[:64])
    return _numbers(match.groups()) if match else None


def hlo_to_stablehlo(hlo: bytes) -> bytes:
    """The StableHLO of a serialized HLO module, as bytecode."""
    from jaxlib import _jax

    bytecode: bytes = _jax.mlir.hlo_to_stablehlo(hlo)
    return bytecode


def copy_into(context: IrContext, module: IrModule) -> IrModule:
    """A copy, in `context`, of a module of another context, such as a module that jax lowered."""
    return ir().Module.parse(bytecode(module), context)


def clone(module: IrModule) -> IrModule:
    """A copy of a module in its own context."""
    with building(module.context):
        copy = ir().Module.create()
        # Copy all attributes: the module's name, and those that the frontend added.
        for name, attribute in attributes(module.operation).items():
            copy.operation.attributes[name] = attribute
        for operation in module.body.operations:
            copy.body.append(operation.operation.clone(ip=False))
    return copy


# ---- writing ----


def bytecode(module: IrModule) -> bytes:
    """A module as bytecode, which this jaxlib reads."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def current_version() -> Version:
    """The newest StableHLO version that the installed jaxlib reads and writes."""
    return _numbers(_stablehlo().get_current_version().split("."))


def minimum_version() -> Version:
    """The oldest StableHLO version that the installed jaxlib can write."""
    return _numbers(_stablehlo().get_minimum_version().split("."))


def serialize_portable(module: IrModule, version: str | None = None) -> bytes:
    """A portable artifact for readers of StableHLO `version` (default: `PORTABLE_VERSION`)."""
    target = _target_version(version)
    data, problems = _serialized(module, target)
    if data is None:
        # jaxlib 0.7.1 names the operation; newer releases also print it, at any length.
        problem = shorten(_ILLEGAL.sub(r"operation \1", problems), 240, placeholder=" …")
        raise VersionError(
            f"the module cannot be written for StableHLO {_dotted(target)};"
            f" {_way_out(module, target)}; the first problem: {problem}"
        )
    return data


def _serialized(module: IrModule, target: Version) -> tuple[bytes | None, str]:
    """The artifact, or None and MLIR's message."""
    data, problems = _with_diagnostics(
        module.context, lambda: _stablehlo().serialize_portable_artifact(module, _dotted(target))
    )
    return (None if data is None else bytes(data)), problems


def _way_out(module: IrModule, refused: Version) -> str:
    """Advice on a newer version that can hold a module.

    StableHLO versions only add operations, and raise the second number when they do.
    """
    newest = current_version()
    # After 0.20 came 1.0.
    versions = [(0, n, 0) for n in range(21)] + [(1, n, 0) for n in range(newest[1] + 1)] + [newest]
    for needed in versions:
        if needed > refused and _serialized(module, needed)[0] is not None:
            version = _dotted(needed)
            return f"it needs {version} or newer: portable={version!r}, or --portable {version}"
    return (
        f"no version that the installed jaxlib writes can hold it, up to {_dotted(newest)}, so"
        " write text (.mlir)"
    )


def _target_version(version: str | None) -> Version:
    if version is None:
        return min(PORTABLE_VERSION, current_version())
    oldest, newest = minimum_version(), current_version()
    if not isinstance(version, str) or not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise VersionError(
            f"{version!r} is not a StableHLO version; write it like {_dotted(newest)!r}"
        )
    target = _numbers(version.split("."))
    if not oldest <= target <= newest:
        raise VersionError(
            f"StableHLO {version} cannot be written; the installed jaxlib writes "
            f"{_dotted(oldest)} to {_dotted(newest)}"
        )
    return target


# ---- passes and verification ----


def run_pipeline(module: IrModule, pipeline: str) -> None:
    """Run an MLIR pass pipeline, such as `builtin.module(symbol-dce)`, on `module` in place."""
    ir()
    from jaxlib.mlir.passmanager import PassManager

    with module.context:
        manager = PassManager.parse(pipeline)
    try:
        manager.run(module.operation)
    except ir().MLIRError as error:
        raise VerificationError(f"{pipeline}: {_first_diagnostic(error)[2]}") from None


def legalize_chlo(module: IrModule) -> None:
    """Expand CHLO in place.

    Where sizes vary, the official pass writes operations of the shape dialect, which have no
    versioned form. These become StableHLO too.
    """
    run_pipeline(module, "builtin.module(func.func(chlo-legalize-to-stablehlo))")
    if find_operations(module.operation, "shape.shape_of"):
        passes = "shape-legalize-to-stablehlo,canonicalize,cse"
        run_pipeline(module, f"builtin.module(func.func({passes}))")


def verify(module: IrModule) -> None:
    """Raise `VerificationError` if the module breaks a rule of its dialects."""
    try:
        module.operation.verify()
    except ir().MLIRError as error:
        raise VerificationError(_first_diagnostic(error)[2]) from None


# ---- small readers that hide differences between bindings ----


def attributes(operation: IrOperation) -> dict[str, IrAttribute]:
    """The attributes of an operation by name.

    Raises:
      AttributeConversionError: a name is not UTF-8 (MLIR allows any bytes), or a value is a
        location.
    """
    return _items(operation.attributes, operation.name)


def _items(entries: Any, where: str) -> dict[str, IrAttribute]:
    items: dict[str, IrAttribute] = {}
    for name in _names(entries, where):
        try:
            items[name] = entries[name]
        except TypeError:
            # A location is an attribute in MLIR, but not in the bindings of jaxlib 0.10.2.
            raise AttributeConversionError(
                f"jaxlib cannot read attribute {name} of {where}; locations cannot be attributes"
            ) from None
    return items


def _names(entries: Any, where: str) -> list[str]:
    """The names in an attribute dictionary, as Python strings.

    Iterating gives names in one release and pairs in another. A pair's `name` aborts the process
    if it is not UTF-8. Printing the pair only raises an exception.
    """
    names: list[str] = []
    try:
        for entry in entries:
            if not isinstance(entry, str):
                repr(entry)
            names.append(entry if isinstance(entry, str) else entry.name)
    except (RuntimeError, UnicodeDecodeError):
        raise AttributeConversionError(
            f"the name of an attribute of {where} is not UTF-8; write it in UTF-8"
        ) from None
    return names


def string_value(attribute: IrAttribute) -> str:
    """The value of a StringAttr, or the function's name in a FlatSymbolRefAttr.

    Raises:
      AttributeConversionError: the value is not UTF-8; MLIR allows any bytes.
    """
    try:
        return str(attribute.value)
    # jaxlib's bindings raise either error, depending on the release.
    except (RuntimeError, UnicodeDecodeError):
        raise AttributeConversionError(
            f"the string {attribute} is not UTF-8; write it in UTF-8"
        ) from None


def dictionary_items(attribute: IrAttribute) -> dict[str, IrAttribute]:
    """The entries of a DictAttr; empty for None.

    Raises:
      AttributeConversionError: a name is not UTF-8, or a value is a location; see `attributes`.
    """
    return {} if attribute is None else _items(attribute, "a dictionary")


def list_elements(attribute: IrAttribute) -> list[IrAttribute]:
    """The elements of an ArrayAttr.

    Raises:
      AttributeConversionError: an element is a location; see `attributes`.
    """
    try:
        return list(attribute)
    except TypeError:
        raise AttributeConversionError(
            "jaxlib cannot read an element of a list; locations cannot be attributes"
        ) from None


def find_operations(root: IrOperation, *names: str) -> list[IrOperation]:
    """The operations with one of the names, including nested operations, in program order."""
    accepted = frozenset(names)
    return [operation for operation in nested_operations(root) if operation.name in accepted]


def nested_operations(root: IrOperation) -> list[IrOperation]:
    """An operation and all operations nested in it, in program order."""
    operations: list[IrOperation] = []
    advance = ir().WalkResult.ADVANCE

    def keep(operation: IrOperation) -> Any:
        operations.append(operation.operation)
        return advance

    root.operation.walk(keep, ir().WalkOrder.PRE_ORDER)
    return operations


@dataclass(frozen=True)
class DotDimensions:
    """The dimension numbers of a `stablehlo.dot_general`."""

    left_batch: tuple[int, ...]
    right_batch: tuple[int, ...]
    left_contracting: tuple[int, ...]
    right_contracting: tuple[int, ...]


def dot_dimensions(product: IrOperation) -> DotDimensions:
    """The dimension numbers of a product."""
    numbers = _stablehlo().DotDimensionNumbers(attributes(product)["dot_dimension_numbers"])
    return DotDimensions(
        tuple(numbers.lhs_batching_dimensions),
        tuple(numbers.rhs_batching_dimensions),
        tuple(numbers.lhs_contracting_dimensions),
        tuple(numbers.rhs_contracting_dimensions),
    )


def set_dot_dimensions(product: IrOperation, numbers: DotDimensions) -> None:
    """Give a product other dimension numbers."""
    with building(product.context):
        held = _stablehlo().DotDimensionNumbers.get(*astuple(numbers))
        product.attributes["dot_dimension_numbers"] = held


def scatter_dimensions(scatter: IrOperation) -> Any:
    """The dimension numbers of a scatter, with the bindings' names for them."""
    return _stablehlo().ScatterDimensionNumbers(attributes(scatter)["scatter_dimension_numbers"])


def convolution_dimensions(convolution: IrOperation) -> Any:
    """The dimension numbers of a convolution, with the bindings' names for them."""
    return _stablehlo().ConvDimensionNumbers(attributes(convolution)["dimension_numbers"])


def defining_operation(value: IrValue) -> IrOperation | None:
    """The operation that produces a value; None for an argument."""
    owner = value.owner
    return None if isinstance(owner, ir().Block) else owner.operation


def made_by(value: IrValue, *names: str) -> IrOperation | None:
    """The operation that produces a value, if it has one of the names."""
    owner = defining_operation(value)
    return owner if owner is not None and owner.name in names else None


def splat_number(value: IrValue) -> Any:
    """The number that all elements of a constant value equal; None for another value."""
    owner = made_by(value, "stablehlo.constant")
    if owner is None or "complex" in str(value.type):  # jaxlib 0.10.2 cannot read complex numbers
        return None
    held = attributes(owner)["value"]
    is_splat = isinstance(held, ir().DenseElementsAttr) and held.is_splat
    return held.get_splat_value().value if is_splat else None


def comparison_direction(compare: IrOperation) -> str:
    """The direction of a `stablehlo.compare`, such as `LT`."""
    return str(attributes(compare)["comparison_direction"]).split()[-1].strip(">")


def users(value: IrValue) -> list[IrOperation]:
    """The operations that read a value, once for each use."""
    return [use.owner.operation for use in value.uses]


def location_name(location: Any) -> str:
    """The name that a frontend gave to a location; empty if there is none."""
    match = _LOCATION_NAME.match(str(location))
    return match[1] if match else ""


def operator_name(location: Any) -> str:
    """The operator that an operation came from, such as `aten::sort`; empty if the location does
    not name one."""
    match = _OPERATOR.fullmatch(location_name(location))
    return f"{match[1]}::{match[2]}" if match else ""


def source_line(location: Any) -> str:
    """The line of Python that a location names, such as `model.py:12`; empty if there is none. For
    a stack, the innermost line of the exported module, or else the innermost line."""
    lines = _PYTHON_LINE.findall(str(location))
    return ":".join(innermost_line(lines) or (lines or [()])[0])


def innermost_line(lines: Iterable[tuple[str, T]]) -> tuple[str, T] | None:
    """The innermost line of the exported module in a stack of files and lines, innermost first;
    None if there is none."""
    inside = takewhile(lambda line: not _EXPORT.match(line[0]), lines)
    return next((line for line in inside if not _FRAMEWORK.match(line[0])), None)


def _first_diagnostic(error: Any) -> tuple[int, int, str]:
    """Line, column and message of the first problem that MLIR reported."""
    diagnostics = error.error_diagnostics
    if not diagnostics:
        return 0, 0, str(error)
    first = diagnostics[0]
    match = _LOCATION.search(str(first.location))
    line, column = (int(match[1]), int(match[2])) if match else (0, 0)
    return line, column, str(first.message).strip()


def _with_diagnostics(context: IrContext, call: Callable[[], T]) -> tuple[T | None, str]:
    """The result of `call`, or None and MLIR's message. Without this, MLIR prints the message to
    stderr."""
    messages: list[str] = []

    def keep(diagnostic: Any) -> bool:
        try:
            messages.append(str(diagnostic.message))
        except (RuntimeError, UnicodeDecodeError):
            messages.append("something in it is not UTF-8")
        return True

    handler = context.attach_diagnostic_handler(keep)
    try:
        return call(), ""
    except ir().MLIRError as error:
        return None, messages[0] if messages else _first_diagnostic(error)[2]
    except ValueError as error:
        return None, messages[0] if messages else str(error)
    except MemoryError:  # damaged bytecode may name any size
        return None, "it needs more memory than is available or allowed"
    finally:
        handler.detach()


def _numbers(parts: Any) -> Version:
    major, minor, patch = (int(part) for part in parts)
    return major, minor, patch


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))


LARGEST_BOOLEAN_CONSTANT = 100
"""Larger boolean constants are printed in hexadecimal, which MLIR versions read in different ways:
some versions use a bit for each value, others a byte."""


def dense_elements(value: Any, element_type: IrType) -> IrAttribute:
    """A numpy array as the value of a constant. Call it inside `building`.

    Values of ml_dtypes types are passed as bits. Booleans are parsed from text, because jaxlib 0.7
    expects a bit for each value and 0.10 a byte.
    """
    if value.dtype == np.bool_:
        written = str(value.tolist()).lower() if value.size else ""
        type_ = ir().RankedTensorType.get(value.shape, element_type)
        return ir().Attribute.parse(f"dense<{written}> : {type_}")
    bits = np.ascontiguousarray(value)
    if bits.dtype.kind == "V":  # the kind of ml_dtypes types in numpy
        bits = bits.view(f"u{bits.dtype.itemsize}")
    return ir().DenseElementsAttr.get(bits, type=element_type, shape=value.shape)
