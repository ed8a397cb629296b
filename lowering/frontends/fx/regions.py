"""The functions that operators of control flow take, as separate graphs.

A function may read tensors of the program that are not its operands; a branch that calls a layer,
for example, reads the layer's parameters. These tensors become placeholders of its graph.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from composites import torch_internals
from composites.torch_internals import TreeSpec, pytree
from lowering.frontends.errors import ControlFlowError
from lowering.frontends.fx import capture
from lowering.frontends.fx.autocast import autocast, autocast_dtype
from lowering.frontends.fx.capture import TracedTensor


@dataclass(frozen=True, slots=True, eq=False)
class Subgraph:
    """The graph of a function, as an argument of a node of the enclosing region."""

    inputs: tuple[torch.fx.Node, ...]
    lifted: Mapping[torch.fx.Node, torch.fx.Node]
    """Further placeholders, by the nodes of the enclosing region that they represent."""
    nodes: tuple[torch.fx.Node, ...]
    """The nodes from which the results are computed, in the order of recording."""
    results: tuple[torch.fx.Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedFunction:
    """A recorded function."""

    body: Subgraph
    results: tuple[torch.Tensor, ...]
    """The results as tensors on the device `meta`."""
    structure: TreeSpec
    """The structure of the function's results, including results that are None."""
    present: tuple[bool, ...]
    """For each leaf of the structure, True if it is a tensor and not None."""
    read: tuple[torch.Tensor, ...]
    """The tensors of the user's program, from enclosing regions, that the function reads."""

    def nested(self, tensors: Iterable[torch.Tensor]) -> Any:
        """Tensors in the structure of the results."""
        rest = iter(tensors)
        leaves = [next(rest) if present else None for present in self.present]
        return pytree.tree_unflatten(leaves, self.structure)


def record(
    function: Callable[..., Any],
    operands: Sequence[torch.Tensor],
    operator: str,
    *,
    described: Sequence[torch.Tensor] | None = None,
) -> RecordedFunction:
    """Record a function of tensors.

    Args:
        operands: the tensors that the function is called with.
        operator: the operator that takes the function, for messages.
        described: the function's arguments on the device `meta`, if they differ from the operands;
            their order in memory is unknown.

    Raises:
        ControlFlowError: the function writes to a tensor that it did not make, or returns something
            other than tensors.
    """
    enclosing = [capture.traced(operand) for operand in operands] if described is None else []
    with capture.region(operator) as region:
        inputs = [_input(tensor.described, tensor.node) for tensor in enclosing]
        inputs += [_input(tensor, None) for tensor in described or []]
        lent = [_lent(*pair) for pair in zip(inputs, operands, strict=True)]
        closure = _Closure()
        with (
            autocast(autocast_dtype()),
            torch.no_grad(),
            closure,
            torch_internals.functions_applied_to(in_region),
        ):
            returned = function(*lent)
        every, structure = pytree.tree_flatten(returned)
        leaves = [leaf for leaf in every if leaf is not None]
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                raise ControlFlowError(
                    f"a function that {operator} takes returns {leaf!r}; return tensors only"
                )
        before = [*zip(lent, inputs, strict=True), *closure.lent]
        if any(capture.traced(tensor).node is not inner.node for tensor, inner in before):
            raise ControlFlowError(
                f"a function that {operator} takes writes to a tensor that it did not make;"
                " compute a new tensor, such as x * 2 instead of x.mul_(2), and return it"
            )
        results = [capture.lifted(capture.traced(closure.replacement(leaf))) for leaf in leaves]
        placeholders = {tensor.node for tensor in [*inputs, *region.lifted.values()]}
        nodes = reached_nodes([result.node for result in results], placeholders)
        read = placeholders.intersection(nodes)
    body = Subgraph(
        inputs=tuple(tensor.node for tensor in inputs),
        lifted={o: inner.node for o, inner in region.lifted.items() if inner.node in read},
        nodes=tuple(node for node in nodes if node not in placeholders),
        results=tuple(result.node for result in results),
    )
    return RecordedFunction(
        body,
        results=tuple(result.described for result in results),
        structure=structure,
        present=tuple(leaf is not None for leaf in every),
        read=tuple(closure.read),
    )


def reached_nodes(
    outputs: Sequence[torch.fx.Node], inputs: Container[torch.fx.Node]
) -> list[torch.fx.Node]:
    """The nodes from which outputs are computed, in the order of recording, including inputs."""
    nodes: set[torch.fx.Node] = set()
    pending = list(outputs)
    while pending:
        node = pending.pop()
        if node not in nodes:
            nodes.add(node)
            if node not in inputs:
                pending.extend(node.all_input_nodes)
    return sorted(nodes)


def in_region(tensor: torch.Tensor) -> torch.Tensor:
    """The replacement of a tensor in the current region, or the tensor itself.

    PyTorch leaves the modes of a region while it calls an operator that takes functions.
    """
    graph = capture.current_region().graph
    for mode in reversed(_MODES):
        if mode.graph is graph:
            tensor = mode.replacement(tensor)
    return tensor


class Replacing(TorchFunctionMode):
    """A context in which tensors are replaced in calls of the current region."""

    def __init__(self, replaced: Mapping[int, torch.Tensor]) -> None:
        super().__init__()
        self.graph = capture.current_region().graph
        self.replaced = dict(replaced)
        """The replacements, by the `id` of the tensors that they replace."""

    def __enter__(self) -> "Replacing":
        super().__enter__()  # type: ignore[no-untyped-call]
        _MODES.append(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        _MODES.pop()
        super().__exit__(*exception)  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        args, kwargs = pytree.tree_map_only(torch.Tensor, self.replacement, (args, kwargs or {}))
        return func(*args, **kwargs)

    def replacement(self, tensor: torch.Tensor) -> torch.Tensor:
        """The replacement of a tensor in calls, or the tensor itself."""
        return self.replaced.get(id(tensor), tensor)


_MODES: list[Replacing] = []
"""The modes of all regions. All threads share them, as they share the graphs."""


class _Closure(Replacing):
    """A context in which placeholders replace tensors of enclosing regions for a function that is
    recorded."""

    def __init__(self) -> None:
        super().__init__({})
        self.read: list[torch.Tensor] = []
        """The tensors of enclosing regions that were replaced."""
        self.lent: list[tuple[torch.Tensor, TracedTensor]] = []
        """The tensors that replace them for the function, and the placeholders."""

    def replacement(self, tensor: torch.Tensor) -> torch.Tensor:
        graph = capture.computed_in(tensor)
        if graph is None or graph is self.graph:
            return tensor
        if id(tensor) not in self.replaced:
            inner = capture.lifted(capture.traced(tensor))
            self.read.append(tensor)
            self.replaced[id(tensor)] = _lent(inner, tensor)
            self.lent.append((self.replaced[id(tensor)], inner))
        return self.replaced[id(tensor)]


def _input(described: torch.Tensor, enclosing: torch.fx.Node | None) -> TracedTensor:
    made = capture.placeholder(described)
    if enclosing is None:
        made.node.meta[capture.REORDERED] = True
    else:
        made.node.meta[capture.ENCLOSING] = enclosing
    return made


def _lent(inner: TracedTensor, like: torch.Tensor) -> torch.Tensor:
    """A placeholder as a tensor for the user's function: a leaf, if `like` requires a gradient."""
    lent = torch_internals.functional(TracedTensor(inner.described, inner.node))
    with torch_internals.untransformed():
        return lent.requires_grad_(like.requires_grad)
