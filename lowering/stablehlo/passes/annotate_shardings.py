"""annotate_shardings: annotate the inputs and results of `@main` with their shardings.

func.func @main(%arg0: tensor<16x8xf32> {mhlo.sharding = "{devices=[4,1]<=[4]}"})    (GSPMD)
func.func @main(%arg0: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) (Shardy)

Marks on other values are operations: `stablehlo.custom_call @Sharding` of GSPMD and
`sdy.sharding_constraint` of Shardy. The pass turns them into marks of the chosen partitioner.
"""

from collections.abc import Callable, Iterator, Sequence

from ..bindings import attributes, building, dictionary_items, find_operations, ir
from ..errors import UnsupportedOperationError
from ..in_place import in_place
from ..insertion import replace_operation
from ..ir_types import IrAttribute, IrModule, IrOperation
from ..run import function_types
from ..symbols import functions

GSPMD, SHARDY = "mhlo.sharding", "sdy.sharding"
MESH = "mesh"
"""The name of Shardy's mesh."""
_MESH_OPERATION = "sdy.mesh"
_CUSTOM_CALL, _CONSTRAINT = "stablehlo.custom_call", "sdy.sharding_constraint"
_MARK = "Sharding"


@in_place
def annotate_shardings(
    module: IrModule,
    *,
    inputs: Sequence[str | None],
    results: Sequence[str | None],
    mesh: str | None = None,
    inside: Callable[[str, int], str] | None = None,
) -> None:
    """Annotate the arguments and results of `@main`. Existing annotations are replaced.

    Args:
        inputs: for each argument, its sharding in the partitioner's text, or None.
        results: for each result, its sharding in the partitioner's text, or None.
        mesh: Shardy's mesh, whose name is `@mesh`. With a mesh the texts are Shardy's, without one
            GSPMD's.
        inside: maps the text of a mark of either partitioner, and the rank of its value, to the
            chosen partitioner's text; None keeps the marks.

    Raises:
        UnsupportedOperationError: `@main` does not exist, or has other arguments or results.
    """
    main = functions(module).get("main")
    if main is None:
        raise UnsupportedOperationError("the module has no function @main")
    for kind, key, texts, types in zip(
        ("inputs", "results"),
        ("arg_attrs", "res_attrs"),
        (inputs, results),
        function_types(main),
        strict=True,
    ):
        if len(texts) != len(types):
            raise UnsupportedOperationError(
                f"@main has {len(types)} {kind}, and {len(texts)} shardings are given"
            )
        with building(module.context):
            kinds = ir()
            annotated = []
            for old, text in zip(
                attributes(main).get(key) or [None] * len(types), texts, strict=True
            ):
                entries = dictionary_items(old)
                remaining = {n: entries[n] for n in entries if n not in (GSPMD, SHARDY)}
                if text is not None:
                    remaining[GSPMD if mesh is None else SHARDY] = _attribute(text, mesh)
                annotated.append(kinds.DictAttr.get(remaining))
            main.attributes[key] = kinds.ArrayAttr.get(annotated)
    if inside is not None:
        for mark, text in list(marks(module)):
            _mark(mark, inside(text, mark.operands[0].type.rank), mesh)
    for old in find_operations(module.operation, _MESH_OPERATION):
        old.erase()
    if mesh is not None:
        with building(module.context):
            kinds.Operation.create(
                _MESH_OPERATION,
                attributes={
                    "sym_name": kinds.StringAttr.get(MESH),
                    "mesh": kinds.Attribute.parse(mesh),
                },
                ip=kinds.InsertionPoint.at_block_begin(module.body),
            )


def marks(module: IrModule) -> Iterator[tuple[IrOperation, str]]:
    """The marks on values inside functions, with their texts."""
    for operation in find_operations(module.operation, _CUSTOM_CALL, _CONSTRAINT):
        named = attributes(operation)
        if operation.name == _CONSTRAINT:
            yield operation, str(named["sharding"])
        elif named["call_target_name"].value == _MARK and GSPMD in named:
            yield operation, named[GSPMD].value


def _mark(old: IrOperation, text: str, mesh: str | None) -> None:
    """Replace a mark by a mark of the chosen partitioner."""
    with building(old.context):
        sharding = _attribute(text, mesh)
        if mesh is None:
            name = _CUSTOM_CALL
            written = {GSPMD: sharding, "call_target_name": ir().StringAttr.get(_MARK)}
        else:
            name, written = _CONSTRAINT, {"sharding": sharding}
    replace_operation(old, name, written, [old.operands[0]])


def _attribute(text: str, mesh: str | None) -> IrAttribute:
    """A sharding, in the form of Shardy if there is a mesh."""
    return ir().StringAttr.get(text) if mesh is None else ir().Attribute.parse(text)
