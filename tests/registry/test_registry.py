"""The built-in registry, and what an entry may say."""

from pathlib import Path

import pytest

from composites.contracts.model import AttributeSpec
from composites.errors import RegistryError
from composites.registry.catalog import builtin_registry
from composites.registry.listed_kernels import listed_in, listed_tolerances
from composites.registry.model import Decomposition, When
from composites.registry.packages import builtin_registry_path
from composites.registry.validation import load_registry
from composites.registry.yaml_text import read_yaml, registry_text


def test_every_forward_has_its_backward() -> None:
    builtin = builtin_registry()
    backwards = {entry.name for entry in builtin.composites if entry.name.endswith("_backward")}
    pairs = ((e.name, e.backward) for e in builtin.composites if not e.derives)
    paired = {name: backward for name, backward in pairs if backward}
    assert set(paired.values()) == backwards
    irregular = {"batch_norm_inference": "batch_norm_backward", "relu": "threshold_backward"}
    irregular["embedding"] = "embedding_dense_backward"
    assert paired == {name: f"{name}_backward" for name in paired} | irregular


def test_libyaml_and_pyyaml_read_the_built_in_file_alike() -> None:
    path = str(builtin_registry_path())
    text = registry_text(path)
    ours, plain = read_yaml(text, path), read_yaml(text, "acme.yaml")
    assert ours.data["composites"]
    assert (ours.data, ours.lines) == (plain.data, plain.lines)


def test_an_entry_with_everything_prints_back() -> None:
    entry = load_registry(Path(__file__).parent / "files" / "everything.yaml").composites[0]
    assert entry.qualified == "acme.v2.mean$.fast"
    assert entry.attributes == (
        AttributeSpec("dims", "i64[]", argument="dim", normalize=True, optional=True),
        AttributeSpec("keepdim", "bool", argument="keepdim"),
        AttributeSpec("flavour", "string", value='a "b"'),
        AttributeSpec("tile", "i64[]", value=(8, 128)),
        AttributeSpec("scales", "f32[]", value=(1, 0.5)),
        AttributeSpec("mask", "bool[]", value=(True, False)),
        AttributeSpec("accumulator", "string", argument="dtype", optional=True),
    )
    assert entry.when == When((("keepdim", (True, False)),), ("bf16", "f32"), (2, 3))
    assert entry.decomposition == Decomposition("torch", "torch:mean")


def test_a_file_that_extends_others(tmp_path: Path) -> None:
    def extending(file: str, keys: str, composites: str = "{}") -> list[str]:
        path = tmp_path / file
        path.write_text(f"schema: 2\nnamespace: acme\n{keys}composites: {composites}\n")
        return [entry.name for entry in load_registry(path).composites]

    extending(
        "base.yaml",
        "",
        "{gelu: aten::gelu, gelu_backward: aten::gelu_backward, silu: aten::silu,"
        " tanh: {op: aten::tanh, composite: silu}}",
    )
    base = "extends: {base.yaml: [%s]}\n"
    assert extending("all.yaml", base % "") == ["gelu", "gelu_backward", "silu", "tanh"]
    assert extending("named.yaml", base % "silu") == ["silu", "tanh"]
    assert extending("backward.yaml", base % "gelu") == ["gelu", "gelu_backward"]
    rest = extending("rest.yaml", base % "-silu", "{exp: aten::exp}")
    assert rest[1:] == ["gelu_backward", "exp"]


@pytest.mark.parametrize(
    ("included", "message"),
    [("{acme.yaml: [e]}", "cannot extend itself"), ("{other.yaml: [f]}", "has no entry 'f'")],
)
def test_files_that_cannot_be_included(tmp_path: Path, included: str, message: str) -> None:
    entries = "composites:\n  e: aten::exp\n"
    (tmp_path / "other.yaml").write_text(f"schema: 1\nnamespace: acme\n{entries}")
    (tmp_path / "acme.yaml").write_text(
        f"schema: 1\nnamespace: acme\nextends: {included}\ncomposites: {{}}\n"
    )
    with pytest.raises(RegistryError, match=message):
        listed_in(tmp_path / "acme.yaml")


def test_the_tolerances_of_a_file_are_its_own() -> None:
    """Entries of one composite have the greatest tolerance; entries that are left out have none."""
    files = Path(__file__).parent / "files"

    def listed(name: str) -> dict[str, dict[str, float]]:
        tolerances = listed_tolerances(files / name).items()
        return {name: by_type for (name, _), by_type in tolerances if name.startswith("acme.")}

    own = {"acme.tanh": {"f32": 0.3, "bf16": 0.2}, "acme.exp": {}}
    own["acme.tanh_backward"] = {"f32": 0.1, "bf16": 0.2}
    assert listed("tolerances.yaml") == listed("tolerances_all.yaml") == own
    assert listed("tolerances_own.yaml") == {"acme.exp": {}, "acme.tanh": {"f32": 1}}
    assert [kernel.name for kernel in listed_in(files / "tolerances_all.yaml")] == ["acme_tanh"]
