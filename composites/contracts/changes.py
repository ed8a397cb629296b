"""Changes between two locks, and whether kernels for the older lock may be used with the newer.

The version of a composite stands for its meaning: a kernel for a name and a version is called for
every composite of a program with this name and version. So a version is compatible with its older
form if a kernel that was written for the older form computes every call of the newer form
correctly. Otherwise the version must be raised.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from composites.contracts.model import AttributeSpec, Call, Contract, Lock, Operand, Retired


class Effect(StrEnum):
    """The meaning of a change for kernels that were written before it."""

    SAME = "compatible"
    """Old kernels compute new calls correctly."""
    NEW_VERSION = "new version"
    """Old kernels are not called: the version differs."""
    BROKEN = "version not raised"
    """Old kernels are called and compute something else, or may do so."""
    UNKNOWN = "not compared"
    """The locks do not contain enough to tell."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two locks."""

    subject: str
    """The composite, and the entry that produces it."""
    composite: str
    version: int
    what: str
    verdict: Effect

    def __str__(self) -> str:
        version = f" version {self.version}" if self.composite else ""
        return f"{self.subject}{version}: {self.what} ({self.verdict})"


_Key = tuple[str, str]


def changes(old: Lock, new: Lock) -> tuple[Change, ...]:
    """Return all differences, in the order of the newer lock; removed contracts come last."""
    before, after = _by_entry(old), _by_entry(new)
    differences: list[Change] = []
    comparable = bool(old.made_with) and old.made_with == new.made_with
    for key in dict.fromkeys((*after, *before)):
        retired = frozenset(r.version for r in old.retired if (r.entry, r.composite) == key)
        differences += _entry_changes(before.get(key, {}), after.get(key, {}), retired, comparable)
    if not comparable and any(c.calls for c in old.contracts) and after:
        differences.append(Change(new.namespace, "", 0, _incomparable(old, new), Effect.UNKNOWN))
    return tuple(differences)


