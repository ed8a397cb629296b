"""Shardings of an export: meshes and specs, what StableHLO says, and folders."""

import json
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from composites_testing.modules import Calling, TwoLayers
from composites_testing.processes import run_python
from jax.sharding import Mesh, PartitionSpec

import composites
from composites import Program
from composites.errors import ExportError, ProgramError
from lowering.export.shardings import DeviceMesh, Form
from lowering.stablehlo import (
    Module,
    Pass,
    RunError,
    clean,
    decompose,
    drop_cast_roundtrips,
    run_passes,
    widen_dots,
)

MESHES = ({"model": 4}, {"data": 2, "model": 4}, {"x": 2, "y": 1, "z": 2})


def specs(mesh: DeviceMesh, rank: int) -> list[tuple[tuple[str, ...], ...]]:
    """All specs with at most one axis for a dimension, and those with all axes for one."""
    singles = product([(), *((name,) for name in mesh.names)], repeat=rank)
    distinct = [spec for spec in singles if len({*spec} - {()}) == sum(map(bool, spec))]
    whole = [mesh.names, tuple(reversed(mesh.names))]
    return [*distinct, *((axes,) + ((),) * (rank - 1) for axes in whole)]


def test_the_text_of_gspmd_says_the_spec() -> None:
    """The parsed spec can be another one of the same division, as where an axis has size 1."""
    for sizes, rank in product(MESHES, (1, 2, 3)):
        mesh = DeviceMesh.from_mesh(sizes)
        for spec in specs(mesh, rank):
            text = mesh.text(spec, "gspmd")
            parsed = mesh.parse_spec(text, rank)
            assert parsed is not None
            assert mesh.text(parsed, "gspmd") == text
            assert list(map(mesh.parts, parsed)) == list(map(mesh.parts, spec))


def test_the_forms_of_torch_xla() -> None:
    mesh = DeviceMesh.from_mesh({"data": 2, "model": 2})
    for text, spec in {
        "{devices=[2,1,2]0,2,1,3 last_tile_dim_replicate}": (("model",), ()),
        "{devices=[1,2,2]0,2,1,3 last_tile_dim_replicate}": ((), ("model",)),
        "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}": (("data",), ()),
        "{devices=[2,2]0,1,2,3}": (("data",), ("model",)),
        "{devices=[4,1]<=[4]}": (("data", "model"), ()),
        "{devices=[4,1]0,2,1,3}": (("model", "data"), ()),
    }.items():
        assert mesh.parse_spec(text, 2) == spec
    assert mesh.parse_spec("{maximal device=0}", 2) is None
    assert mesh.parse_spec("{devices=[2,2]0,3,1,2}", 2) is None


def layers() -> TwoLayers:
    return TwoLayers(lambda x: x.square().mean())


SHARDINGS = {"first.*": ("model",), "second.weight": (None, "model"), "arg:0": ("data",)}


@cache
def exported_in(form: Form) -> Program:
    return exported(form)


def exported(form: Form = "gspmd", **options: Any) -> Program:
    chosen: dict[str, Any] = {"mesh": {"data": 2, "model": 2}, "shardings": SHARDINGS} | options
    optimizer = partial(torch.optim.AdamW, lr=1e-2)
    return composites.export(
        layers(), (torch.ones(4, 8),), optimizer=optimizer, sharding_form=form, **chosen
    )


GSPMD = "<=[2,2]T(1,0) last_tile_dim_replicate}"
TEXT: dict[Form, tuple[str, str]] = {
    "gspmd": (
        f'tensor<16x8xf32> {{mhlo.sharding = "{{devices=[2,1,2]{GSPMD}"}}',
        f'tensor<6x16xf32> {{mhlo.sharding = "{{devices=[1,2,2]{GSPMD}"}}',
    ),
    "shardy": (
        'tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>}',
        'tensor<6x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}',
    ),
}


