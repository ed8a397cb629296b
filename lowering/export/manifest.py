"""manifest.json: the inputs and outputs of a program, checked against its `@main`."""

import binascii
import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import islice
from reprlib import repr as shortened
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainValidator, TypeAdapter, ValidationError

from composites.errors import ExportError, ProgramError
from lowering.emission.types import TensorType
from lowering.export.dimensions import (
    UNKNOWN,
    Dimension,
    is_expression,
    names_in,
    symbolic_shape,
)
from lowering.export.shardings import DeviceMesh, Spec
from lowering.stablehlo import Module, StableHLOError
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.run import function_types
from lowering.stablehlo.symbols import functions

FORMAT = 2
"""The version of manifest.json for programs with fixed sizes."""
DYNAMIC_FORMAT = 3
"""The version for programs whose sizes vary, with `dimensions`, and shapes with their names.
Programs with fixed sizes keep the older format, so that older versions read them."""

NAME = "manifest.json"
TEXT = "program.mlir"
ARTIFACT = "program.mlirbc"
WEIGHTS = "weights.safetensors"
FILES = (TEXT, ARTIFACT, WEIGHTS)
"""The other files of a program's folder."""


def _size(size: Any) -> int | str:
    if is_expression(size) if isinstance(size, str) else type(size) is int and size >= 0:
        return size  # type: ignore[no-any-return]
    raise ValueError(f"{shortened(size)} is not a size, such as 4 or 'batch'")


def _compressed(text: Any) -> Any:
    return binascii.a2b_base64(text, strict_mode=True) if isinstance(text, str) else text


def _mesh(axes: Any) -> DeviceMesh:
    try:
        return DeviceMesh.from_mesh(axes)
    except ExportError as error:
        raise ValueError(str(error).removeprefix("mesh: ")) from error


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output of a program."""

    name: str
    """`param:encoder.0.weight`, `buffer:…`, `cache:layers.0.keys`, `state:….exp_avg`, `arg:0`,
    `kwarg:…`, `rng_seed`; for outputs also `loss`, `grad:…` and `out:…`."""
    shape: tuple[Annotated[int | str, PlainValidator(_size)], ...]
    """Sizes; if dimensions of the program vary, also expressions such as `batch`."""
    dtype: str
    """Element type by StableHLO's name, such as `f32`."""
    updates: str | None = None
    """For an output that is the next value of an input, the name of the input."""
    sharding: Spec | None = None
    """For each dimension, the axes of the program's mesh that it is divided along; None if the
    value has no sharding."""
    kept: Annotated[bytes | None, BeforeValidator(_compressed)] = field(default=None, repr=False)
    """The bytes, in row-major order, of an input that callers may leave out: a buffer that is not
    in the module's `state_dict`, or a constant of an ExportedProgram."""

    @classmethod
    def from_type(cls, name: str, type_: TensorType) -> "Value":
        """A value of a type."""
        return cls(name, symbolic_shape(type_.shape), type_.element_type)

    @property
    def data(self) -> dict[str, Any]:
        """The data of the value in manifest.json."""
        content = asdict(self)
        if self.sharding is None:
            del content["sharding"]
        del content["kept"]
        if self.kept is not None:
            content["kept"] = binascii.b2a_base64(zlib.compress(self.kept), newline=False).decode()
        return content

    @property
    def type(self) -> str:
        """The tensor type as MLIR text, such as `tensor<2x4xf32>`; a size that varies is `?`."""
        sizes = ["?" if isinstance(size, str) else str(size) for size in self.shape]
        return f"tensor<{'x'.join([*sizes, self.dtype])}>"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of a value whose sizes are fixed."""
        sizes = tuple(size for size in self.shape if isinstance(size, int))
        assert len(sizes) == len(self.shape), self
        return sizes


def _with_content(value: Value) -> Value:
    """The value with the decompressed content of `kept`."""
    if value.kept is None:
        return value
    sizes = [size for size in value.shape if isinstance(size, int)]
    try:
        length = math.prod(sizes) * numpy_dtype(value.dtype).itemsize
        content = zlib.decompressobj().decompress(value.kept, length + 1)
    except (ValueError, OverflowError, zlib.error, StableHLOError) as error:
        raise ValueError(f"kept cannot be read: {error}") from error
    if len(content) != length or len(sizes) != len(value.shape):
        raise ValueError(f"kept is not the value of a {value.type}")
    return replace(value, kept=content)


_Written = Annotated[Value, AfterValidator(_with_content)]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of manifest.json."""

    inputs: tuple[_Written, ...]
    outputs: tuple[_Written, ...]
    composites: Mapping[str, int]
    """The number of calls of each composite, by name."""
    sha256: Mapping[str, str]
    """Hashes of the other files by name."""
    mesh: Annotated[DeviceMesh, PlainValidator(_mesh)] | None = None
    """The mesh that shardings refer to. Older versions read the program as one for one device."""
    dimensions: tuple[Dimension, ...] = ()
    """The dimensions whose size varies."""
    keeps_decompositions: bool = False
    """True if decompositions were chosen at the export. Older versions ignore this field."""

    @property
    def text(self) -> str:
        """The content of the file."""
        content: dict[str, Any] = {
            "format": DYNAMIC_FORMAT if self.dimensions else FORMAT,
            "inputs": [value.data for value in self.inputs],
            "outputs": [value.data for value in self.outputs],
            "composites": dict(self.composites),
            "sha256": dict(self.sha256),
        }
        if self.mesh is not None:
            content["mesh"] = dict(self.mesh.axes)
        if self.keeps_decompositions:
            content["keeps_decompositions"] = True
        if self.dimensions:
            content["dimensions"] = [asdict(dimension) for dimension in self.dimensions]
        return json.dumps(content, indent=2) + "\n"