def broken(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes that need a new version but do not have one."""
    return tuple(change for change in changes if change.verdict is Effect.BROKEN)


def following(old: Lock, new: Lock) -> Lock:
    """Return the newer lock with the versions that only the older lock has, as retired."""
    kept = {(c.entry, c.composite, c.version) for c in new.contracts}
    gone = [*old.retired, *(Retired(c.entry, c.composite, c.version) for c in old.contracts)]
    retired = (r for r in gone if (r.entry, r.composite, r.version) not in kept)
    return replace(new, retired=tuple(dict.fromkeys(retired)))


def _by_entry(lock: Lock) -> dict[_Key, dict[int, Contract]]:
    entries: dict[_Key, dict[int, Contract]] = {}
    for contract in lock.contracts:
        entries.setdefault((contract.entry, contract.composite), {})[contract.version] = contract
    return entries


def _incomparable(old: Lock, new: Lock) -> str:
    if not old.made_with or not new.made_with:
        bare = "the older lock" if not old.made_with else "the newer lock"
        return f"decompositions are not comparable: {bare} was made without torch_xla"
    keys = sorted(
        key
        for key in {**old.made_with, **new.made_with}
        if old.made_with.get(key) != new.made_with.get(key)
    )
    shown = ", ".join(
        f"{key} {old.made_with.get(key, 'none')} and {new.made_with.get(key, 'none')}"
        for key in keys
    )
    return f"hashes of decompositions are not comparable, because they were made with {shown}"


def _entry_changes(
    before: dict[int, Contract],
    after: dict[int, Contract],
    retired: frozenset[int],
    comparable: bool,
) -> Iterator[Change]:
    highest = max(before, default=None)
    for version, contract in sorted(after.items()):
        if version in retired:
            what = "this number was used before; versions are never used again"
            yield _change(contract, what, Effect.BROKEN)
        elif version in before:
            yield from _version_changes(before[version], contract, comparable)
        elif highest is None:
            yield _change(contract, "added", Effect.NEW_VERSION)
        elif version < highest:
            what = (
                f"this version is lower than version {highest} of the older lock; an unused lower"
                " number may have had another meaning"
            )
            yield _change(contract, what, Effect.BROKEN)
        else:
            yield _change(contract, f"raised from version {highest}", Effect.NEW_VERSION)
            same_version = replace(before[highest], version=version)
            for change in _version_changes(same_version, contract, comparable=False):
                if change.verdict is not Effect.UNKNOWN:
                    yield replace(change, verdict=Effect.NEW_VERSION)
    raised = max(after, default=-1) > max(before, default=-1)
    for version, contract in sorted(before.items()):
        if version not in after and not (raised and version == highest):
            yield _change(contract, "removed; no new program calls it", Effect.SAME)


def _version_changes(before: Contract, after: Contract, comparable: bool) -> Iterator[Change]:
    """Yield the differences between two forms of one version."""
    same_code = comparable and _same_decompositions(before, after)
    meaning = Effect.SAME if same_code else Effect.BROKEN
    if before.operator != after.operator:
        what = f"operator was {before.operator or 'none'}, is {after.operator or 'none'}"
        yield _change(after, what, meaning)
    if before.functions != after.functions:
        yield _change(after, _list("functions", before.functions, after.functions), Effect.SAME)
    yield from _operands(before, after, meaning)
    yield from _attributes(before, after)
    yield from _results(before, after)
    if before.when != after.when:
        what = f"conditions changed ({_conditions(before, after)}); calls keep their meaning"
        yield _change(after, what, Effect.SAME)
    yield from _decomposition(before, after, comparable)


def _operands(before: Contract, after: Contract, meaning: Effect) -> Iterator[Change]:
    old, new = _names(before.operands), _names(after.operands)
    if old == new:
        for was, now in zip(before.operands, after.operands, strict=True):
            if now.optional and not was.optional:
                what = f"operand {now.name} can be absent now"
                yield _change(after, what, Effect.BROKEN)
            elif was.optional and not now.optional:
                yield _change(after, f"operand {now.name} is now always present", Effect.SAME)
            if now.variadic != was.variadic:
                what = "is a list of tensors now" if now.variadic else "is one tensor now"
                yield _change(after, f"operand {now.name} {what}", Effect.BROKEN)
        return
    added = [name for name in new if name not in old]
    removed = [name for name in old if name not in new]
    if not added and not removed:
        yield _change(after, _list("operands reordered", old, new), Effect.BROKEN)
    elif len(old) == len(new):
        # Names are not in StableHLO. The same decomposition takes the same operands.
        yield _change(after, _list("operands renamed or replaced", old, new), meaning)
    else:
        if removed:
            yield _change(after, f"operand {', '.join(removed)} removed", Effect.BROKEN)
        if added:
            yield _change(after, f"operand {', '.join(added)} added", Effect.BROKEN)


def _attributes(before: Contract, after: Contract) -> Iterator[Change]:
    old = {attribute.name: attribute for attribute in before.attributes}
    new = {attribute.name: attribute for attribute in after.attributes}
    for name in old:
        if name not in new:
            verdict = Effect.SAME if old[name].optional else Effect.BROKEN
            yield _change(after, f"attribute {name} removed", verdict)
    for name, now in new.items():
        if name not in old:
            yield _change(after, f"attribute {name} added", Effect.BROKEN)
        elif now != old[name]:
            for what, narrower in _attribute(old[name], now):
                verdict = Effect.SAME if narrower else Effect.BROKEN
                yield _change(after, f"attribute {name} {what}", verdict)


def _attribute(was: AttributeSpec, now: AttributeSpec) -> Iterator[tuple[str, bool]]:
    """Yield the changes of an attribute. The flag is True if no value is new."""
    if was.type != now.type:
        yield f"was of type {was.type or 'any'}, is of type {now.type or 'any'}", False
    if was.optional != now.optional:
        yield ("can be absent now", False) if now.optional else ("is now always present", True)
    if was.normalize != now.normalize:
        yield (
            ("is counted from the front now", True)
            if now.normalize
            else ("can be negative now", False)
        )
    if was.argument != now.argument:
        constant = now.argument is None
        yield f"was {_source(was)}, is {_source(now)}", constant and was.argument is not None
    elif repr(was.value) != repr(now.value):  # 1 is not 1.0, and nan is nan
        yield f"was {_source(was)}, is {_source(now)}", False


def _source(attribute: AttributeSpec) -> str:
    if attribute.argument is None:
        return f"the constant {attribute.value!r}"
    return f"the argument {attribute.argument}"


def _results(before: Contract, after: Contract) -> Iterator[Change]:
    if before.saved != after.saved:
        what = _list("results that a backward needs", before.saved, after.saved)
        yield _change(after, what, Effect.BROKEN)
    if before.results != after.results and None not in (before.results, after.results):
        what = _list("results", before.results or (), after.results or ())
        yield _change(after, what, Effect.BROKEN)
    for was, now in _paired(before, after):
        if was.results != now.results:
            what = (
                f"results of a call with {', '.join(now.operands)} were {', '.join(was.results)},"
                f" are {', '.join(now.results)}"
            )
            yield _change(after, what, Effect.BROKEN)


def _decomposition(before: Contract, after: Contract, comparable: bool) -> Iterator[Change]:
    pairs = _paired(before, after)
    if comparable:
        for was, now in pairs:
            if was.decomposition != now.decomposition and was.results == now.results:
                what = (
                    "the decomposition changed for"
                    f" {', '.join(now.operands) or 'no operands'} {now.attributes}"
                )
                yield _change(after, what, Effect.BROKEN)
        form = (before.operands, before.attributes)
        if before.calls and not pairs and form == (after.operands, after.attributes):
            why = after.no_call or "the canonical calls differ"
            yield _change(after, f"decompositions: {why}", Effect.UNKNOWN)
    if before.decomposition == after.decomposition:
        return
    renamed = f"`decomposition` was {before.decomposition}, is {after.decomposition}"
    if comparable and pairs:
        if _same_decompositions(before, after):
            yield _change(after, f"{renamed}; the computation is the same", Effect.SAME)
    else:
        yield _change(after, f"{renamed}; the computation was not compared", Effect.BROKEN)


def _same_decompositions(before: Contract, after: Contract) -> bool:
    """Return True if there are calls to compare and all of them agree."""
    pairs = _paired(before, after)
    return bool(pairs) and all(was == now for was, now in pairs)


def _paired(before: Contract, after: Contract) -> tuple[tuple[Call, Call], ...]:
    """Return the canonical calls that both contracts have, in pairs."""
    old_calls = {(call.operands, call.attributes): call for call in before.calls}
    return tuple(
        (old_calls[call.operands, call.attributes], call)
        for call in after.calls
        if (call.operands, call.attributes) in old_calls
    )


def _conditions(before: Contract, after: Contract) -> str:
    was, now = before.when, after.when
    parts = []
    for name in dict.fromkeys((*was.values, *now.values)):
        if was.values.get(name) != now.values.get(name):
            parts.append(_list(name, was.values.get(name, ()), now.values.get(name, ())))
    for name in ("dtypes", "ranks", "where"):
        if getattr(was, name) != getattr(now, name):
            parts.append(_list(name, getattr(was, name), getattr(now, name)))
    return "; ".join(parts)


def _list(what: str, before: Sequence[object], after: Sequence[object]) -> str:
    def shown(values: Sequence[object]) -> str:
        return ", ".join(map(str, values)) or "none"

    return f"{what}: {shown(before)} -> {shown(after)}"


def _names(operands: Sequence[Operand]) -> list[str]:
    return [operand.name for operand in operands]


def _change(contract: Contract, what: str, verdict: Effect) -> Change:
    entry = "" if contract.entry == contract.composite else f" (entry {contract.entry})"
    subject = f"{contract.composite}{entry}"
    return Change(subject, contract.composite, contract.version, what, verdict)
