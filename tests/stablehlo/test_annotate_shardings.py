"""annotate_shardings: both forms, one instead of the other, and none."""

import pytest
from composites_testing.passes import load

from lowering.stablehlo import Module, annotate_shardings
from lowering.stablehlo.errors import UnsupportedOperationError

MESH = '#sdy.mesh<["a"=2]>'
ROWS = '#sdy.sharding<@mesh, [{"a"}, {}]>'


def test_both_forms() -> None:
    module = load("donor")
    tiled = "{devices=[2,1]<=[2]}"
    gspmd = annotate_shardings(module, inputs=[tiled, None], results=[None, "{replicated}"])
    gspmd.verify()
    head = gspmd.text.splitlines()[1]
    assert 'jax.buffer_donor = true, mhlo.sharding = "{devices=[2,1]<=[2]}"}' in head
    assert '%arg1: tensor<2xf32>) -> (tensor<4x2xf32>, tensor<2xf32> {mhlo.sharding = "{rep' in head
    shardy = annotate_shardings(gspmd, inputs=[ROWS, None], results=[ROWS, None], mesh=MESH)
    shardy.verify()
    assert "mhlo.sharding" not in shardy.text
    assert shardy.text.count(f"sdy.sharding = {ROWS}") == 2
    assert 'sdy.mesh @mesh = <["a"=2]>' in shardy.text
    again = annotate_shardings(shardy, inputs=[ROWS, None], results=[ROWS, None], mesh=MESH)
    assert again.text == shardy.text
    none = annotate_shardings(shardy, inputs=[None, None], results=[None, None])
    none.verify()
    assert none.text == module.text


def test_another_number() -> None:
    with pytest.raises(UnsupportedOperationError, match="@main has 2 inputs, and 1 shardings are"):
        annotate_shardings(load("donor"), inputs=[None], results=[None, None])
    other = Module.parse("func.func @other() { return }")
    with pytest.raises(UnsupportedOperationError, match="no function @main"):
        annotate_shardings(other, inputs=[], results=[])
