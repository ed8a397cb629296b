"""Effects of registry changes on kernels: one test for each kind of change."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from composites_testing.golden import check_cases

from composites.contracts.changes import Effect, broken, changes, following
from composites.contracts.lock import lock_text, parse_lock
from composites.contracts.model import AttributeSpec, Call, Conditions, Contract, Lock, Operand

WITH = {"torch": "2.9.0", "jaxlib": "0.10.2"}
CALL = Call(("tensor<2xf32>", "tensor<2xf32>"), "{}", ("tensor<2xf32>",), "sha256:a")
BASE = Contract(
    entry="acme.scale",
    composite="acme.scale",
    version=1,
    decomposition="acme.ops:scale",
    operands=(Operand("x"), Operand("y"), Operand("z", optional=True)),
    operator="acme::scale",
    attributes=(
        AttributeSpec("dim", "i64", normalize=True, argument="dim"),
        AttributeSpec("mode", "string", value="fast"),
        AttributeSpec("scale", "f32", optional=True, argument="scale"),
    ),
    results=("result",),
    when=Conditions({"mode": ("fast",)}, ("f32",)),
    calls=(CALL,),
)


def lock(*contracts: Contract, **fields: object) -> Lock:
    return replace(Lock("acme", WITH, contracts), **fields)  # type: ignore[arg-type]


def attribute(name: str, **fields: object) -> dict[str, object]:
    """BASE's attributes with one of them changed."""
    return {
        "attributes": tuple(
            replace(a, **fields) if a.name == name else a  # type: ignore[arg-type]
            for a in BASE.attributes
        )
    }


HEAD = {"format": 1, "namespace": "acme", "made_with": WITH}
X, Y, Z = BASE.operands
DOCUMENT: dict[str, Any] = json.loads(lock_text(lock(BASE)))["contracts"][0]


def test_what_changes_of_an_entry_mean() -> None:
    """Changes have the keys of BASE that each case replaces, as in a lock."""

    def written(parts: Mapping[str, str]) -> str:
        document = DOCUMENT | yaml.safe_load(parts[""])
        contract = parse_lock(json.dumps(HEAD | {"contracts": [document]}), "new.lock").contracts[0]
        differences = changes(lock(BASE), lock(contract))
        if broken(differences):
            raised = changes(lock(BASE), lock(replace(contract, version=2)))
            assert not broken(raised), raised
            assert raised[0].what == "raised from version 1"
        return "\n".join(map(str, differences))

    check_cases(Path(__file__).parent / "golden" / "changes.txt", written)


def test_what_is_no_change() -> None:
    """NaN as a constant is the same constant, and the order of attributes does not matter."""
    assert changes(lock(BASE), lock(replace(BASE))) == ()
    assert changes(lock(BASE), lock(replace(BASE, attributes=BASE.attributes[::-1]))) == ()
    first, second = (
        replace(BASE, **attribute("mode", value=float("nan")))  # type: ignore[arg-type]
        for _ in range(2)
    )
    assert changes(lock(first), lock(second)) == ()


def test_a_renamed_operand_is_a_change_where_decompositions_are_not_compared() -> None:
    renamed = replace(BASE, operands=(Operand("a"), Y, Z))
    diffs = changes(lock(BASE), lock(renamed, made_with={"torch": "2.10.0", "jaxlib": "0.10.2"}))
    assert [change.verdict for change in diffs] == [Effect.BROKEN, Effect.UNKNOWN]


def test_hashes_of_other_releases_are_not_comparable() -> None:
    changed = replace(BASE, calls=(replace(CALL, decomposition="sha256:b"),))
    (difference,) = changes(lock(BASE), lock(changed, made_with={**WITH, "torch": "2.10.0"}))
    assert difference.verdict is Effect.UNKNOWN
    assert str(difference) == (
        "acme: hashes of decompositions are not comparable, because they were made with torch 2.9.0"
        " and 2.10.0 (not compared)"
    )
    retyped = replace(BASE, **attribute("dim", type="i32"))  # type: ignore[arg-type]
    assert broken(changes(lock(BASE), lock(retyped, made_with={})))


def test_a_missing_example_is_said() -> None:
    (difference,) = changes(lock(BASE), lock(replace(BASE, calls=(), no_call="no example")))
    assert (difference.what, difference.verdict) == ("decompositions: no example", Effect.UNKNOWN)


def test_entries_come_and_go() -> None:
    other = replace(BASE, entry="acme.other", composite="acme.other")
    (added,) = changes(lock(BASE), lock(BASE, other))
    assert (added.what, added.verdict) == ("added", Effect.NEW_VERSION)
    (removed,) = changes(lock(BASE, other), lock(BASE))
    assert (removed.what, removed.verdict) == ("removed; no new program calls it", Effect.SAME)


def test_versions_side_by_side() -> None:
    second = replace(BASE, version=2, operands=(X,))
    differences = changes(lock(BASE), lock(BASE, second))
    assert {change.verdict for change in differences} == {Effect.NEW_VERSION}
    assert changes(lock(BASE, second), lock(second, BASE)) == ()
    assert not broken(changes(lock(BASE, second), lock(second)))


def test_a_number_is_not_used_again() -> None:
    second = replace(BASE, version=2)
    (lower,) = broken(changes(lock(second), lock(second, BASE)))
    assert "lower than version 2" in lower.what
    gone = following(lock(BASE, second), lock(BASE))
    assert [retired.version for retired in gone.retired] == [2]
    (again,) = broken(changes(gone, lock(BASE, second)))
    assert again.what == "this number was used before; versions are never used again"
    assert following(gone, lock(BASE)).retired == gone.retired