@pytest.mark.parametrize("form", TEXT)
def test_inputs_and_what_follows_them(form: Form) -> None:
    program = exported_in(form)
    first, second = TEXT[form]
    head = next(line for line in program.mlir.splitlines() if "@main" in line)
    # Parameter, two moments; then gradient, parameter and moments among the results.
    assert head.count(first) == 3 + 4
    assert head.count(second) == 3 + 4
    assert ("sdy.mesh @mesh" in program.mlir) == (form == "shardy")
    named = {value.name: value.sharding for value in (*program.inputs, *program.outputs)}
    assert named["param:first.bias"] == (("model",),)
    assert named["state:first.bias.exp_avg"] == (("model",),)
    assert named["grad:second.weight"] == ((), ("model",))
    assert named["state:first.bias.step"] is None
    assert named["param:second.bias"] is None
    assert named["loss"] is None
    # A spec may be one of jax.
    shardings = {"first.*": PartitionSpec("model"), "arg:0": PartitionSpec(("data", "model"), None)}
    named = {value.name: value.sharding for value in exported(form, shardings=shardings).inputs}
    assert named["param:first.weight"] == (("model",), ())
    assert named["arg:0"] == (("data", "model"), ())


@pytest.mark.parametrize("form", TEXT)
def test_passes_keep_them(form: Form) -> None:
    program = exported(form, passes=[drop_cast_roundtrips])
    passes: list[Pass] = [clean, widen_dots, decompose, clean]
    changed = run_passes(program.module, passes)
    heads = [
        next(line for line in text.splitlines() if "@main" in line)
        for text in (program.mlir, changed.text)
    ]
    assert heads[0] == heads[1]
    assert ("sdy.mesh @mesh" in changed.text) == (form == "shardy")


@pytest.mark.parametrize("form", TEXT)
def test_a_folder(form: Form, tmp_path: Path) -> None:
    program = exported_in(form)
    program.save(tmp_path / "saved")
    loaded = Program.load(tmp_path / "saved")
    assert loaded.mesh == program.mesh
    assert (loaded.inputs, loaded.outputs) == (program.inputs, program.outputs)
    assert loaded.mlir == program.mlir
    artifact = Module.read(tmp_path / "saved" / "program.mlirbc")
    assert TEXT["gspmd"][0] in artifact.text
    file = tmp_path / "saved" / "manifest.json"
    document = json.loads(file.read_text())
    for key, value, message in (
        ("mesh", {"data": 2}, "names the axis 'model'"),
        ("mesh", {"data": 0}, "the size of data must be a number"),
        ("mesh", 4, "mesh: write names and sizes of its axes"),
    ):
        file.write_text(json.dumps(document | {key: value}))
        with pytest.raises(ProgramError, match=message):
            Program.load(tmp_path / "saved")
    del document["mesh"]
    file.write_text(json.dumps(document))
    with pytest.raises(ProgramError, match="mesh is missing"):
        Program.load(tmp_path / "saved")


EACH = "must have an axis or None for each dimension"
MISTAKES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"mesh": None}, "shardings need a mesh"),
    ({"mesh": 4}, "mesh: write names and sizes of its axes"),
    ({"mesh": {}}, "mesh: write names and sizes of its axes"),
    ({"mesh": {"a b": 2}}, "'a b' is not the name of an axis"),
    ({"mesh": {"model": "2"}}, "the size of model must be a number, 1 or more, not '2'"),
    ({"mesh": {"model": 0}}, "the size of model must be a number, 1 or more, not 0"),
    ({"shardings": {"frist.weight": ()}}, "no input has the name 'frist.weight'; did you mean"),
    (
        {"shardings": {"*.kernel": ("model",)}},
        "no input has the name '*.kernel'; the inputs are first.weight, first.bias,"
        " second.weight, second.bias, arg:0",
    ),
    ({"shardings": {1: ("model",)}}, "a pattern must be a string, not 1"),
    ({"shardings": {"first.*": ("modle",)}}, "names the axis 'modle'; did you mean 'model'"),
    ({"shardings": {"first.bias": (None, "model")}}, "has 2 dimensions"),
    ({"shardings": {"first.weight": ("model", "model")}}, "names the axis 'model' twice"),
    ({"shardings": {"first.weight": "model"}}, EACH),
    ({"shardings": {"first.weight": (0, None)}}, EACH),
    ({"shardings": {"first.weight": {"model": 0}}}, EACH),
    ({"shardings": {"first.*": iter(("model",))}}, EACH),
    ({"shardings": {"first.bias": PartitionSpec("model", unreduced={"data"})}}, EACH),
    ({"shardings": {"first.bias": PartitionSpec(PartitionSpec.UNCONSTRAINED)}}, EACH),
    ({"shardings": {"second.bias": ("all",)}, "mesh": {"all": 4}}, "which is not a divisor"),
    ({"shardings": [("model",)]}, "shardings must be a mapping from patterns"),
    ({"sharding_form": "sdy"}, "sharding_form must be 'gspmd' or 'shardy', not 'sdy'"),
)


