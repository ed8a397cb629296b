"""generalize: one program for all sizes, from recordings of it at several sizes.

    batch=5: %1 = stablehlo.reshape %0 : (tensor<5x11x4xf32>) -> tensor<55x4xf32>
    batch=7: %1 = stablehlo.reshape %0 : (tensor<7x11x4xf32>) -> tensor<77x4xf32>
        =>
    %1 = stablehlo.get_dimension_size %0, dim = 0 : (tensor<?x11x4xf32>) -> tensor<i32>
    ...
    %4 = stablehlo.dynamic_reshape %0, %3 : (tensor<?x11x4xf32>, tensor<2xi32>) -> tensor<?x4xf32>

Each function reads its sizes from its own arguments, so that composites keep their operands and
attributes, and a kernel still knows all that it knows at a fixed size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from .. import bindings
from ..bindings import IrOperation, building, ir
from ..composites import composite_name
from ..errors import DynamicSizeError
from ..module import Module
from ..passes.drop_unused_functions import drop_unused_functions
from ..symbols import CALL, COMPOSITE, Namer, functions, rename
from .alignment import Aligned, AlignedFunction, align, called, dimensions
from .constants import ConstantMaker
from .expressions import Values, find_sum, text
from .operations import Rewrite, dynamic_form
from .size_values import SizeValues, dynamic_type, is_dynamic

_MOVED = ("stablehlo.broadcast_in_dim", "stablehlo.iota")

Shape: TypeAlias = tuple[int | str, ...]
"""Sizes of a tensor: numbers, and expressions of symbols such as `batch*seq`. A `?` is a size that
is no such expression, such as that of a strided window."""


@dataclass(frozen=True)
class Recording:
    """A program at one size of each symbol."""

    module: Module
    sizes: Mapping[str, int]

    def __str__(self) -> str:
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


@dataclass(frozen=True)
class Generalized:
    """A program for all sizes."""

    module: Module
    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]


def generalize(recordings: Sequence[Recording]) -> Generalized:
    """One program that gives all recordings.

    Args:
        recordings: at least three sizes of each symbol; the last ones check what the others show.

    Raises:
        DynamicSizeError: they are different programs, or a size does not follow from the sizes of
            the arguments.
    """
    modules = [recording.module for recording in recordings]
    return _Generalization(modules, recordings).run()


@dataclass
class _Generalization:
    modules: Sequence[Module]
    recordings: Sequence[Recording]
    names: dict[tuple[str, ...], str] = field(default_factory=dict)
    """The function for functions of the recordings."""
    replaced: list[IrOperation] = field(default_factory=list)
    """Operations to remove at the end: addresses of removed ones would be used again."""

    def run(self) -> Generalized:
        module = self.modules[0].copy_ir()
        self.by_name = [functions(module), *(functions(m.ir) for m in self.modules[1:])]
        self.originals = functions(module)
        self.fresh = Namer(self.originals)
        self.module = module
        mains = tuple(found["main"] for found in self.by_name)
        main = align(mains, list(map(str, self.recordings)))
        inputs = [dimensions(values) for values in main.arguments[: _argument_count(main)]]
        outputs = main.operations[-1].operands
        self._check_inputs(inputs)
        self._function(main)
        for operation in reversed(self.replaced):
            operation.erase()
        bindings.run_pipeline(module, "builtin.module(func.func(cse))")
        result = drop_unused_functions(Module(module))
        result.verify()
        return Generalized(
            result, tuple(map(self._shape, inputs)), tuple(map(self._shape, outputs))
        )

    def _check_inputs(self, inputs: Sequence[Sequence[Values]]) -> None:
        for symbol, values in self._symbols.items():
            if not any(values in shape for shape in inputs):
                raise DynamicSizeError(
                    f"the program reads no argument with the dimension {symbol}, so it cannot know"
                    " its size; keep it fixed"
                )

    @property
    def _symbols(self) -> dict[str, Values]:
        names = self.recordings[0].sizes
        return {name: tuple(r.sizes[name] for r in self.recordings) for name in names}

    def _shape(self, sizes: Sequence[Values]) -> Shape:
        symbols = self._symbols

        def written(values: Values) -> int | str:
            if not is_dynamic(values):
                return values[0]
            found = find_sum(values, list(symbols.values()))
            return "?" if found is None else text(found, list(symbols))

        return tuple(map(written, sizes))

    def _function(self, function: AlignedFunction) -> None:
        """Rewrite a function in the first recording."""
        first, sizes = function.functions[0], SizeValues()
        with building(self.module.context):
            for number, values in enumerate(function.arguments):
                shape = dimensions(values)
                if any(map(is_dynamic, shape)):
                    values[0].set_type(dynamic_type(shape, values[0].type.element_type))
                if number < _argument_count(function):
                    sizes.add(values[0], shape)
            for item in _in_order(function.operations, sizes):
                self._operation(item, sizes)
            _update_type(first)

    def _operation(self, item: Aligned, sizes: SizeValues) -> None:
        maker = ConstantMaker(sizes, item.outermost)
        for position, constants in item.constants.items():
            value = maker.value(constants)
            if value is not None:
                item.first.operands[position] = value
        if item.name in (COMPOSITE, CALL):
            self._refer(item)
        value = dynamic_form(Rewrite(item, sizes))
        if value is not None:
            item.first.results[0].replace_all_uses_with(value)
            self.replaced.append(item.first)
            results = [value]
        else:
            results = list(item.first.results)
            for result, shape in zip(results, item.results, strict=True):
                if any(map(is_dynamic, shape)):
                    result.set_type(dynamic_type(shape, result.type.element_type))
                    if "xla_shape" in item.first.attributes:
                        del item.first.attributes["xla_shape"]
        if item.is_outermost:
            for result, shape in zip(results, item.results, strict=True):
                sizes.add(result, shape)

    def _refer(self, item: Aligned) -> None:
        """Point a composite or a call at the function for all sizes."""
        names = tuple(called(item))
        if names not in self.names:
            self.names[names] = self._general(names, item)
        key = "decomposition" if item.name == COMPOSITE else "callee"
        item.first.attributes[key] = ir().FlatSymbolRefAttr.get(self.names[names])

    def _general(self, names: tuple[str, ...], item: Aligned) -> str:
        """A function for functions of the recordings, under a new name."""
        found = [known[name] for known, name in zip(self.by_name, names, strict=True)]
        copy = found[0].clone(ip=False)
        name = self.fresh(names[0])
        rename(copy, name)
        self.module.body.append(copy)
        try:
            aligned = align((copy, *found[1:]), list(map(str, self.recordings)))
            self._function(aligned)
        except DynamicSizeError as error:
            if item.name != COMPOSITE or error.composite is not None:
                raise  # it names the innermost composite already
            label = composite_name(item.first)
            raise DynamicSizeError(f"composite {label}: {error}", label) from error
        return name


def _in_order(operations: Sequence[Aligned], sizes: SizeValues) -> list[Aligned]:
    """The operations in an order in which sizes are known where they are needed.

    A bias is broadcast to the result of a convolution before the convolution, whose result has the
    size. Such an operation is moved to the first one that reads it.
    """
    order = list(operations)
    for item in reversed(operations):
        unknown = item.is_outermost and any(
            is_dynamic(values) and sizes.find(values) is None
            for shape in item.results
            for values in shape
        )
        early = not any(any(map(is_dynamic, shape)) for shape in item.operands)
        if not (unknown and early and item.name in _MOVED):
            continue
        readers = [use.owner.operation for use in item.first.results[0].uses]
        first = next((other for other in order if other.first in readers), None)
        if first is not None:
            item.first.move_before(first.outermost)
            order.remove(item)
            outermost = (n for n, other in enumerate(order) if other.first == first.outermost)
            order.insert(next(outermost), item)
    return order


def _argument_count(function: AlignedFunction) -> int:
    """How many arguments a function has itself. Those of blocks in it come after them."""
    return len(function.functions[0].attributes["function_type"].value.inputs)


def _update_type(function: IrOperation) -> None:
    """Write the type of a function that follows from its arguments and what it returns."""
    block = function.regions[0].blocks[0]
    *_, last = block.operations
    type_ = ir().FunctionType.get(
        [argument.type for argument in block.arguments],
        [value.type for value in last.operation.operands],
    )
    function.attributes["function_type"] = ir().TypeAttr.get(type_)
