"""Two versions of a vendor's entry in running graphs, in compiled ones and in exports."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
from composites_testing.tensors import gradient_of
from typer.testing import CliRunner

import composites
from composites.errors import AllowlistError
from lowering.cli.app import app

# Version 1 halves, so that numbers tell the versions apart.
FUNCTIONS = """
import torch
def plain(self: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    return self * 2
def halved(self: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    return self / 2
def act(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x)
"""
GELUS = """\
  gelu: {{op: aten::gelu, version: 2, decomposition: 'umbra_ops:plain', backward: derive{new}}}
  gelu@1: {{op: aten::gelu, decomposition: 'umbra_ops:halved', backward: derive{old}}}
"""
SAME = GELUS.format(new="", old="")
APART = GELUS.format(new=", when: {dtypes: [f32]}", old=", when: {dtypes: [bf16]}")


Use = Callable[[str], str]


def made(*tensors: torch.Tensor) -> list[tuple[str, int]]:
    text = xm.get_stablehlo(list(tensors))
    pairs = re.findall(r'composite "([\w.]+)".*version = (\d+)', text)
    return sorted((name, int(version)) for name, version in pairs)


def test_each_version_is_what_its_graph_says(use: Use) -> None:
    use(SAME)
    x = torch.tensor([4.0], device="xla")
    for name, version, value in (("umbra.gelu", 2, 8.0), ("umbra.gelu@1", 1, 2.0)) * 2:
        with composites.enabled(name):
            assert composites.active() == (name,)
            result = F.gelu(x)
            assert made(result) == [("umbra.gelu", version)]
            assert result.item() == value


def test_two_versions_with_the_same_conditions_are_not_on_together(use: Use) -> None:
    file = use(SAME)
    composites.enable("umbra.gelu")
    with pytest.raises(AllowlistError) as caught:
        composites.enable("umbra.gelu@1")
    assert str(caught.value) == (
        f"umbra.gelu@2 ({file}:4) and umbra.gelu@1 ({file}:5) are versions of one entry with the"
        " same conditions; turn one off, as with -umbra.gelu@2, or give them different conditions"
        " in `when`"
    )
    assert composites.active() == ("umbra.gelu",)


def test_disable_means_every_version(use: Use) -> None:
    use(SAME)
    composites.enable("umbra.gelu@1")
    composites.disable("umbra.gelu")
    assert composites.active() == ()
    composites.enable("umbra.gelu@1")
    composites.disable("umbra.gelu@2")
    assert composites.active() == ("umbra.gelu@1",)


@pytest.mark.parametrize("compiled", [False, True])
def test_two_versions_in_one_training_graph(use: Use, compiled: bool) -> None:
    use(APART)

    def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.gelu(x), F.gelu(y)

    torch._dynamo.reset()
    run = torch.compile(both, backend="aot_eager", fullgraph=True) if compiled else both
    with composites.enabled("umbra.gelu@2", "umbra.gelu@1"):
        x = torch.tensor([4.0], device="xla", requires_grad=True)
        y = torch.tensor([4.0], device="xla", dtype=torch.bfloat16, requires_grad=True)
        wide, narrow = run(x, y)
        (wide.sum() + narrow.sum().float()).backward()
        grads = [gradient_of(leaf) for leaf in (x, y)]
        names = ("umbra.gelu", "umbra.gelu_backward")
        expected = [(name, version) for name in names for version in (1, 2)]
        assert made(wide, narrow, *grads) == expected
        assert [t.item() for t in (wide, narrow, *grads)] == [8.0, 2.0, 2.0, 0.5]


def test_compiled_graphs_of_two_versions(use: Use) -> None:
    """Operators and calls have names of their own, which stay for the process."""
    use(SAME)
    for name, value, slope in (("umbra.gelu", 8.0, 2.0), ("umbra.gelu@1", 2.0, 0.5)) * 2:
        torch._dynamo.reset()
        run = torch.compile(lambda x: F.gelu(x), backend="aot_eager", fullgraph=True)
        with composites.enabled(name), torch.no_grad():
            assert run(torch.tensor([4.0], device="xla")).item() == value
        with composites.enabled(name):
            x = torch.tensor([4.0], device="xla", requires_grad=True)
            run(x).sum().backward()
            assert gradient_of(x).item() == slope


def test_versions_of_a_python_function(use: Use) -> None:
    use(
        "  act: {function: 'umbra_ops:act', operands: [x], version: 2}\n"
        "  act@1: {function: 'umbra_ops:act', operands: [x], when: {rank: 1}}\n"
    )
    import umbra_ops  # type: ignore[import-not-found]

    with composites.enabled("umbra.act@1", "umbra.act@2"):
        vector = umbra_ops.act(torch.ones(3, device="xla"))
        assert made(vector) == [("umbra.act", 2)]  # the first in the file claims the call
    with composites.enabled("umbra.act@1"):
        assert made(umbra_ops.act(torch.ones(3, device="xla"))) == [("umbra.act", 1)]
        assert made(umbra_ops.act(torch.ones(3, 1, device="xla"))) == []


def test_exports_carry_the_version(use: Use) -> None:
    use(SAME)
    program = composites.export(torch.nn.GELU(), (torch.ones(2),), ops=["umbra.gelu@1"])
    assert "version = 1 : i32" in program.module.text


@pytest.mark.slow
def test_list_and_check_and_docs(use: Use, tmp_path: Path) -> None:
    file = use(SAME)
    runner = CliRunner()
    assert runner.invoke(app, ["check", file]).stderr == ""
    table = runner.invoke(app, ["list"], env={"XLA_COMPOSITE_OP": "umbra.gelu@1"}).stdout
    rows = [line for line in table.splitlines() if "umbra.gelu" in line]
    assert [(row.split()[1:3], row.endswith("│ yes │")) for row in rows] == [
        (["umbra.gelu", "v2"], False),
        (["umbra.gelu", "v1"], True),
    ]
    page = tmp_path / "page.md"
    assert runner.invoke(app, ["docs", file, "-o", str(page)]).exit_code == 0
    assert "Entry `gelu`, version 1." in page.read_text()
