"""manifest.json: the inputs and outputs of a program, checked against its `@main`."""

import binascii
import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from reprlib import repr as shortened
from typing import Any

from composites.errors import ExportError, ProgramError
from lowering.export.dimensions import UNKNOWN, Dimension, Shape, is_expression, names_in
from lowering.export.shardings import DeviceMesh, Spec
from lowering.stablehlo import Module, StableHLOError
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.run import function_types
from lowering.stablehlo.symbols import functions

FORMAT = 2
"""Version of manifest.json where all sizes are fixed. Format 1 has no `sha256`."""
DYNAMIC_FORMAT = 3
"""Version where sizes vary. It also has `dimensions`, and shapes with their names. Programs whose
sizes are fixed keep the older format, so that older versions read them."""

NAME = "manifest.json"
TEXT = "program.mlir"
ARTIFACT = "program.mlirbc"
WEIGHTS = "weights.safetensors"
FILES = (TEXT, ARTIFACT, WEIGHTS)
"""The other files of a program's folder."""


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output of a program."""

    name: str
    """`param:encoder.0.weight`, `buffer:…`, `cache:layers.0.keys`, `state:….exp_avg`, `arg:0`,
    `kwarg:…`, `rng_seed`; of outputs also `loss`, `grad:…` and `out:…`."""
    shape: Shape
    """Sizes; of a program with dimensions that vary, also expressions such as `batch`."""
    dtype: str
    """Element type as StableHLO names it, such as `f32`."""
    updates: str | None = None
    """For an output: the input whose next value it is."""
    sharding: Spec | None = None
    """For each dimension the axes of the program's mesh that it is divided along; None if nothing
    is said about it."""
    kept: bytes | None = field(default=None, repr=False)
    """For an input that nobody has to give: the bytes of its value, in the order of rows. These are
    buffers that the module's `state_dict` leaves out, and constants of an ExportedProgram."""

    @property
    def data(self) -> dict[str, Any]:
        """The data of the value in manifest.json."""
        said = asdict(self)
        if self.sharding is None:
            del said["sharding"]
        del said["kept"]
        if self.kept is not None:
            said["kept"] = binascii.b2a_base64(zlib.compress(self.kept), newline=False).decode()
        return said

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


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of manifest.json."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    composites: Mapping[str, int]
    """The number of calls of each composite, by name."""
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Hashes of the other files by name; empty for format 1."""
    mesh: DeviceMesh | None = None
    """The mesh that shardings refer to. Older versions read such a program as one for a device."""
    dimensions: tuple[Dimension, ...] = ()
    """The dimensions whose size varies."""
    keeps_decompositions: bool = False
    """True if decompositions were chosen at the export. Older versions do not read this."""

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
    """The hash of a file's content, as manifest.json has it."""
    return hashlib.sha256(content).hexdigest()


# ---- reading ----


def parse(content: bytes, source: str) -> Manifest:
    """Read manifest.json.

    Raises:
        ProgramError: it is not JSON, or not a manifest. The message names `source`.
    """
    try:
        document = json.loads(content.decode())
    except RecursionError as error:
        raise ProgramError(f"{source} is not a manifest: it is nested too deeply") from error
    except ValueError as error:
        raise ProgramError(f"{source} is not JSON: {error}") from error
    number = document.get("format") if isinstance(document, dict) else None
    if type(number) is not int or number not in (1, FORMAT, DYNAMIC_FORMAT):  # True is equal to 1
        raise ProgramError(f"{source} has format {shortened(number)}; this version reads 1 to 3")
    try:
        inputs, outputs = (_values(document, key) for key in ("inputs", "outputs"))
        counts = _typed(document, "composites", dict)
        for name in counts:
            _typed(counts, name, int, "composites.")
        if number == 1:
            return Manifest(inputs, _with_possible_updates(inputs, outputs), counts)
        mesh = _mesh(document, [*inputs, *outputs])
        dimensions = _dimensions(document) if number == DYNAMIC_FORMAT else ()
        _check_names({dimension.name for dimension in dimensions}, [*inputs, *outputs])
        open_input = next((value.name for value in inputs if UNKNOWN in value.shape), None)
        if open_input is not None:
            raise ValueError(f"the shape of the input {open_input!r} has a size that is not known")
        keeps = "keeps_decompositions" in document and _typed(
            document, "keeps_decompositions", bool
        )
        return Manifest(inputs, outputs, counts, _hashes(document), mesh, dimensions, keeps)
    except ValueError as error:
        raise ProgramError(f"{source} is damaged: {error}") from error


def _values(document: Mapping[str, Any], key: str) -> tuple[Value, ...]:
    items = _typed(document, key, list)
    return tuple(_value(item, f"{key}[{index}]") for index, item in enumerate(items))


def _value(item: Any, place: str) -> Value:
    if not isinstance(item, dict):
        raise ValueError(f"{place} must be an object, not {shortened(item)}")
    shape = _typed(item, "shape", list, f"{place}.")
    if not all(_is_size(size) for size in shape):
        raise ValueError(f"{place}.shape must be a list of sizes, not {shortened(shape)}")
    updates = None if item.get("updates", "") is None else _typed(item, "updates", str, f"{place}.")
    name, dtype = (_typed(item, key, str, f"{place}.") for key in ("name", "dtype"))
    value = Value(name, tuple(shape), dtype, updates)
    if "kept" in item:
        text = _typed(item, "kept", str, f"{place}.")
        value = replace(value, kept=_kept(value, text, f"{place}.kept"))
    sharding = item.get("sharding")
    if sharding is None:
        return value
    axes = sharding if isinstance(sharding, list) else [None]
    if not all(isinstance(a, list) and all(isinstance(n, str) for n in a) for a in axes):
        raise ValueError(f"{place}.sharding must be a list of lists of axes")
    return replace(value, sharding=tuple(map(tuple, axes)))