def digest(content: bytes) -> str:
    """The hash of a file's content, in the form of manifest.json."""
    return hashlib.sha256(content).hexdigest()


# ---- reading ----


def parse(content: bytes, source: str) -> Manifest:
    """Read manifest.json.

    Raises:
        ProgramError: the content is not JSON, or not a manifest. The message names `source`.
    """
    try:
        document: Any = TypeAdapter(Any).validate_json(content)
    except ValidationError as error:
        reason = error.errors(include_url=False)[0]["ctx"]["error"]
        raise ProgramError(f"{source} is not JSON: {reason}") from None
    number = document.get("format") if isinstance(document, dict) else None
    if type(number) is not int or number not in (FORMAT, DYNAMIC_FORMAT):  # 2.0 is equal to 2
        raise ProgramError(
            f"{source} has format {shortened(number)}; this version reads {FORMAT} and"
            f" {DYNAMIC_FORMAT}"
        )
    try:
        read = _adapter().validate_json(content, strict=True)
        for index, output in enumerate(document["outputs"]):
            if "updates" not in output:
                raise ValueError(f"outputs[{index}].updates is missing")
        _check_shapes(read)
        if (number == DYNAMIC_FORMAT) != bool(read.dimensions):
            verb = "cannot" if read.dimensions else "must"
            raise ValueError(f"a file of format {number} {verb} have dimensions")
        _check_files(read.sha256)
    except ValidationError as error:
        raise ProgramError(f"{source} is damaged: {_problem(error)}") from None
    except ValueError as error:
        raise ProgramError(f"{source} is damaged: {error}") from error
    return read


@cache
def _adapter() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)


def _problem(error: ValidationError) -> str:
    """The first problem of the file."""
    problem = error.errors(include_url=False)[0]
    # A key of the file may contain control characters for a terminal.
    keys = [p if isinstance(p, int) or p.isprintable() else repr(p) for p in problem["loc"]]
    parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    path = "".join(parts).removeprefix(".")
    if problem["type"] == "missing":
        return f"{path} is missing"
    if problem["type"] == "value_error":
        return f"{path}: {problem['ctx']['error']}"
    return f"{path}: {problem['msg']}, not {shortened(problem['input'])}"


