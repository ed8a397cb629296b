"""to_custom_call: replace composites with kernels that are registered with XLA's typed FFI.

stablehlo.composite "ptxla.gelu" %0 {composite_attributes = {approximate = "none"}, ..}
=>
stablehlo.custom_call @acme_gelu(%0) {api_version = 4 : i32,
                                      backend_config = {approximate = "none"}}
"""

from collections.abc import Iterable, Mapping
from functools import partial

from ..attributes import to_ffi
from ..bindings import IrAttribute, IrOperation, IrType, attributes, building, dictionary_items, ir
from ..composites import composite_name, composites_of, require
from ..module import Module
from ..options import Option, PassOptions, pairs
from .drop_unused_functions import drop_unused_functions

# The API version that means "typed FFI" (custom_call in the StableHLO specification).
_TYPED_FFI = 4


def to_custom_call(module: Module, targets: Mapping[str, str]) -> Module:
    """Replace composites, by name, with custom calls to FFI targets.

    The composite's attributes go into `backend_config`, in the forms that the FFI decodes (see
    `attributes.to_ffi`). The version is dropped. Operands and results have row-major layout, as
    with `jax.ffi`, because a kernel cannot request a layout.

    A portable artifact turns lists in `backend_config` into `dense<..>`, which the FFI does not
    decode. Keep such a module as text, or run this pass after reading the artifact.

    Raises:
        UnknownCompositeError: the module has no composite of a given name.
        AttributeConversionError: the FFI cannot decode one of the attributes.
    """
    result = module.copy_ir()
    composites = composites_of(result)
    require({composite_name(composite) for composite in composites}, targets)
    for composite in composites:
        target = targets.get(composite_name(composite))
        if target is not None:
            _replace(composite, target)
    return drop_unused_functions(Module(result))


def _replace(composite: IrOperation, target: str) -> None:
    kinds, name = ir(), composite_name(composite)
    given = dictionary_items(attributes(composite).get("composite_attributes"))
    with building(composite.context):
        config = {key: to_ffi(value, f"{name}: {key}") for key, value in given.items()}
        call = kinds.Operation.create(
            "stablehlo.custom_call",
            results=[value.type for value in composite.results],
            operands=list(composite.operands),
            attributes={
                "call_target_name": kinds.StringAttr.get(target),
                "api_version": kinds.IntegerAttr.get(
                    kinds.IntegerType.get_signless(32), _TYPED_FFI
                ),
                "backend_config": kinds.DictAttr.get(config),
                "operand_layouts": _row_major(value.type for value in composite.operands),
                "result_layouts": _row_major(value.type for value in composite.results),
            },
            ip=kinds.InsertionPoint(composite),
        )
    for old, new in zip(composite.results, call.results, strict=True):
        old.replace_all_uses_with(new)
    composite.erase()


def _row_major(types: Iterable[IrType]) -> IrAttribute:
    """One layout for each type, with dimensions from the fastest-varying to the slowest."""
    return ir().ArrayAttr.get([_row_major_layout(len(type_.shape)) for type_ in types])


def _row_major_layout(rank: int) -> IrAttribute:
    order = ", ".join(str(axis) for axis in reversed(range(rank)))
    return ir().Attribute.parse(f"dense<[{order}]> : tensor<{rank}xindex>")


OPTIONS = PassOptions(
    (
        Option(
            "--custom-call",
            "Turn this composite into a typed-FFI custom call.",
            metavar="NAME=TARGET",
        ),
    ),
    lambda given: [partial(to_custom_call, targets=pairs("--custom-call", given))],
)
