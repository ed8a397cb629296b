"""The callees of a step: Python functions, with the arguments of their first calls, and operators.

Functions of user code and of libraries are kept, and functions of `torch.nn` and `torch.optim`, but
no other functions of torch. Descriptions of arguments hold no tensors. If the result of a step is
not a loss, a loss is made from it, and the calls of that are not part of the model.
"""

import ast
import inspect
import sys
import textwrap
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch

from composites import torch_internals
from composites.element_types import NAME_OF_PYTORCH
from composites.errors import SuggestionError
from composites.python_syntax import parse_module
from composites.registry.model import Tensor

LOSS = "the sum of what the module returns"
"""The name of the function that makes a loss, which is not part of the model."""
_NUMBERS = frozenset({bool, int, float})
_OF_TORCH = ("torch.nn.functional", "torch.optim.")
_MODULES = "torch.nn.modules."
_SKIPPED = ("torch", "torch_xla", "typing_extensions", "functorch", "composites", "lowering")
_NEED_ADAPT = "write an entry with `adapt`"
_BESIDE_PRODUCT = 8
"""Instructions for each product below which a function is mostly its products."""
_TENSORS = 8
"""The number of operands and results that halves a function's rank."""


@dataclass(frozen=True, slots=True)
class Other:
    """A value that a registry file cannot have, such as a module or a tuple of tensors."""

    type: str


def describe(value: Any) -> Any:
    """Describe an argument: a tensor by its type, as `Tensor`; a number, a string, a list of
    numbers, or None by itself; and any other value as `Other`."""
    if isinstance(value, torch.Tensor):
        name = NAME_OF_PYTORCH.get(str(value.dtype).removeprefix("torch."))
        return Other(str(value.dtype)) if name is None else Tensor(name, tuple(value.shape))
    if value is None or type(value) in (*_NUMBERS, str):
        return value
    kinds = set(map(type, value)) if isinstance(value, list | tuple) else set()
    if len(kinds) == 1 and kinds <= _NUMBERS:  # elements of a list attribute have one type
        return list(value)
    return Other(type(value).__name__)


@dataclass(slots=True, eq=False)
class Callee:
    """A Python function or an operator that a step calls.

    An entry for a function is worth most if it has many instructions, few tensors to take and to
    return, and few products: a norm, a rotary embedding, a gate, a scan. A whole layer has more
    instructions, but consists of layers with products of their own.
    """

    name: str
    """`package.module:Class.method` or `aten::mean.dim`."""
    is_function: bool = True
    """True for a function; False for an operator, of which only the work is kept."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Descriptions of the arguments of the first call."""
    reads: dict[str, Any] = field(default_factory=dict)
    """Descriptions of arguments that are not objects, and of the attributes that are read of
    objects, by path such as `self.weight`."""
    problem: str = ""
    """The reason why an entry cannot list the values in `reads`."""
    results: int | None = None
    """Tensors that the first call of a function returned."""
    only_tensors: bool = True
    """True if all calls returned tensors and nothing else."""
    differentiable: bool = False
    """True if the result of a call needs a gradient."""
    invocations: set[int] = field(default_factory=set)
    """The numbers of its own calls."""
    calls: set[int] = field(default_factory=set)
    """The numbers of the calls of operators with work inside a function, or of the operator."""
    instructions: int = 0
    """The number of instructions of the forward and the backward outside composites."""
    products: int = 0
    composites: int = 0
    """The number of composites that are made in the forward."""

    @property
    def tensors(self) -> tuple[int, int]:
        """The numbers of tensors that a function reads and returns."""
        return sum(isinstance(value, Tensor) for value in self.reads.values()), self.results or 0

    @property
    def is_elementary(self) -> bool:
        """True for a function with more than products that is not a layer reading its modules."""
        return not self.problem and self.products <= self.instructions / _BESIDE_PRODUCT

    @property
    def rank(self) -> tuple[bool, float, str]:
        """A key to sort by, the best first."""
        composites = self.composites / max(len(self.invocations), 1)
        worth = self.instructions / (_TENSORS + sum(self.tensors)) / (1 + composites)
        return not self.is_elementary, -worth, self.name

    def add(self, call: int, is_product: bool) -> None:
        """Add an instruction of a call of an operator."""
        self.instructions += not is_product
        self.products += is_product
        if self.is_function or not is_product:
            self.calls.add(call)

    def returns(self, value: Any) -> None:
        """Keep the needed facts of a result."""
        items = list(value) if isinstance(value, tuple | list) else [value]
        tensors = [item for item in items if isinstance(item, torch.Tensor)]
        self.only_tensors &= bool(items) and len(tensors) == len(items)
        self.differentiable |= any(tensor.requires_grad for tensor in tensors)
        if self.results is None:
            self.results = len(tensors)


