"""Exports whose sizes vary: numbers at several sizes against PyTorch, and what is refused."""

import copy
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from composites_testing.example_models import Example, compare
from composites_testing.modules import Computed
from composites_testing.selection import only_fast
from composites_testing.stablehlo_commands import invoke
from composites_testing.transformer import Block
from torch import nn
from torch.export import Dim

import composites
from composites import ExportError, Program, ProgramError
from lowering.cli.export import load_factory
from lowering.export.dimensions import Dimension
from lowering.stablehlo import Module, refine

EXAMPLES = Path(__file__).parents[2] / "examples" / "models.py"

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Model:
    """A model, and a call of it at any size of batch and of seq."""

    module: nn.Module
    call: Callable[[int, int], Tensors]
    """Keyword arguments."""
    dims: Mapping[str, Mapping[int, str]]
    """The dimensions that vary."""

    def at(self, b: int, s: int) -> Example:
        return Example("", self.module, (), self.call(b, s), torch.optim.SGD)

    def export(self) -> Program:
        named = {"batch": Dim("batch", max=64), "seq": Dim("seq", min=4, max=16)}
        shapes = {
            name: {axis: named[dim] for axis, dim in axes.items()}
            for name, axes in self.dims.items()
        }
        return self.at(2, 8).export(dynamic_shapes=shapes)


class Mlp(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)


def mlp() -> Model:
    module = Mlp(nn.Linear(8, 12), nn.LayerNorm(12), nn.GELU(), nn.Linear(12, 4), nn.Softmax(-1))
    return Model(module, lambda b, s: {"x": torch.randn(b, 8)}, {"x": {0: "batch"}})


def conv_net() -> Model:
    """Batch and height vary; the size of its pool's result follows from the height."""
    module, _, _ = load_factory(f"{EXAMPLES}:conv_net")
    dims = {"images": {0: "batch", 2: "seq"}}
    return Model(module.eval(), lambda b, s: {"images": torch.randn(b, 3, s, 16)}, dims)


def tokens(b: int, s: int) -> Tensors:
    torch.manual_seed(b + s)
    tensors = {name: torch.randint(1, 128, (b, s)) for name in ("input_ids", "labels")}
    mask = torch.ones(b, s, dtype=torch.int64)
    mask[0, -1] = 0
    return tensors | {"attention_mask": mask}


def bert() -> Model:
    module, _, _ = load_factory(f"{EXAMPLES}:bert")
    varying = {name: {0: "batch", 1: "seq"} for name in tokens(1, 1)}
    return Model(module.eval(), tokens, varying)


MODELS = {f.__name__: f for f in (mlp, conv_net, bert)}


@cache
def model_named(name: str) -> Model:
    torch.manual_seed(0)
    return MODELS[name]()


@cache
def exported(name: str) -> Program:
    return model_named(name).export()


@pytest.mark.parametrize("name", only_fast(MODELS, *[*MODELS][:1]))
def test_a_model_at_three_sizes(name: str, tmp_path: Path) -> None:
    model, program = model_named(name), exported(name)
    assert program.composites == model.at(2, 8).export().composites
    assert len(program.composites) > 1
    program.save(tmp_path / "program")
    loaded = Program.load(tmp_path / "program")
    assert loaded.dimensions == program.dimensions
    assert program.dimensions[0] == Dimension("batch", 1, 64)
    for b, s in ((3, 10), (1, 7), (8, 16)):
        call = model.at(b, s)
        compare(loaded.run(call.values(program)), call.outputs())


@pytest.mark.slow
def test_the_program_at_a_size(tmp_path: Path) -> None:
    model, program = model_named("bert"), exported("bert")
    shapes = {value.name: value.shape for value in program.inputs}
    assert shapes["kwarg:input_ids"] == ("batch", "seq")
    assert [(v.name, v.shape) for v in program.outputs] == [
        ("out:loss", ()),
        ("out:logits", ("batch", "seq", 128)),
    ]
    assert "tensor<?x?xi64>" in program.mlir
    fixed = program.at(batch=3, seq=5)
    assert "?" not in fixed.mlir
    assert not fixed.dimensions
    assert fixed.outputs[1].shape == (3, 5, 128)
    assert fixed.composites == program.composites
    call = model.at(3, 5)
    values, expected = call.values(program), call.outputs()
    compare(fixed.run(values), expected)
    # The artifact refines to the same numbers.
    program.save(tmp_path / "program")
    artifact = Module.read(tmp_path / "program" / "program.mlirbc")
    refined = refine(artifact, [value.type for value in fixed.inputs])
    compare(Program(refined, fixed.inputs, fixed.outputs).run(values), expected)