def test_mistakes() -> None:
    for options, message in MISTAKES:
        chosen: dict[str, Any] = {"mesh": {"data": 2, "model": 2}, "shardings": SHARDINGS} | options
        with pytest.raises(ExportError) as raised:
            composites.export(layers(), (torch.ones(4, 8),), **chosen)
        assert message in str(raised.value)


def test_a_program_is_run_on_its_own_mesh() -> None:
    module = layers()
    single = Mesh(np.array(jax.devices()[:1]), ("model",))
    plain = composites.export(module, (torch.ones(4, 8),))
    values = plain.module_weights(module) | {"arg:0": torch.ones(4, 8)}
    with pytest.raises(ProgramError, match="export it with mesh= and shardings="):
        plain.run(values, mesh=single)
    program = composites.export(module, (torch.ones(4, 8),), mesh=single)
    outputs = program.run(values, mesh=single)
    assert isinstance(outputs["out:0"], jax.Array)
    np.testing.assert_allclose(outputs["out:0"], plain.run(values)["out:0"], rtol=1e-6)
    wrong: tuple[Any, ...] = (4, {"model": 1})
    for mesh in wrong:
        with pytest.raises(ProgramError, match=r"jax\.make_mesh\(\(1,\), \('model',\)\), not"):
            program.run(values, mesh=mesh)
    other = Mesh(np.array(jax.devices()[:1]), ("data",))
    with pytest.raises(ProgramError, match="make a mesh with the program's"):
        program.run(values, mesh=other)
    with pytest.raises(RunError, match="input arg:0 is tensor<4x8xf32>, got an array of shape"):
        program.run(values | {"arg:0": torch.ones(3, 8)}, mesh=single)


MARKED = """
import json
import jax, numpy as np, torch
import torch_xla.distributed.spmd as spmd
from torch_xla import runtime
import composites

runtime.use_spmd()
mesh = spmd.Mesh(np.arange(4), (4,), ("model",))

class Marked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
    def forward(self, x):
        hidden = self.first(x)
        spmd.mark_sharding(hidden, mesh, (None, "model"))
        return self.second(torch.nn.functional.gelu(hidden)).square().sum()

module, x = Marked(), torch.ones(4, 8)
report = {"eager": torch.nn.functional.gelu(x @ module.first.weight.t() + module.first.bias)}
report["eager"] = module.second(report["eager"]).square().sum().item()
for form in ("gspmd", "shardy"):
    program = composites.export(
        module, (x,), train=True, ops=["gelu"], mesh=mesh, sharding_form=form
    )
    values = program.module_weights(module) | {"arg:0": x}
    arrays = {name: value.detach().numpy() for name, value in values.items()}
    report[form] = [line for line in program.mlir.splitlines() if "harding" in line]
    report[f"{form} alone"] = float(program.run(arrays)["loss"])
    divided = program.run(arrays, mesh=jax.make_mesh((4,), ("model",)))
    report[f"{form} divided"] = float(divided["loss"])
for name, other_mesh in (("no mesh", None), ("another", {"model": 2})):
    try:
        composites.export(module, (x,), mesh=other_mesh)
    except composites.ExportError as error:
        report[name] = str(error)

# Marks of weights and arguments.
grid = spmd.Mesh(np.arange(4), (2, 2), ("data", "model"))
layer, x = torch.nn.Linear(8, 16).to("xla"), torch.ones(4, 8, device="xla")
spmd.mark_sharding(layer.weight, grid, ("model", None))
spmd.mark_sharding(x, grid, ("data", None))
for name, options in (("kept", {}), ("other", {"shardings": {"weight": (None, "data")}})):
    program = composites.export(layer, (x,), mesh=grid, **options)
    report[name] = [value.sharding for value in program.inputs]
try:
    composites.export(layer, (x,))
except composites.ExportError as error:
    report["no grid"] = str(error)
print(json.dumps(report))
"""


