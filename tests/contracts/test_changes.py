"""What a change of a registry means for kernels: one test for each kind."""

from dataclasses import replace

import pytest

from composites.contracts.changes import Verdict, broken, changes, following
from composites.contracts.model import Attribute, Call, Conditions, Contract, Lock, Operand

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
        Attribute("dim", "i64", normalize=True, argument="dim"),
        Attribute("mode", "string", value="fast"),
        Attribute("scale", "f32", optional=True, argument="scale"),
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


X, Y, Z = BASE.operands
OTHER = replace(CALL, decomposition="sha256:b")
BREAKING: tuple[tuple[dict[str, object], str], ...] = (
    ({"operands": (*BASE.operands, Operand("w"))}, "operand w added"),
    ({"operands": (*BASE.operands, Operand("w", optional=True))}, "operand w added"),
    ({"operands": (X, Y)}, "operand z removed"),
    ({"operands": (Y, X, Z)}, "operands reordered: x, y, z -> y, x, z"),
    ({"operands": (X, Operand("y", optional=True), Z)}, "operand y can be absent now"),
    ({"operands": (X, Operand("y", variadic=True), Z)}, "operand y is a list of tensors now"),
    (
        {"attributes": (*BASE.attributes, Attribute("eps", "f32", argument="eps"))},
        "attribute eps added",
    ),
    ({"attributes": BASE.attributes[1:]}, "attribute dim removed"),
    (attribute("dim", type="i32"), "attribute dim was of type i64, is of type i32"),
    (attribute("dim", optional=True), "attribute dim can be absent now"),
    (attribute("dim", normalize=False), "attribute dim can be negative now"),
    (
        attribute("dim", argument="axis"),
        "attribute dim was the argument dim, is the argument axis",
    ),
    (
        attribute("mode", value="exact"),
        "attribute mode was the constant 'fast', is the constant 'exact'",
    ),
    (
        attribute("mode", value=True),
        "attribute mode was the constant 'fast', is the constant True",
    ),
    (
        attribute("mode", value=None, argument="mode"),
        "attribute mode was the constant 'fast', is the argument mode",
    ),
    ({"results": ("result", "result.1")}, "results: result -> result, result.1"),
    ({"saved": ("lse",)}, "results that a backward needs: none -> lse"),
    (
        {"calls": (replace(OTHER, results=("tensor<2xbf16>",)),)},
        "results of a call with tensor<2xf32>, tensor<2xf32> were tensor<2xf32>,"
        " are tensor<2xbf16>",
    ),
    ({"calls": (OTHER,)}, "the decomposition changed for tensor<2xf32>, tensor<2xf32> {}"),
    (
        {"operator": "acme::other", "calls": (OTHER,)},
        "operator was acme::scale, is acme::other",
    ),
    (
        {"decomposition": "acme.ops:other", "calls": (), "no_call": "none"},
        "`decomposition` was acme.ops:scale, is acme.ops:other; what it computes was not compared",
    ),
)


@pytest.mark.parametrize(("fields", "what"), BREAKING)
def test_a_changed_meaning_needs_a_new_version(fields: dict[str, object], what: str) -> None:
    changed = replace(BASE, **fields)  # type: ignore[arg-type]
    found = broken(changes(lock(BASE), lock(changed)))
    assert what in [change.what for change in found]
    assert str(found[0]).startswith("acme.scale version 1: ")
    assert str(found[0]).endswith(" (version not raised)")
    raised = changes(lock(BASE), lock(replace(changed, version=2)))
    assert not broken(raised)
    assert raised[0].what == "raised from version 1"


COMPATIBLE: tuple[tuple[dict[str, object], str], ...] = (
    ({"operands": (Operand("a"), Y, Z)}, "operands renamed or replaced: x, y, z -> a, y, z"),
    ({"operands": (X, Y, Operand("z"))}, "operand z is always there now"),
    ({"attributes": BASE.attributes[:2]}, "attribute scale removed"),
    (attribute("scale", optional=False), "attribute scale is always there now"),
    (
        attribute("dim", argument=None, value=1),
        "attribute dim was the argument dim, is the constant 1",
    ),
    (
        {"when": Conditions({"mode": ("fast",)}, ("f32", "bf16"))},
        "conditions changed (dtypes: f32 -> f32, bf16); calls keep their meaning",
    ),
    ({"operator": "acme::scale.other"}, "operator was acme::scale, is acme::scale.other"),
    (
        {"decomposition": "acme.new:scale"},
        "`decomposition` was acme.ops:scale, is acme.new:scale; what it computes is the same",
    ),
    ({"functions": ("m:f",)}, "functions: none -> m:f"),
)


def test_compatible_changes() -> None:
    for fields, what in COMPATIBLE:
        rows = changes(lock(BASE), lock(replace(BASE, **fields)))  # type: ignore[arg-type]
        assert [(change.what, change.verdict) for change in rows] == [(what, Verdict.SAME)]


def test_what_is_no_change() -> None:
    """Also constants that are not a number, and another order of attributes."""
    assert changes(lock(BASE), lock(replace(BASE))) == ()
    assert changes(lock(BASE), lock(replace(BASE, attributes=BASE.attributes[::-1]))) == ()
    first, second = (
        replace(BASE, **attribute("mode", value=float("nan")))  # type: ignore[arg-type]
        for _ in range(2)
    )
    assert changes(lock(first), lock(second)) == ()


def test_a_renamed_operand_is_a_change_where_decompositions_are_not_compared() -> None:
    renamed = replace(BASE, operands=(Operand("a"), Y, Z))
    found = changes(lock(BASE), lock(renamed, made_with={"torch": "2.10.0", "jaxlib": "0.10.2"}))
    assert [change.verdict for change in found] == [Verdict.BROKEN, Verdict.UNKNOWN]


def test_hashes_of_other_releases_are_not_comparable() -> None:
    changed = replace(BASE, calls=(replace(CALL, decomposition="sha256:b"),))
    (found,) = changes(lock(BASE), lock(changed, made_with={**WITH, "torch": "2.10.0"}))
    assert found.verdict is Verdict.UNKNOWN
    assert str(found) == (
        "acme: hashes of decompositions are not comparable, because they were made with torch 2.9.0"
        " and 2.10.0 (not compared)"
    )
    retyped = replace(BASE, **attribute("dim", type="i32"))  # type: ignore[arg-type]
    assert broken(changes(lock(BASE), lock(retyped, made_with={})))


def test_a_missing_example_is_said() -> None:
    (found,) = changes(lock(BASE), lock(replace(BASE, calls=(), no_call="no example")))
    assert (found.what, found.verdict) == ("decompositions: no example", Verdict.UNKNOWN)


def test_entries_come_and_go() -> None:
    other = replace(BASE, entry="acme.other", composite="acme.other")
    (added,) = changes(lock(BASE), lock(BASE, other))
    assert (added.what, added.verdict) == ("added", Verdict.NEW_VERSION)
    (removed,) = changes(lock(BASE, other), lock(BASE))
    assert (removed.what, removed.verdict) == ("removed; no new program calls it", Verdict.SAME)


def test_versions_side_by_side() -> None:
    second = replace(BASE, version=2, operands=(X,))
    found = changes(lock(BASE), lock(BASE, second))
    assert {change.verdict for change in found} == {Verdict.NEW_VERSION}
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