def test_the_manifest_has_the_dimensions(tmp_path: Path) -> None:
    exported("mlp").save(tmp_path / "program")
    path = tmp_path / "program" / "manifest.json"
    manifest = json.loads(path.read_text())
    assert manifest["format"] == 3
    assert manifest["dimensions"] == [{"name": "batch", "min": 1, "max": 64}]
    assert manifest["inputs"][-1]["shape"] == ["batch", 8]
    for change, problem in (
        ({"dimensions": []}, "there is no such dimension"),
        ({"dimensions": [{"name": "batch", "min": 0, "max": None}]}, "has no sizes"),
        (
            {"dimensions": [{"name": "a b", "min": 1, "max": None}]},
            "is not the name of a dimension",
        ),
        ({"dimensions": 3}, "dimensions: Input should be a valid array"),
        ({"inputs": [{**manifest["inputs"][-1], "shape": ["?", 8]}]}, "a size that is not known"),
        ({"inputs": [{**manifest["inputs"][-1], "shape": ["batch+", 8]}]}, "is not a size"),
    ):
        path.write_text(json.dumps(manifest | change))
        with pytest.raises(ProgramError, match=problem):
            Program.load(tmp_path / "program")
    composites.export(nn.Linear(4, 4), (torch.ones(2, 4),)).save(tmp_path / "fixed")
    assert json.loads((tmp_path / "fixed" / "manifest.json").read_text())["format"] == 2


# ---- training ----


def test_a_training_step() -> None:
    torch.manual_seed(0)
    module = Block()
    ids = torch.randint(0, 11, (2, 5))
    dims = {0: Dim("batch", max=64), 1: Dim("seq", min=2, max=512)}
    sgd = partial(torch.optim.SGD, lr=0.5)
    program = composites.export(module, (ids,), optimizer=sgd, dynamic_shapes=(dims,))
    fixed = composites.export(module, (ids,), optimizer=sgd)
    assert program.composites == fixed.composites
    assert "ptxla.scaled_dot_product_attention_backward" in program.composites
    assert [v.name for v in program.inputs] == [v.name for v in fixed.inputs]
    assert [v.name for v in program.outputs] == [v.name for v in fixed.outputs]
    for b, s in ((3, 7), (1, 9), (5, 2)):
        ids = torch.randint(0, 11, (b, s))
        inputs = program.module_weights(module) | {"arg:0": ids}
        other = copy.deepcopy(module)
        optimizer = sgd(other.parameters())
        loss = other(ids)
        loss.backward()
        optimizer.step()
        results = program.run(inputs)
        expected = {"loss": loss.detach()}
        for name, parameter in other.named_parameters():
            expected |= {f"grad:{name}": parameter.grad, f"param:{name}": parameter.detach()}
        assert results.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(results[name], value, rtol=1e-5, atol=1e-6)


# ---- other modules ----


BATCH, SEQ = Dim("batch"), Dim("seq")


def rows(module: Any, x: torch.Tensor) -> torch.Tensor:
    """Positions, a mean, a root of the size, a pooled triangle, and rows beside each other."""
    count = x.shape[0]
    position = torch.arange(count, device=x.device)[:, None] * 3 + count
    mask = nn.functional.avg_pool2d(torch.ones(1, count, count, device=x.device), 3, 1, 1)[0].tril()
    mixed = mask @ module.linear(x) / count**0.5 + x.mean()
    return torch.cat([mixed + position, x[:1].expand(count, 4), x.flip(0).roll(1, 0)], 1)