def _kept(value: Value, text: str, place: str) -> bytes:
    """The bytes of an input's value, of which manifest.json has the text."""
    sizes = [size for size in value.shape if isinstance(size, int)]
    try:
        length = math.prod(sizes) * numpy_dtype(value.dtype).itemsize
        compressed = binascii.a2b_base64(text, strict_mode=True)
        content = zlib.decompressobj().decompress(compressed, length + 1)
    except (ValueError, OverflowError, zlib.error, StableHLOError) as error:
        raise ValueError(f"{place} cannot be read: {error}") from error
    if len(content) != length or len(sizes) != len(value.shape):
        raise ValueError(f"{place} is not the value of a {value.type}")
    return content


def _is_size(size: Any) -> bool:
    return is_expression(size) if isinstance(size, str) else type(size) is int and size >= 0


def _dimensions(document: Mapping[str, Any]) -> tuple[Dimension, ...]:
    items = _typed(document, "dimensions", list)
    return tuple(_dimension(item, f"dimensions[{number}]") for number, item in enumerate(items))


def _dimension(item: Any, place: str) -> Dimension:
    if not isinstance(item, dict):
        raise ValueError(f"{place} must be an object, not {shortened(item)}")
    name = _typed(item, "name", str, f"{place}.")
    if not name.isidentifier():
        raise ValueError(f"{place}.name must be a name, not {shortened(name)}")
    least = _typed(item, "min", int, f"{place}.")
    most = None if item.get("max", "") is None else _typed(item, "max", int, f"{place}.")
    if least < 1 or (most is not None and most < least):
        raise ValueError(f"{place} has no sizes: min {least}, max {most}")
    return Dimension(name, least, most)


def _check_names(known: Collection[str], values: Sequence[Value]) -> None:
    for value in values:
        unknown = names_in(value.shape) - set(known)
        varies = any(isinstance(size, str) for size in value.shape)
        if unknown or (varies and not known):
            raise ValueError(
                f"the shape of {value.name!r} is {shortened(list(value.shape))}, and there is no"
                f" such dimension"
            )


def _mesh(document: Mapping[str, Any], values: Sequence[Value]) -> DeviceMesh | None:
    """The mesh, which the shardings of all values fit."""
    sharded = [value for value in values if value.sharding is not None]
    if "mesh" not in document and not sharded:
        return None
    axes = _typed(document, "mesh", dict)
    try:
        mesh = DeviceMesh.from_mesh(axes)
        for value in sharded:
            assert value.sharding is not None
            if len(value.sharding) != len(value.shape):
                raise ValueError(f"the sharding of {value.name} has another rank")
            mesh.spec(value.sharding, value.sizes, value.name)
    except ExportError as error:
        raise ValueError(str(error)) from error
    return mesh


def _hashes(document: Mapping[str, Any]) -> dict[str, str]:
    hashes = _typed(document, "sha256", dict)
    for name in hashes:
        _typed(hashes, name, str, "sha256.")
    unknown = [name for name in hashes if name not in FILES]
    if unknown:  # a path would lead out of the folder
        raise ValueError(f"sha256 names {shortened(unknown[0])}, which is not a file of a program")
    missing = [name for name in (TEXT, ARTIFACT) if name not in hashes]
    if missing:
        raise ValueError(f"sha256.{missing[0]} is missing")
    return dict(hashes)


_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "an integer",
    bool: "true or false",
}


def _typed(item: Mapping[str, Any], key: str, kind: type, place: str = "") -> Any:
    """The value of a key, which must be of this type."""
    # JSON can name what cannot be printed, such as half of a surrogate pair.
    label = place + (key if key.isprintable() else repr(key))
    if key not in item:
        raise ValueError(f"{label} is missing")
    if type(item[key]) is not kind:
        raise ValueError(f"{label} must be {_KINDS[kind]}, not {shortened(item[key])}")
    return item[key]


def _with_possible_updates(inputs: Sequence[Value], outputs: Sequence[Value]) -> tuple[Value, ...]:
    """Outputs of a format-1 program. It wrote `updates` also where the module writes to a tensor
    that it does not read, so that there is no such input, and where the type changes."""
    possible = {(value.name, value.type) for value in inputs}
    return tuple(
        replace(value, updates=None)
        if value.updates == value.name and (value.updates, value.type) not in possible
        else value
        for value in outputs
    )


# ---- comparing with the program ----


def difference(module: Module, inputs: Sequence[Value], outputs: Sequence[Value]) -> str:
    """The difference of inputs and outputs from those of `@main`; empty where there is none.

    It names at most three differences.
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
    """The difference between counts of composites; empty where there is none."""
    differing = (
        f"{name!r} is called {_count(counted.get(name, 0), 'time')}, and"
        f" {shortened(written.get(name, 0))} are described"
        for name in sorted({*written, *counted})
        if written.get(name, 0) != counted.get(name, 0)
    )
    return "; ".join(islice(differing, 3))