@pytest.mark.process
@pytest.mark.torch_xla
def test_marks_of_torch_xla_are_kept() -> None:
    done = run_python(
        MARKED,
        PJRT_DEVICE="CPU",
        CPU_NUM_DEVICES="4",
        XLA_FLAGS="--xla_force_host_platform_device_count=4",
    )
    report = json.loads(done.succeeded().stdout.splitlines()[-1])
    (gspmd,) = report["gspmd"]
    assert "custom_call @Sharding" in gspmd
    assert 'mhlo.sharding = "{devices=[1,4]<=[4]}"' in gspmd
    (shardy,) = report["shardy"]
    assert "sdy.sharding_constraint" in shardy
    assert '<@mesh, [{}, {"model"}]>' in shardy
    for form in ("gspmd", "shardy"):
        assert report[f"{form} alone"] == pytest.approx(report["eager"], rel=1e-6)
        assert report[f"{form} divided"] == pytest.approx(report["eager"], rel=1e-6)
    assert report["no mesh"].startswith("the module marks a value as {devices=[1,4]0,1,2,3}; pass")
    assert report["another"].endswith("which does not divide the mesh")
    assert report["kept"] == [[["model"], []], None, [["data"], []]]
    assert report["other"] == [[[], ["data"]], None, [["data"], []]]
    assert report["no grid"].startswith("param:weight is marked as {devices=[2,1,2]0,2,1,3")
    assert report["no grid"].endswith("pass the mesh of this mark as mesh=")


@pytest.mark.torch_xla
@pytest.mark.parametrize("mesh", [None, {"model": 4}])
def test_norms_are_sums_where_devices_share_the_program(mesh: dict[str, int] | None) -> None:
    # XLA's partitioner gathers the operands of batch norms.
    torch.manual_seed(0)
    norm = torch.nn.LayerNorm(8)
    module = torch.nn.Sequential(norm, torch.nn.Flatten(0), Calling(lambda x: x.square().sum()))
    program = composites.export(module, (torch.randn(4, 8),), train=True, ops=("all",), mesh=mesh)
    assert ("batch_norm" in program.mlir) == (mesh is None)
    assert program.composites["ptxla.layer_norm"] == 1
    x = np.random.default_rng(0).standard_normal((4, 8), np.float32)
    weights = {n: v.detach().numpy() for n, v in program.module_weights(module).items()}
    results = program.run({**weights, "arg:0": x})
    module(torch.from_numpy(x)).backward()
    gradient = norm.weight.grad
    assert gradient is not None
    np.testing.assert_allclose(results["grad:0.weight"], gradient.numpy(), rtol=1e-5, atol=1e-5)


def test_batch_and_heads_stay_apart_in_products() -> None:
    attend = torch.nn.functional.scaled_dot_product_attention
    module = Calling(lambda x: attend(x, x, x))
    program = composites.export(module, (torch.randn(2, 4, 6, 8),), mesh={"model": 2})
    products = [line for line in program.mlir.splitlines() if "dot_general" in line]
    assert len(products) == 2
    assert all("batching_dims = [0, 1] x [0, 1]" in line for line in products)
