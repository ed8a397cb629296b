"""A call that an entry catches, in plain values, as generated hooks pass it on.

Hooks make a `CallSpec`, and every step of a lowering reads it: the conditions of the entry, the
attributes of its composite, and the decomposition, which is called with other tensors.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import torch

from composites import attribute_types
from composites.contracts.model import AttributeSpec
from composites.element_types import NAME_OF_PYTORCH
from composites.registry.model import Composite, Tensor
from composites.registry.operand_lists import has_segment_sizes, may_have_segment_sizes
from composites.registry.operators import Operator
from composites.registry.selection import DescribedCall
from lowering.codegen.conditions import optional_in_order, tensors_left_out
from lowering.codegen.paths import is_owner, read_paths
from lowering.dispatch.guarded_self import guarded_self

Groups = tuple[tuple[type, int] | None, ...]
"""For each operand of an entry: type and length of a list; None for a tensor or an absent operand.
"""


@dataclass(frozen=True, eq=False)
class CallForm:
    """The values that all calls of an entry have in common."""

    entry: Composite
    operator: Operator
    """The operator that the entry catches, or a Python function, described like an operator."""

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """The composite's operands, then the other tensors."""
        return (*self.entry.operands, *self.other_tensors)

    @cached_property
    def other_tensors(self) -> tuple[str, ...]:
        """The tensors that are None in calls that the entry takes."""
        return tensors_left_out(self.entry, self.operator)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths that the entry reads from objects among the arguments."""
        return tuple(read_paths(self.entry, self.operator))

    @cached_property
    def optional_in_order(self) -> tuple[tuple[str, str], ...]:
        """Pairs of optional operands, of which the second is present only if the first is."""
        return optional_in_order(self.entry, self.operator)

    @cached_property
    def positional(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.operator.arguments if not a.keyword_only)

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.operator.arguments if a.keyword_only)

    @cached_property
    def owners(self) -> Mapping[str, tuple[str, ...]]:
        """The objects from which the entry reads, and the attributes that it lists of them."""
        split = [path.partition(".") for path in self.paths]
        return {
            a.name: tuple(attribute for root, _, attribute in split if root == a.name)
            for a in self.operator.arguments
            if is_owner(a, self.entry, self.paths)
        }

    def passed(self, function: Callable[..., Any], named: Mapping[str, Any]) -> Any:
        """Call a function with arguments by name, passed as the operator takes them."""
        return function(
            *[named[name] for name in self.positional],
            **{name: named[name] for name in self.keywords},
        )

    def guarded(self, named: Mapping[str, Any]) -> Mapping[str, Any]:
        """Arguments in which guarded copies replace the objects from which the entry reads. A copy
        has the operands among its attributes, and refuses attributes that the entry omits."""
        if not self.owners:
            return named
        guards = {}
        for owner, listed in self.owners.items():
            paths = {name: f"{owner}.{name}" for name in listed}
            tensors = {n: named[path] for n, path in paths.items() if path in self.entry.operands}
            guards[owner] = guarded_self(named[owner], listed, tensors)
        return {**named, **guards}


class CallSpec(NamedTuple):
    """One call; a named tuple, which is cheap, because each call that autograd sees makes two."""

    form: CallForm
    key: tuple[Hashable, ...]
    """Everything that the composite depends on."""
    operands: Sequence[Any]
    """The operands, in the composite's order; None for an absent operand. A hook passes lists of
    tensors as they are, and `flat` flattens them."""
    arguments: Mapping[str, Any]
    """The arguments that are not operands, by name."""
    keys: tuple[Any, ...] = ()
    """Dispatch keys, which a stock kernel above the backend takes first."""
    groups: Groups | None = None
    """The groups of operands that were lists; None if no operand was a list."""

    @classmethod
    def from_named(cls, form: CallForm, named: Mapping[str, Any]) -> Self:
        """A call without a key, of all arguments by name."""
        taken = form.entry.operands
        operands = tuple(_read(named, name) for name in taken)
        return cls(form, (), operands, {n: v for n, v in named.items() if n not in taken})

    def call(self, function: Callable[..., Any], *tensors: Any) -> Any:
        """Call a function that has the operator's signature with other tensors.

        Args:
            tensors: the operands, then optionally the values of `CallForm.other_tensors`.
        """
        return self.form.passed(function, self.form.guarded(self._named(tensors)))

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Bind `call` to one function, for many calls: fast if the tensors come first among its
        arguments."""
        form, count = self.form, len(self.form.tensors)
        if form.owners or self.groups is not None or form.positional[:count] != form.tensors:
            return partial(self.call, function)
        values = [self.arguments[name] for name in form.positional[count:]]
        keywords = {name: self.arguments[name] for name in form.keywords}
        return lambda *tensors: function(*tensors, *values, **keywords)

    def otherwise(self, function: Callable[..., Any]) -> Any:
        """Call the stock kernel or the original function with the same arguments."""
        if self.keys:
            function = partial(function, *self.keys)
        return self.form.passed(function, self._named(self.operands))

    def named(self) -> dict[str, Any]:
        """The values that conditions and attributes can read, by name. A list of tensors is one
        value."""
        named = self._named(self.operands)
        return named | {path: _read(named, path) for path in self.form.paths}

    def unmet(self) -> str | None:
        """The first condition of the entry that the call does not meet; None if it meets all.

        Raises:
            LoweringError: a condition cannot be evaluated for the call.
        """
        form, entry = self.form, self.form.entry
        if form.other_tensors or form.optional_in_order:
            values = self.named()
            for name in form.other_tensors:
                if values[name] is not None:
                    return f"{name} is given, and is not an operand"
            for first, second in form.optional_in_order:
                if values[first] is None and values[second] is not None:
                    return f"the operand {second} is given, and {first} is not"
        if not entry.when:
            return None
        owner = f"{entry.location}: {entry.qualified}"
        return self.described().unmet(entry.when, owner, exact=True)

    def described(self) -> DescribedCall:
        """The call as conditions see it."""
        values = {name: seen(value) for name, value in self.named().items()}
        operands = [values[name] for name in self.form.entry.operands]
        return DescribedCall([o for o in operands if o is not None], values)

    def attributes(self) -> dict[str, str | None]:
        """The composite's attributes as MLIR text; None for an attribute that is left out.

        Raises:
            UnsupportedValueError: a value cannot be written.
        """
        entry, operator, values = self.form.entry, self.form.operator, self.named()
        written = {a.name: self._written(a, values) for a in entry.attributes}
        operands = [values[name] for name in entry.operands]
        if has_segment_sizes(entry, operator):
            written[attribute_types.SEGMENT_SIZES] = attribute_types.segment_sizes(*operands)
        elif may_have_segment_sizes(entry, operator):
            sizes = attribute_types.segment_sizes_of_lists(*operands)
            written[attribute_types.SEGMENT_SIZES] = sizes
        return written

    def _written(self, attribute: AttributeSpec, values: Mapping[str, Any]) -> str | None:
        type_ = attribute_types.attribute_type(attribute.type) if attribute.type else None
        write = attribute_types.by_value if type_ is None else type_.write
        if attribute.argument is None:
            return write(attribute.value)
        value = values[attribute.argument]
        if value is None and attribute.optional:
            return None
        argument = self.form.operator.argument(attribute.argument)
        if attribute.normalize:
            rank = attribute_types.rank(values[self.form.entry.operands[0]])
            many = type_ is not None and type_.is_list
            value = (attribute_types.dims if many else attribute_types.dim)(value, rank)
        elif argument is not None and argument.kind == "dtype":
            value = attribute_types.element_type(value)
        return write(value)

    @property
    def is_flat(self) -> bool:
        """True if no operand is a list."""
        return not any(isinstance(operand, list | tuple) for operand in self.operands)

    def flat(self) -> "CallSpec":
        """The same call, with each tensor of a list as an operand."""
        if self.is_flat:
            return self
        operands, groups = ungrouped(self.operands)
        return self._replace(operands=operands, groups=groups)

    def names(self) -> tuple[str, ...]:
        """The name of each operand. All tensors of a list have the list's name."""
        names = self.form.entry.operands
        return names if self.groups is None else operand_names(names, self.groups)

    def kept(self) -> "CallSpec":
        """The call without its tensors, to be kept after the call has run."""
        arguments, absent = self.arguments, self.form.other_tensors
        if absent:
            arguments = {**arguments, **dict.fromkeys(absent)}
        return CallSpec(self.form, self.key, (), arguments, (), self.groups)

    def _named(self, tensors: Sequence[Any]) -> dict[str, Any]:
        values = tensors if self.groups is None else regrouped(tensors, self.groups)
        return {**self.arguments, **dict(zip(self.form.tensors, values, strict=False))}


