"""The frontend that is chosen, what it has, and errors that say what to do."""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from composites_testing.modules import Calling
from composites_testing.processes import run_python
from composites_testing.selection import exhaustive

import composites
from composites.errors import ExportError
from lowering import activation
from lowering.frontends import chosen
from lowering.stablehlo import RefusedOperationError

ROOT = Path(__file__).parents[2]

ROWS = {
    "`composites.export`: inference, gradients, training steps": "recording",
    "dropout and other random operators": "random_numbers",
    "`composites verify`: entries and their alternatives compared with PyTorch": "running",
    "`composites suggest`": "labels",
    "`mark_sharding` and `mark_dynamic` of tensors": "dynamic_sizes",
}
"""Rows of the table in docs/frontends.md, and the part of a frontend that each depends on."""

EXTRA = "installed by the extra"
VARYING, DIVIDED = "sizes that vary, in exports", "shardings by parameter name, in exports"
LINES = "the line of Python in errors, if a `target` refuses an operation"
FUNCTIONS = "`torch.cond`, and `while_loop`, `scan` and `map` of PyTorch"
RUNS = "`XLA_COMPOSITE_OP` and `composites.enable` in a script that trains"
"""Rows for which a program is exported or run."""


def cells() -> dict[str, str]:
    """The column of this process's frontend in the table, by row."""
    text = (ROOT / "docs" / "frontends.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S.*?) \| (.+?) \| (.+?) \|$", text, flags=re.MULTILINE)
    column = chosen.NAMES.index(chosen.chosen())
    return {row: texts[column].strip("`") for row, *texts in rows}


def test_the_table_of_the_documentation() -> None:
    table = cells()
    assert table.keys() == {*ROWS, EXTRA, VARYING, DIVIDED, LINES, FUNCTIONS, RUNS}
    frontend = activation.backend().frontend
    for row, part in ROWS.items():
        expected = "no" if getattr(frontend, part) is None else "yes"
        assert table[row] == expected, row


def test_exports_in_the_documentation() -> None:
    table = cells()
    assert [table[row] for row in (DIVIDED, LINES)] == ["yes"] * 2
    varying: dict[str, Any] = {"dynamic_shapes": ({0: torch.export.Dim("rows", min=2, max=64)},)}
    call = (torch.nn.GELU(), (torch.ones(4, 2),))
    if table[VARYING] == "yes":
        assert "tensor<?x2xf32>" in composites.export(*call, **varying).module.text
    else:
        with pytest.raises(ExportError, match="of torch_xla have fixed sizes; pass frontend='fx'"):
            composites.export(*call, **varying)
    with pytest.raises(RefusedOperationError, match=rf"from aten::sin, at {re.escape(__file__)}:"):
        composites.export(Calling(lambda x: x.double().sin()), (torch.ones(2),), target="litert")
    options: dict[str, Any] = {"mesh": {"model": 2}, "shardings": {"weight": ("model", None)}}
    program = composites.export(torch.nn.Linear(4, 4), (torch.ones(2, 4),), **options)
    assert "sharding" in program.module.text


@pytest.mark.process
@pytest.mark.parametrize("named_first", [True, *exhaustive(False)])
def test_an_export_beside_a_package_that_registers_a_device(named_first: bool) -> None:
    """The device of exports is not the one that such packages register, before or after."""
    named = "torch.utils.rename_privateuse1_backend('other')"
    export = "composites.export(torch.nn.GELU(), (torch.ones(2),), frontend='fx')"
    program = f"{named}\n{export}" if named_first else f"{export}\n{named}"
    done = run_python(f"import torch, composites\n{program}\nprint('fine')").succeeded()
    assert done.stdout.endswith("fine\n")


def test_the_frontend_of_this_process() -> None:
    activation.backend()
    used = chosen.chosen()
    assert used == ("xla" if find_spec("torch_xla") else "fx")
    (other,) = (name for name in chosen.NAMES if name != used)
    for frontend, message in (
        (other, f"uses frontend='{used}' already"),
        ("tpu", "frontend must be 'xla' or 'fx', not 'tpu'"),
    ):
        with pytest.raises(ExportError, match=message):
            composites.export(torch.nn.Linear(2, 2), (torch.ones(2),), frontend=frontend)