def begin_callee(frame: FrameType) -> Callee | None:
    """Describe the function whose first call begins in `frame`; None if it is not kept."""
    code, module = frame.f_code, frame.f_globals.get("__name__", "")
    package = module.partition(".")[0]
    if code is make_loss.__code__:
        return Callee(LOSS)
    is_module = module.startswith(_MODULES) and code.co_name == "forward"
    is_kept = is_module or module.startswith(_OF_TORCH)
    if (
        code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
        or "<" in code.co_qualname  # of lambdas, comprehensions, and functions in functions
        or code.co_name.startswith("__")
        or code.co_filename.startswith("<")
        or package in sys.stdlib_module_names
        or (package in _SKIPPED and not is_kept)
    ):
        return None
    function = Callee(f"{module}:{code.co_qualname}")
    object_reads: dict[str, Any] = {}
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        if name not in frame.f_locals:
            continue
        value = frame.f_locals[name]
        described = function.arguments[name] = describe(value)
        if not isinstance(described, Other):
            function.reads |= {} if value is None else {name: described}
            continue
        read: dict[str, Any] = {}
        problem = ""
        if not isinstance(value, torch.Tensor | list | tuple | dict):
            with torch_internals.without_modes():  # a property may call operators
                read, problem = _attributes_read(code, name, value)
        if not (read or problem or name == "self"):
            problem = f"it takes {name}, a {described.type}; {_NEED_ADAPT}"
        object_reads |= read
        function.problem = function.problem or problem
    function.reads |= object_reads
    return function


def _attributes_read(code: CodeType, name: str, value: Any) -> tuple[dict[str, Any], str]:
    """Descriptions of the attributes of an argument that a function reads, directly or in methods
    of the argument; and the reason if an entry cannot list them."""
    read: dict[str, Any] = {}
    problems: list[str] = []
    pending = [(code, name)]
    for current, owner in pending:
        try:
            tree = parse_module(textwrap.dedent(inspect.getsource(current)))
        except (OSError, SyntaxError, TypeError):
            return read, f"the source of {current.co_qualname} is not available"
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != owner:
                continue
            path = f"{name}.{node.attr}"
            member = getattr(type(value), node.attr, None)
            if not isinstance(node.ctx, ast.Load):
                problems.append(f"it writes {path}")
            elif callable(member):
                inner = getattr(inspect.unwrap(member), "__code__", None)
                if inner is not None and inner.co_varnames:
                    method = (inner, inner.co_varnames[0])
                    pending += [method] if method not in pending else []
            elif path not in read and hasattr(value, node.attr):  # else it is unreachable
                read[path] = described = describe(getattr(value, node.attr))
                if isinstance(described, Other):
                    problems.append(f"it reads {path}, a {described.type}; {_NEED_ADAPT}")
    return read, problems[0] if problems else ""


class Trained(torch.nn.Module):
    """A module that returns a loss: the loss of `module`, or the sum of its results."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *arguments: Any, **keywords: Any) -> torch.Tensor:
        return make_loss(self.module(*arguments, **keywords), type(self.module).__name__)


def make_loss(result: Any, owner: str) -> torch.Tensor:
    """Return the loss in a result, or the sum of its tensors that have gradients."""
    loss = getattr(result, "loss", None)
    leaves = torch_internals.pytree.tree_leaves(result if loss is None else loss)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not tensors:
        raise SuggestionError(
            f"nothing that {owner} returns depends on a parameter that requires a gradient; use"
            " --forward for the forward alone"
        )
    if tensors[0].dim() == 0:
        return tensors[0]
    return sum((tensor.sum() for tensor in tensors[1:]), tensors[0].sum())
