"""run_passes: order, verification between passes, and naming the pass that is at fault."""

from functools import partial

import pytest
from composites_testing.passes import load

from lowering.stablehlo import Module, PassError, decompose, run_passes
from lowering.stablehlo.in_place import in_place
from lowering.stablehlo.ir_types import IrModule


def test_passes_run_in_order_and_the_input_stays() -> None:
    module = load("block")
    before = module.text
    seen = []

    def note(current: Module) -> Module:
        seen.append(current.text.count("composite"))
        return current

    result = run_passes(module, [note, partial(decompose, only="acme.twice"), note])
    assert seen == [6, 2]
    assert "acme.twice" not in result.text
    assert module.text == before
    assert run_passes(module, []) is module


def test_a_partial_of_an_in_place_pass_copies_no_module_that_is_owned() -> None:
    held: list[IrModule] = []

    @in_place
    def note(module: IrModule, *, name: str = "") -> None:
        held.append(module)

    loaded = load("block")
    run_passes(loaded, [note, partial(note, name="a"), partial(note, name="b")])
    assert held[0] is held[1] is held[2]
    assert held[0] is not loaded.ir


def test_a_pass_that_breaks_the_module_is_named() -> None:
    def lose_a_function(module: Module) -> Module:
        broken = module.copy_ir()
        list(broken.body.operations)[1].operation.erase()
        return Module(broken)

    with pytest.raises(PassError, match=r"pass 1 \(lose_a_function\) broke the module: "):
        run_passes(load("block"), [partial(lose_a_function)])


def test_a_pass_that_returns_nothing_is_named() -> None:
    with pytest.raises(PassError) as caught:
        run_passes(load("block"), [lambda module: None])  # type: ignore[list-item, return-value]
    assert str(caught.value) == (
        "pass 1 (<lambda>) returned NoneType; a pass takes a Module and returns a Module"
    )
