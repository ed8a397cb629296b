"""Composites are on whatever is used first, with the variable set: one process for each order."""

import json
import sys
from pathlib import Path

import pytest
from composites_testing.names import GELU, SILU
from composites_testing.processes import run, run_python

ROOT = Path(__file__).parents[2]
COMPOSITE = """
@composites.composite("acme.twice")
def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x
twice(torch.ones(2))
"""
FIRST: dict[str, tuple[str, set[str]]] = {
    "enable": ("composites.enable('silu')", GELU | SILU),
    "enabled": ("with composites.enabled('silu'): pass", GELU),
    "disable": ("composites.disable()", set()),
    "active": ("composites.active()", GELU),
    "export": ("composites.export(torch.nn.GELU(), (torch.ones(2),))", GELU),
    "nn": (
        "composites.nn.accumulate_gradients_in_fp32(torch.nn.Linear(2, 2))",
        GELU | {"ptxla.mm", "ptxla.matmul_accumulate"},
    ),
    "decorator": (COMPOSITE, GELU),
    "nothing": ("", GELU),
}
"""The first use of the package, before `import torch_xla`, and the composites that are on then."""

# Each use is the first one of a child process.
SCRIPT = """
import json, os, sys, torch
for name, first in json.loads(sys.argv[1]).items():
    child = os.fork()
    if not child:
        import composites
        exec(first)
        import torch_xla
        on = composites.active()
        program = composites.export(torch.nn.GELU(), (torch.ones(2),))
        composites.disable()
        print(json.dumps([name, on, program.composites, composites.active()]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize(
    "names",
    [
        ["enable"],
        pytest.param(["disable", "export"], marks=pytest.mark.exhaustive),
        pytest.param([*FIRST], id="all", marks=pytest.mark.exhaustive),
    ],
)
def test_the_variable_works_whatever_is_first(names: list[str]) -> None:
    uses = json.dumps({name: FIRST[name][0] for name in names})
    script = SCRIPT.replace("sys.argv[1]", repr(uses))
    done = run_python(script, XLA_COMPOSITE_OP="gelu", PJRT_DEVICE="CPU")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in rows] == names, done.stderr
    for name, on, exported, off in rows:
        assert set(on) == FIRST[name][1], name
        assert exported == {"ptxla.gelu": 1}, name
        assert off == [], name


@pytest.mark.process
def test_a_command_with_the_variable_set(tmp_path: Path) -> None:
    model = f"{ROOT / 'examples' / 'models.py'}:conv_net"
    command = ["export", model, "-o", str(tmp_path / "out")]
    done = run(sys.executable, "-m", "composites", *command, XLA_COMPOSITE_OP="hardswish")
    assert "ptxla.hardswish" in done.succeeded().stdout