def sums(module: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.cumsum(0), x.var(0), nn.functional.pad(x, (0, 0, 1, 2)), x[1:] - x[:-1], x[-1]


def numbers(module: Any, x: torch.Tensor) -> torch.Tensor:
    """Numbers that are computed from a size: a remainder, half of it, the larger of two."""
    count = x.shape[0]
    half = x[: count // 2].sum(0) * (count % 2 + 2) / torch.sym_max(count, 3)
    return half + torch.full((4,), count // 2, device=x.device)


def made_on_cpu(module: Any, x: torch.Tensor) -> torch.Tensor:
    """Positions and a mask that the module makes on the CPU."""
    count = x.shape[0]
    angles = torch.arange(count).float()[:, None] * torch.arange(4)
    hidden = torch.triu(torch.ones(count, count), 1).bool()
    return ((x @ x.T).masked_fill(hidden, -1e9).softmax(-1) @ x) * torch.cos(angles)


def twice(module: Any, x: torch.Tensor) -> torch.Tensor:
    return module.linear(x.repeat(2, 1)).reshape(-1, 2, 4).flatten(1)


@pytest.mark.parametrize("function", [rows, sums, numbers, made_on_cpu, twice])
def test_sizes_in_a_modules_own_python(function: Any) -> None:
    module = Computed(function)
    program = composites.export(module, (torch.ones(2, 4),), dynamic_shapes=({0: BATCH},))
    for count in (2, 9, 20):
        x = torch.randn(count, 4)
        with torch.no_grad():
            result = module(x)
        results = result if isinstance(result, tuple) else (result,)
        outputs = program.run(program.module_weights(module) | {"arg:0": x})
        compare(outputs, {f"out:{n}": tensor for n, tensor in enumerate(results)})


def test_nested_arguments_and_derived_dimensions() -> None:
    x, y = torch.randn(3, 4), torch.randn(6, 4)
    call: tuple[Any, ...] = ({"x": x, "more": [x.clone()]},)

    class Pair(nn.Module):
        def forward(self, pair: Any, *, other: torch.Tensor) -> torch.Tensor:
            return torch.cat([pair["x"], pair["more"][0]]) + other

    program = composites.export(
        Pair(),
        call,
        {"other": y},
        dynamic_shapes={
            "pair": {"x": {0: BATCH}, "more": [(BATCH, None)]},
            "other": {0: 2 * BATCH, 1: 4},
        },
    )
    assert [(v.name, v.shape) for v in program.inputs] == [
        ("arg:0.x", ("batch", 4)),
        ("arg:0.more.0", ("batch", 4)),
        ("kwarg:other", ("2*batch", 4)),
    ]
    outputs = program.run({"arg:0.x": x, "arg:0.more.0": x, "kwarg:other": y})
    np.testing.assert_array_equal(outputs["out:0"], torch.cat([x, x]) + y)
    with pytest.raises(ProgramError, match=r"kwarg:other has shape \(2\*batch, 4\), but its value"):
        program.run({"arg:0.x": x, "arg:0.more.0": x, "kwarg:other": x})


def test_an_exported_program_has_its_own_dimensions() -> None:
    model = model_named("mlp")
    x = model.at(4, 0).kwargs["x"]
    graph = torch.export.export(
        model.module, (x,), dynamic_shapes=({0: Dim("rows", min=2, max=32)},)
    )
    program = composites.export(graph, (x,))
    (dimension,) = program.dimensions
    assert (dimension.min, dimension.max) == (2, 32)
    assert program.composites == exported("mlp").composites
    for count in (2, 6, 32):
        call = model.at(count, 0)
        inputs = call.values(exported("mlp"))
        inputs["arg:0"] = inputs.pop("kwarg:x")
        compare(program.run(inputs), call.outputs())
    with pytest.raises(ExportError, match="has its dynamic shapes already"):
        composites.export(graph, (x,), dynamic_shapes=({0: BATCH},))


# ---- size 1 ----


def test_a_size_of_one_that_is_another_program() -> None:
    module = Computed(lambda self, x: self.linear(x) if x.shape[0] > 1 else x)
    program = composites.export(module, (torch.ones(2, 4),), dynamic_shapes=({0: BATCH},))
    assert program.dimensions == (Dimension("batch", 2, None),)
    with pytest.raises(ProgramError, match="batch is 1, and this program is for 2 or more"):
        program.at(batch=1)


# ---- refusals ----


X = torch.ones(2, 4)
ROWS: dict[str, Any] = {"dynamic_shapes": ({0: BATCH},)}
REFUSED: list[tuple[Callable[..., Any], str]] = [
    (
        lambda m, x: m.linear(x).tanh() if x.shape[0] > 4 else m.linear(x).sin(),
        "the program holds only where batch > 4, and not at batch=2; use one Dim for dimensions"
        " that are equal, give bounds of the sizes that it takes, as in Dim('seq', min=8, max=512),"
        " or keep the dimension fixed",
    ),
    (lambda m, x: x * (2 if x.shape[0] == 7 else 3), "where batch != 7, and not at batch=7; "),
    (lambda m, x, y: x + y, "the module fails with varying sizes: RuntimeError: "),
    (lambda m, x, y: x + y, " [batch, 4]; use one Dim for dimensions that are equal"),
    (lambda m, x: x[: x.shape[0] // 2] + x[x.shape[0] // 2 :], "with varying sizes: "),
    (
        lambda m, x, y: m.linear(x),
        "dynamic_shapes: the program reads no argument with the dimension seq, so it cannot know"
        " its size; keep it fixed",
    ),
    (
        lambda m, x: nn.functional.dropout(m.linear(x), 0.5),
        "dynamic_shapes: a size of rng_bit_generator would vary, and the passes that choose sizes"
        " do not know this operation; keep the dimension fixed",
    ),
    (lambda m, x, y: x.new_zeros(y.shape[0]), "the program reads no argument with the dimension"),
    (lambda m, x, y: x.T[0].index_put((x.T[1] > 0,), y.T[0], True), "a size of reduce_window"),
]
"""Functions of a module and of tensors with a dimension each that varies."""


def test_programs_that_differ() -> None:
    for function, message in REFUSED:
        count = len(inspect.signature(function).parameters) - 1
        shapes = ({0: BATCH}, {0: SEQ})[:count]
        with pytest.raises(ExportError, match=re.escape(message)):
            composites.export(Computed(function), (X, X.clone())[:count], dynamic_shapes=shapes)
    with pytest.raises(ExportError, match="the module fails with varying sizes: "):
        composites.export(nn.Linear(4, 4), (X,), dynamic_shapes=({1: BATCH},))


def test_sizes_up_to_two() -> None:
    """Two is the smallest size of a symbol of PyTorch, and the only one that this dimension has."""
    model, shapes = model_named("mlp"), ({0: Dim("batch", max=2)},)
    program = composites.export(model.module, (torch.ones(2, 8),), dynamic_shapes=shapes)
    for size in (1, 2):
        call = Example("", model.module, (torch.randn(size, 8),), {}, torch.optim.SGD)
        compare(program.run(call.values(program)), call.outputs())


def test_a_branch_that_bounds_decide() -> None:
    cut = Computed(lambda m, x: m.linear(x[: min(x.shape[0], 512)]))
    with pytest.raises(
        ExportError, match="the program holds only where batch > 512, and not at batch=2; "
    ):
        composites.export(cut, (X,), **ROWS)
    shapes = ({0: Dim("batch", max=512)},)
    program = composites.export(cut, (torch.ones(2, 4),), dynamic_shapes=shapes)
    assert program.outputs[0].shape == ("batch", 4)


def test_a_composite_whose_attributes_vary_is_turned_off() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.GroupNorm(2, 4), nn.SiLU())
    shapes = ({0: BATCH, 2: Dim("height", min=8)},)
    args = (torch.ones(2, 3, 8, 8),)
    with pytest.raises(ExportError) as raised:
        composites.export(module, args, dynamic_shapes=shapes)
    assert str(raised.value) == (
        "dynamic_shapes: an attribute of ptxla.group_norm depends on a size that varies; turn that"
        " composite off, as in ops=['all', '-group_norm'], or keep the dimension fixed"
    )
    program = composites.export(module, args, ops=["all", "-group_norm"], dynamic_shapes=shapes)
    assert program.composites == {"ptxla.silu": 1}
    for b, height in ((3, 9), (1, 16), (4, 21)):
        x = torch.randn(b, 3, height, 8)
        with torch.no_grad():
            expected = {"out:0": module(x)}
        compare(program.run(program.module_weights(module) | {"arg:0": x}), expected)


def test_what_has_fixed_sizes() -> None:
    module = Computed(lambda m, x: m.linear(x).sum())
    fixed: dict[str, dict[str, Any]] = {
        "a program for several devices": {"mesh": {"data": 2}},
        "a program for target='iree'": {"target": "iree"},
    }
    for what, options in fixed.items():
        with pytest.raises(ExportError, match=f"^{what} cannot have dynamic shapes; "):
            composites.export(module, (X,), **ROWS, **options)


WRONG_SHAPES: tuple[tuple[Any, str], ...] = (
    ({"z": {0: BATCH}}, "the call has 1 argument, and no argument 'z'; write 'x'"),
    ({"x": {2: BATCH}}, "x has 2 dimensions, and no dimension 2; write 0 or 1"),
    ({"x": BATCH}, "describe each dimension, as in {0: torch.export.Dim('batch')}"),
    ({"x": (BATCH,)}, "describes 1 dimensions of x, which has 2"),
    ({"x": {0: Dim.AUTO}}, "dimension 0 of x must be a named dimension"),
    ({"x": {0: 3}}, "dimension 0 of x is 2, not 3"),
    ({"x": {0: BATCH, 1: Dim("batch", max=9)}}, "batch has two ranges"),
    (({0: BATCH}, None), "dynamic_shapes describes 2 arguments of the call, which has 1"),
    (BATCH, "the call cannot be described by"),
)


def test_dynamic_shapes_that_do_not_fit() -> None:
    for shapes, problem in WRONG_SHAPES:
        with pytest.raises(ExportError, match=re.escape(problem)):
            composites.export(Mlp(nn.Linear(4, 4)), (X,), dynamic_shapes=shapes)


def test_nothing_that_varies() -> None:
    module = nn.Linear(4, 4)
    nothing: tuple[Any, ...] = ({}, (), ({},), (None,), ({0: None, 1: Dim.STATIC},), ((2, 4),))
    for shapes in nothing:
        program = composites.export(module, (X,), dynamic_shapes=shapes)
        assert not program.dimensions
        assert program.inputs[-1].shape == (2, 4)


def test_sizes_that_a_program_does_not_have() -> None:
    program, model = exported("mlp"), model_named("mlp")
    for sizes, problem in (
        ({"bath": 3}, "the program has no dimension 'bath'; did you mean 'batch'?; it has: batch"),
        ({}, "sizes are missing: batch"),
        ({"batch": 65}, "batch is 65, and this program is for 1 to 64; export it again"),
        ({"batch": "4"}, "the size of batch must be an integer, not '4'"),
    ):
        changed: dict[str, Any] = dict(sizes)
        with pytest.raises(ProgramError, match=re.escape(problem)):
            program.at(**changed)
    values = model.at(3, 0).values(program)
    for x, problem in (
        (torch.ones(3, 9), "kwarg:x has shape (batch, 8), but its value has shape (3, 9)"),
        (torch.ones(8), "kwarg:x has shape (batch, 8), but its value has shape (8,)"),
        (torch.ones(99, 8), "batch is 99, and this program is for 1 to 64"),
    ):
        with pytest.raises(ProgramError, match=re.escape(problem)):
            program.run(values | {"kwarg:x": x})
    with pytest.raises(ProgramError, match=r"write program\.at\(batch=…\)\.compile\(\)"):
        program.compile()


# ---- the command ----


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "models.py"
    file.write_text(
        "import torch\n"
        "class Net(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return torch.nn.functional.gelu(super().forward(x))\n"
        "def net():\n"
        "    return Net(4, 4), (torch.ones(2, 3, 4),)\n"
    )

    def error(*dimensions: str) -> str:
        options = [part for text in dimensions for part in ("--dynamic", text)]
        code, out, err = invoke("export", f"{file}:net", "-o", tmp_path / "net", *options)
        assert (code == 0) == (tmp_path / "net").exists(), err
        return out + err

    for text in ("x=batch", "x:0", "x:a=batch", "x:0=batch,least=3", "x:0=batch,max=many", ":0=b"):
        assert "write an argument, a dimension and a name" in error(text)
    assert "the largest size of batch must be above the smallest" in error("x:0=batch,min=8,max=4")
    assert "and no argument 'y'" in error("y:0=batch")
    error("x:0=batch", "x:1=seq,min=2,max=32")
    program = Program.load(tmp_path / "net")
    assert program.dimensions == (Dimension("batch", 1, None), Dimension("seq", 2, 32))
    assert program.inputs[-1].shape == ("batch", "seq", 4)
