"""Functions that use each other many times over: counting stays linear, copies are refused."""

from collections.abc import Callable

import pytest

from lowering.stablehlo import (
    Module,
    SizeError,
    UnsupportedOperationError,
    casts,
    clean,
    compile_module,
    decompose,
    flatten_calls,
    inspect,
    symbols,
    unshare_decompositions,
)

TYPE = "tensor<2xf32>"
Use = Callable[[str, str, int], str]


def doubling(levels: int, use: Use) -> Module:
    """Functions that use the next one twice; the last one has one addition."""
    text = (
        f"func.func @main(%a: {TYPE}) -> {TYPE} {{ {use('%0', '%a', levels)} return %0 : {TYPE} }}"
    )
    for level in range(1, levels + 1):
        both = use("%0", "%a", level - 1) + use("%1", "%0", level - 1)
        text += f"func.func private @d{level}(%a: {TYPE}) -> {TYPE} {{ {both} return %1 : {TYPE} }}"
    text += f"func.func private @d0(%a: {TYPE}) -> {TYPE} {{ %0 = stablehlo.add %a, %a : {TYPE}\n"
    return Module.parse(f"{text} return %0 : {TYPE} }}")


def call(result: str, operand: str, level: int) -> str:
    return f"{result} = call @d{level}({operand}) : ({TYPE}) -> {TYPE}\n"


def composite(result: str, operand: str, level: int) -> str:
    call = f'"a.c{level}" {operand} {{decomposition = @d{level}}} : ({TYPE}) -> {TYPE}'
    return f"{result} = stablehlo.composite {call}\n"


@pytest.mark.parametrize("use", [call, composite])
def test_counting_does_not_copy(use: Use) -> None:
    module = doubling(40, use)
    assert inspect(module).operations == 2**40
    assert inspect(module).bytes == 8 * 2**40
    assert casts(module).count == 0


COPIES: tuple[tuple[Use, Callable[[Module], object]], ...] = (
    (call, flatten_calls), (call, clean), (call, compile_module), (composite, decompose),
    (composite, unshare_decompositions), (composite, compile_module),
)  # fmt: skip


def test_copies_are_made_up_to_a_limit() -> None:
    # The largest number has more digits than Python prints.
    uses: tuple[Use, ...] = (call, composite)
    made = {(use, levels): doubling(levels, use) for use in uses for levels in (8, 24, 5000)}
    for use, copy in COPIES:
        if copy is not compile_module:  # XLA takes long for that many
            assert isinstance(copy(made[use, 8]), Module)
        with pytest.raises(SizeError) as caught:
            copy(made[use, 24])
        message = str(caught.value)
        assert message.startswith(
            "the functions of the module use each other so often that its 102"
        )
        assert "; at most 1,000,000 are made; " in message
        with pytest.raises(SizeError):
            copy(made[use, 5000])


def test_more_than_any_program_runs_is_not_counted() -> None:
    for count in (inspect, casts):
        with pytest.raises(
            SizeError, match=r"^@d\d+ occurs more than 9,223,372,036,854,775,808 times"
        ):
            count(doubling(100, composite))


def test_a_large_module_may_grow_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "LARGEST_RESULT", 100)

    def flat(times: int) -> Module:
        calls = "".join(f"%{n} = call @f(%a) : ({TYPE}) -> {TYPE}\n" for n in range(times))
        adds = "".join(f"%{n} = stablehlo.add %a, %a : {TYPE}\n" for n in range(50))
        return flatten_calls(
            Module.parse(
                f"func.func @main(%a: {TYPE}) -> {TYPE} {{ {calls} return %0 : {TYPE} }}\n"
                f"func.func private @f(%a: {TYPE}) -> {TYPE} {{ {adds} return %0 : {TYPE} }}"
            )
        )

    assert flat(8).text.count("stablehlo.add") == 400
    with pytest.raises(SizeError, match="its 74 operations would become 1,062; at most 100 are"):
        flat(20)


CYCLE = f"""
func.func @main(%a: {TYPE}) -> {TYPE} {{ {composite("%0", "%a", 0)} return %0 : {TYPE} }}
func.func private @d0(%a: {TYPE}) -> {TYPE} {{ {composite("%0", "%a", 1)} return %0 : {TYPE} }}
func.func private @d1(%a: {TYPE}) -> {TYPE} {{ {composite("%0", "%a", 0)} return %0 : {TYPE} }}
"""


def test_a_cycle_is_an_error() -> None:
    for change in (unshare_decompositions, decompose, inspect, clean):
        with pytest.raises(UnsupportedOperationError, match="refer to each other in a cycle"):
            change(Module.parse(CYCLE))


def test_a_type_larger_than_memory() -> None:
    huge = "x".join(["9223372036854775807"] * 3)
    type_ = f"tensor<{huge}xf32>"
    body = f"%0 = stablehlo.abs %a : {type_}\n return"
    module = Module.parse(f"func.func @main(%a: {type_}) {{ {body} }}")
    with pytest.raises(SizeError, match="is larger than any machine can address"):
        inspect(module)