def _read(named: Mapping[str, Any], path: str) -> Any:
    """An argument, or an attribute of an argument."""
    if path in named:
        return named[path]
    root, _, attribute = path.partition(".")
    return getattr(named[root], attribute)


def seen(value: Any) -> Any:
    """A value of a call as conditions see it: tensors without their values, dtypes as names, and
    lists as tuples."""
    if isinstance(value, torch.Tensor):
        return Tensor(seen(value.dtype), tuple(value.shape))
    if isinstance(value, torch.dtype):
        name = str(value).removeprefix("torch.")
        return NAME_OF_PYTORCH.get(name, name)
    if isinstance(value, list) or (
        isinstance(value, tuple) and any(isinstance(v, torch.Tensor) for v in value)
    ):
        return tuple([seen(item) for item in value])
    return value


# ---- lists of tensors among the operands ----


def ungrouped(operands: Sequence[Any]) -> tuple[tuple[Any, ...], Groups]:
    """The operands of the composite, and the lists among the arguments."""
    flat: list[Any] = []
    groups: list[tuple[type, int] | None] = []
    for operand in operands:
        if isinstance(operand, list | tuple):
            flat.extend(operand)
            groups.append((tuple if isinstance(operand, tuple) else list, len(operand)))
        else:
            flat.append(operand)
            groups.append(None)
    return tuple(flat), tuple(groups)


def regrouped(values: Sequence[Any], groups: Groups) -> Iterator[Any]:
    """Values of the entry's operands: those of the composite's operands, grouped into lists."""
    rest = iter(values)
    for group in groups:
        if group is None:
            yield next(rest)
        else:
            kind, length = group
            yield kind([next(rest) for _ in range(length)])


def operand_names(names: Sequence[str], groups: Groups) -> tuple[str, ...]:
    """The name of the argument that each operand of the composite belongs to."""
    counted = zip(names, groups, strict=True)
    return tuple(name for name, group in counted for _ in range(1 if group is None else group[1]))
