"""rename_module: names that MLIR need not quote."""

from functools import partial

from composites_testing.passes import load

from lowering.stablehlo import Module, rename_module, run_passes

TEXT = "module @IrToHlo { func.func @main() { return } }"


SYMBOLS = {
    "BertForMaskedLM": "BertForMaskedLM", "main": "main", "Net[float]": "Net_float_",
    "Größe": "Gr__e", "2x": "_2x", "": "_",
}  # fmt: skip


def test_the_name_is_a_plain_symbol() -> None:
    for name, symbol in SYMBOLS.items():
        renamed = rename_module(Module.parse(TEXT), name=name)
        assert renamed.text.startswith(f"module @{symbol} {{\n")
        assert Module.parse(renamed.text).name == symbol


def test_nothing_else_changes() -> None:
    before = load("block")
    after = run_passes(before, [partial(rename_module, name="Other")])
    assert before.name == "block"
    assert after.text == before.text.replace("module @block", "module @Other", 1)


def test_a_module_without_a_name_gets_one() -> None:
    module = Module.parse("func.func @main() { return }")
    assert module.name == ""
    assert rename_module(module, name="Net").name == "Net"