def _check_shapes(read: Manifest) -> None:
    """Check that sizes follow from the dimensions, and that shardings fit the shapes."""
    names = {dimension.name for dimension in read.dimensions}
    for value in (*read.inputs, *read.outputs):
        varies = any(isinstance(size, str) for size in value.shape)
        if names_in(value.shape) - names or (varies and not names):
            raise ValueError(
                f"the shape of {value.name!r} is {shortened(list(value.shape))}, and there is no"
                f" such dimension"
            )
        if value.sharding is None:
            continue
        if read.mesh is None:
            raise ValueError("mesh is missing")
        if varies:
            raise ValueError(f"{value.name} has a sharding, and a size that varies")
        if len(value.sharding) != len(value.shape):
            raise ValueError(f"the sharding of {value.name} has another rank")
        try:
            read.mesh.spec(value.sharding, value.sizes, value.name)
        except ExportError as error:
            raise ValueError(str(error)) from error
    for value in read.inputs:
        if UNKNOWN in value.shape:
            raise ValueError(f"the shape of the input {value.name!r} has a size that is not known")


def _check_files(hashes: Mapping[str, str]) -> None:
    unknown = [name for name in hashes if name not in FILES]
    if unknown:  # a path would lead out of the folder
        raise ValueError(f"sha256 names {shortened(unknown[0])}, which is not a file of a program")
    missing = [name for name in (TEXT, ARTIFACT) if name not in hashes]
    if missing:
        raise ValueError(f"sha256.{missing[0]} is missing")


# ---- comparing with the program ----


def difference(module: Module, inputs: Sequence[Value], outputs: Sequence[Value]) -> str:
    """The differences of inputs and outputs from those of `@main`, at most three; empty if there
    are none.
    """
    return "; ".join(islice(_differences(module, inputs, outputs), 3))


def _differences(
    module: Module, inputs: Sequence[Value], outputs: Sequence[Value]
) -> Iterator[str]:
    main = functions(module.ir).get("main")
    if main is None:
        yield "the program has no function @main"
        return
    for kind, values, types in zip(
        ("input", "output"), (inputs, outputs), function_types(main), strict=True
    ):
        yield from _different_types(kind, values, types)
        names = [value.name for value in values]
        repeated = (name for name, count in Counter(names).items() if count > 1)
        yield from (f"two {kind}s have the name {name!r}" for name in repeated)
    by_name = {value.name: value for value in inputs}
    for value in inputs:
        if value.updates is not None:
            yield f"input {value.name!r} updates {value.updates!r}; only outputs update inputs"
    for value in outputs:
        if value.updates is None:
            continue
        if value.updates not in by_name:
            yield f"output {value.name!r} updates {value.updates!r}, which is not an input"
        elif by_name[value.updates].type != value.type:
            yield (
                f"output {value.name!r} is {value.type}, and updates {value.updates!r}, which is"
                f" {by_name[value.updates].type}"
            )


def _different_types(kind: str, values: Sequence[Value], types: Sequence[str]) -> Iterator[str]:
    if len(values) != len(types):
        yield f"@main has {_count(len(types), kind)}, and {len(values)} are described"
        return
    for index, (value, type_) in enumerate(zip(values, types, strict=True)):
        if value.type != type_:
            yield f"{kind} {index} of @main is {type_}, and {value.name!r} is {value.type!r}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def count_difference(written: Mapping[str, int], counted: Mapping[str, int]) -> str:
    """The differences between counts of composites, at most three; empty if there are none."""
    differing = (
        f"{name!r} is called {_count(counted.get(name, 0), 'time')}, and"
        f" {shortened(written.get(name, 0))} are described"
        for name in sorted({*written, *counted})
        if written.get(name, 0) != counted.get(name, 0)
    )
    return "; ".join(islice(differing, 3))
