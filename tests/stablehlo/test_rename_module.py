"""rename_module beside the rest of a module; passes/rename_module.mlir has the names."""

from functools import partial

from composites_testing.passes import load

from lowering.stablehlo import rename_module, run_passes


def test_nothing_else_changes() -> None:
    before = load("block")
    after = run_passes(before, [partial(rename_module, name="Other")])
    assert before.name == "block"
    assert after.text == before.text.replace("module @block", "module @Other", 1)
