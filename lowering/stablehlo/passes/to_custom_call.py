"""to_custom_call: replace composites with kernels that are registered with XLA's typed FFI.

stablehlo.composite "ptxla.gelu" %0 {composite_attributes = {approximate = "none"}, ..}
=>
stablehlo.custom_call @acme_gelu(%0) {api_version = 4 : i32,
                                      backend_config = {approximate = "none"}}
"""

from collections.abc import Collection, Iterable, Mapping

from ..attributes import to_ffi
from ..bindings import attributes, building, dictionary_items, ir
from ..candidates import Candidate, named_candidates
from ..composites import Signature, composite_name, find_composites, signature
from ..errors import StableHLOError
from ..insertion import replace_operation
from ..ir_types import IrAttribute, IrOperation, IrType
from ..module import Module
from ..symbols import CUSTOM_CALL
from .decompositions import drop_unused_functions

# The API version that means "typed FFI" (custom_call in the StableHLO specification).
_TYPED_FFI = 4


def to_custom_call(
    module: Module,
    targets: Mapping[str, str],
    *,
    ignored: Mapping[str, Collection[str]] | None = None,
) -> Module:
    """Replace composites with custom calls to FFI targets.

    The composite's attributes go into `backend_config`, in the forms that the FFI decodes (see
    `attributes.to_ffi`). The version is dropped. Operands and results have row-major layout, as
    with `jax.ffi`, because a kernel cannot request a layout.

    A portable artifact turns lists in `backend_config` into `dense<..>`, which the FFI does not
    decode. Keep such a module as text, or run this pass after reading the artifact.

    Args:
        module: the module to start from.
        targets: an FFI target for each composite, by name (`acme.gelu`) or by name and version
            (`acme.gelu@2`).
        ignored: attributes that the kernel ignores, by composite. They are left out.

    Raises:
        UnknownCompositeError: the module has no composite of a name.
        CompositeVersionError: the module has another version of the composite.
        AttributeConversionError: the FFI cannot decode an attribute.
        StableHLOError: a target is not a string, is empty, or contains blanks.
    """
    for name, target in targets.items():
        if not isinstance(target, str):
            raise StableHLOError(f"{name}: {target!r} is not an FFI target; `bind` takes functions")
    return replace_calls(module, named_candidates(module.ir, targets, ignored))


def replace_calls(module: Module, candidates: Mapping[Signature, Candidate]) -> Module:
    """`to_custom_call` with a target for each call. Candidates that are functions are left out."""
    result = module.copy_ir()
    for composite in find_composites(result):
        candidate = candidates.get(signature(composite))
        if candidate is not None and isinstance(candidate.kernel, str):
            _replace(composite, candidate.kernel, candidate.ignored)
    return drop_unused_functions(Module(result))


def _replace(composite: IrOperation, target: str, left_out: Collection[str]) -> None:
    kinds, name = ir(), composite_name(composite)
    if target.split() != [target]:  # registry files refuse such names too
        raise StableHLOError(
            f"{name}: {target!r} is not an FFI target; write a name without blanks, such as"
            " acme_gelu"
        )
    attached = dictionary_items(attributes(composite).get("composite_attributes"))
    remaining = {key: value for key, value in attached.items() if key not in left_out}
    with building(composite.context):
        config = {key: to_ffi(value, f"{name}: {key}") for key, value in remaining.items()}
        written = {
            "call_target_name": kinds.StringAttr.get(target),
            "api_version": kinds.IntegerAttr.get(kinds.IntegerType.get_signless(32), _TYPED_FFI),
            "backend_config": kinds.DictAttr.get(config),
            "operand_layouts": _row_major(value.type for value in composite.operands),
            "result_layouts": _row_major(value.type for value in composite.results),
        }
    replace_operation(composite, CUSTOM_CALL, written)


def _row_major(types: Iterable[IrType]) -> IrAttribute:
    """One layout for each type, with dimensions from the fastest-varying to the slowest-varying."""
    ranks = [len(type_.shape) for type_ in types]
    layouts = (f"dense<{[*reversed(range(rank))]}> : tensor<{rank}xindex>" for rank in ranks)
    return ir().ArrayAttr.get([*map(ir().Attribute.parse, layouts)])
