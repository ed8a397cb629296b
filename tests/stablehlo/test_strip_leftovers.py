"""strip_leftovers: what says nothing goes, what says something stays."""

from composites_testing.passes import load, same_numbers

from lowering.stablehlo import Module, strip_leftovers


def test_empty_attributes_and_the_counter_go() -> None:
    assert strip_leftovers(load("wrapped_gelu")).text.startswith("module @IrToHlo {\n")


def test_layout_notes_go() -> None:
    before = load("transformer_torch_xla_2_9")
    after = strip_leftovers(before)
    assert "xla_shape" in before.text
    assert "xla_shape" not in after.text
    assert "result_layout" not in after.text
    same_numbers(before, after)


def test_attributes_that_say_something_stay() -> None:
    module = Module.parse(
        "module @step attributes {mhlo.is_dynamic = true, mhlo.num_partitions = 4 : i32} {}"
    )
    assert strip_leftovers(module).text == module.text
