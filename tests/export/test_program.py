"""Programs on disk and off it: save, load, run."""

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from composites_testing.golden import Parts, check_cases
from composites_testing.modules import Computed
from safetensors.numpy import load_file

import composites
from composites import Program, ProgramError
from lowering.stablehlo import Limits, RunError, VersionError


@pytest.fixture(scope="module")
def small() -> tuple[torch.nn.Module, Program]:
    """gelu of a linear layer."""
    torch.manual_seed(0)
    module = Computed(lambda self, x: torch.nn.functional.gelu(self.linear(x)))
    return module, composites.export(module, (torch.ones(2, 4),))


def test_the_files_of_a_program(small: Any, tmp_path: Path) -> None:
    _, program = small
    program.save(tmp_path)
    assert names(tmp_path) == FILES
    assert (tmp_path / "program.mlir").read_text() == program.mlir
    # For releases of a year ago.
    assert b"StableHLO_v1.13.0\0" in (tmp_path / "program.mlirbc").read_bytes()
    assert json.loads((tmp_path / "manifest.json").read_text()) == {
        "format": 2,
        "inputs": [
            {"name": "param:linear.weight", "shape": [4, 4], "dtype": "f32", "updates": None},
            {"name": "param:linear.bias", "shape": [4], "dtype": "f32", "updates": None},
            {"name": "arg:0", "shape": [2, 4], "dtype": "f32", "updates": None},
        ],
        "outputs": [{"name": "out:0", "shape": [2, 4], "dtype": "f32", "updates": None}],
        "composites": {"ptxla.gelu": 1},
        "sha256": {
            name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
            for name in ("program.mlir", "program.mlirbc")
        },
    }


@pytest.mark.process
def test_a_program_that_crashes_jaxlib(small: Any, tmp_path: Path) -> None:
    """Whoever changes a program can change its hashes too."""
    _, program = small
    program.save(tmp_path)
    assert Program.load(tmp_path, limits=Limits()).mlir == program.mlir
    nested = f"module attributes {{a.b = {'[' * 10_000}{']' * 10_000}}} {{}}"
    (tmp_path / "program.mlir").write_text(nested)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["sha256"]["program.mlir"] = hashlib.sha256(nested.encode()).hexdigest()
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ProgramError) as caught:
        Program.load(tmp_path, limits=Limits())
    assert str(caught.value) == (
        f"{tmp_path} is damaged: {tmp_path / 'program.mlir'}: jaxlib crashed on it (SIGSEGV); the"
        " file may be damaged"
    )


def test_weights_are_written_on_request(small: Any, tmp_path: Path) -> None:
    """Weights are arrays of numpy, torch and jax, and arrays that share memory."""
    module, program = small
    shared = torch.arange(16.0).reshape(4, 4)
    for weights in (
        program.module_weights(module),
        {"param:linear.weight": module.linear.weight, "param:linear.bias": np.ones(4, "f4")},
        {"param:linear.weight": shared, "param:linear.bias": shared[1]},
        {"arg:0": jax.numpy.ones((2, 4))},
    ):
        program.save(tmp_path, weights=weights)
        written = load_file(tmp_path / "weights.safetensors")
        assert written.keys() == weights.keys()
        for name, value in weights.items():
            expected = value.detach().numpy() if isinstance(value, torch.Tensor) else value
            np.testing.assert_array_equal(written[name], expected)


class Scaling(torch.nn.Module):
    """Has a buffer that its `state_dict` leaves out, and a constant that torch.export lifts."""

    scales: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.offset = torch.tensor([1.0, 2.0, 3.0, 4.0])
        scales = torch.tensor([2.0, 3.0, 5.0, 7.0], dtype=torch.bfloat16)
        self.register_buffer("scales", scales, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.scales + self.offset


def test_values_that_no_state_dict_has(x: torch.Tensor, tmp_path: Path) -> None:
    """The program keeps such values, on disk and, where they exist, on the device `meta` too."""
    module = Scaling()
    expected = module(x).detach()
    graph = torch.export.export(module, (x,))
    for source in (module, graph):
        program = composites.export(source, (x,))
        program.save(tmp_path)
        for exported in (program, Program.load(tmp_path)):
            step = exported.compile("cpu")
            for weights in (source, module.state_dict()):
                outputs, _ = step(step.init(weights), x)
                np.testing.assert_allclose(outputs["out:0"], expected, rtol=1e-5)
            arrays = {f"param:{name}": value for name, value in module.state_dict().items()}
            for weights in (arrays, exported.module_weights(source)):
                outputs = exported.run(weights | {"arg:0": x})
                np.testing.assert_allclose(outputs["out:0"], expected, rtol=1e-5)
        state = step.init({**module.state_dict(), "scales": torch.ones(4, dtype=torch.bfloat16)})
        np.testing.assert_allclose(
            step(state, x)[0]["out:0"], (module.linear(x) + module.offset).detach(), rtol=1e-5
        )
    meta = composites.export(Scaling().to("meta"), (x,)).compile("cpu")
    refused(partial(meta.init, module.state_dict()), "weights are missing: buffer:scales")


def refused(call: Callable[[], object], message: str, kind: type[Exception] = ProgramError) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message


def test_a_save_that_fails_writes_nothing(small: Any, tmp_path: Path) -> None:
    module, program = small
    folder, file = tmp_path / "program", tmp_path / "file"
    with pytest.raises(VersionError, match=re.escape("StableHLO 99.0.0 cannot be written")):
        program.save(folder, portable="99.0.0")
    for weights, message in (
        (
            {"param:linear.wight": module.linear.weight},
            "there is no input 'param:linear.wight'; did you mean 'param:linear.weight'?",
        ),
        (
            {"param:linear.weight": torch.ones(4)},
            "param:linear.weight has shape (4, 4), but its value has shape (4,)",
        ),
        ({"arg:0": np.ones((2, 4))}, "arg:0 has dtype float32, but its value has float64"),
    ):
        refused(partial(program.save, folder, weights=weights), message)
    assert not folder.exists()
    file.write_text("mine")
    refused(lambda: program.save(file), f"{file} cannot be written: File exists")
    assert file.read_text() == "mine"


def test_a_manifest_that_cannot_be_read(folder: Path) -> None:
    manifest = folder / "manifest.json"
    content = json.loads(manifest.read_text())
    for text, message in (
        *(
            (json.dumps(content | {"format": number}), f"has format {number!r}; this version reads")
            for number in (4, True, 1.0, "2", None)
        ),
        (json.dumps({"format": 2, "outputs": []}), "is damaged: inputs is missing"),
        ('{"format"', "is not JSON: EOF while parsing an object at line 1 column 9"),
        ("[" * 100_000, "is not JSON: recursion limit exceeded"),
    ):
        manifest.write_text(text)
        with pytest.raises(ProgramError, match=re.escape(f"{manifest} {message}")):
            Program.load(folder)
    manifest.write_text(json.dumps(content))
    for missing in (folder / "program.mlir", manifest):
        missing.unlink()
        message = f"{missing} cannot be read: No such file or directory"
        refused(partial(Program.load, folder), message)


# ---- manifest.json and @main ----


@pytest.fixture(scope="module")
def saved(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`small` on disk; tests work on copies."""
    folder = tmp_path_factory.mktemp("saved") / "program"
    small[1].save(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "program"))


def change(folder: Path, edit: Callable[[Any], object]) -> None:
    """Edit the manifest in place."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def edit(manifest: Any, line: str) -> None:
    """Do what a line says: `a/0/b = VALUE`, `a/b += VALUE` or `a/0/b is removed`."""
    path, operation, value = re.fullmatch(r"(\S+) (=|\+=|is removed) ?(.*)", line).groups()  # type: ignore[union-attr]
    *outer, last = (int(part) if part.isdigit() else part for part in path.split("/"))
    for key in outer:
        manifest = manifest[key]
    match operation:
        case "=":
            manifest[last] = json.loads(value)
        case "+=" if isinstance(manifest[last], dict):
            manifest[last].update(json.loads(value))
        case "+=":
            manifest[last].append(json.loads(value))
        case _:
            del manifest[last]


def test_a_manifest_that_is_not_that_of_the_program(folder: Path) -> None:
    manifest = folder / "manifest.json"
    before = manifest.read_text()

    def message(parts: Parts) -> str:
        content = json.loads(before)
        for line in parts[""].splitlines():
            edit(content, line)
        manifest.write_text(json.dumps(content))
        with pytest.raises(ProgramError) as raised:
            Program.load(folder)
        return str(raised.value).replace(str(manifest), manifest.name)

    check_cases(Path(__file__).parent / "golden" / "manifests.txt", message)


def test_a_file_that_was_changed(small: Any, tmp_path: Path) -> None:
    module, program = small
    for name in ("program.mlir", "program.mlirbc", "weights.safetensors"):
        program.save(tmp_path, weights=program.module_weights(module))
        changed = tmp_path / name
        changed.write_bytes(changed.read_bytes() + b" ")
        refused(
            partial(Program.load, tmp_path),
            f"{changed} has changed since it was saved: its SHA-256 is not the one in"
            " manifest.json; save the program again",
        )
        changed.unlink()
        missing = f"{changed} cannot be read: No such file or directory"
        refused(partial(Program.load, tmp_path), missing)
        changed.touch()


class Writes(torch.nn.Module):
    """Buffers that are not read, that grow, and that change their type."""

    unread: torch.Tensor
    grown: torch.Tensor
    cast: torch.Tensor
    kept: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("unread", "grown", "cast", "kept"):
            self.register_buffer(name, torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.unread.fill_(2)
        self.grown = torch.cat([self.grown, x])
        self.cast = (self.cast + 1).half()
        self.kept += 1
        return x + 1


def test_an_output_updates_an_input_of_its_type(x: torch.Tensor, tmp_path: Path) -> None:
    program = composites.export(Writes(), (x,))
    assert {value.name: value.updates for value in program.outputs} == {
        "out:0": None,
        "buffer:unread": None,
        "buffer:grown": None,
        "buffer:cast": None,
        "buffer:kept": "buffer:kept",
    }
    program.save(tmp_path)
    assert Program.load(tmp_path).outputs == program.outputs


def test_two_values_with_one_name(x: torch.Tensor) -> None:
    twice = {"a.b": x, "a": {"b": x + 1}}
    returns = Computed(lambda self, x: {"a.b": x, "a": {"b": x + 1}})
    refused(
        lambda: composites.export(returns, (x,)),
        "two outputs have the name 'out:a.b'; rename a key of the result",
        composites.ExportError,
    )
    takes = Computed(lambda self, d: d["a.b"] * d["a"]["b"])
    refused(
        lambda: composites.export(takes, (twice,)),
        "two tensors of the call have the name 'arg:0.a.b'; rename a key",
        composites.ExportError,
    )


# ---- the folder is whole or not there ----


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


FILES = ["manifest.json", "program.mlir", "program.mlirbc"]


def test_a_program_is_replaced_as_a_whole(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program has the permissions of the umask; a link keeps pointing at its folder."""
    module, program = small
    (tmp_path / "link").symlink_to(tmp_path / "program")
    before = os.umask(0o027)
    try:
        program.save(tmp_path / "link", weights=program.module_weights(module))
        assert names(tmp_path / "program") == [*FILES, "weights.safetensors"]
        program.save(tmp_path / "link")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("program*")}
    assert modes == {"program": 0o750, "program.mlir": 0o640, "program.mlirbc": 0o640}
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path) == ["link", "program"]
    assert names(tmp_path / "program") == FILES
    monkeypatch.chdir(tmp_path / "program")
    refused(
        lambda: program.save("."),
        ". cannot be written: it is the working directory; name a folder in it",
    )


FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full", "interrupt"])
def test_a_save_that_fails_keeps_what_was_there(
    failing: int, error: BaseException, saved: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save can fail at each rename, or where a file is written."""
    program = Program.load(saved)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    rename, calls = os.rename, iter(range(3))

    def failing_rename(source: Path, target: Path) -> None:
        if next(calls, None) == failing:
            raise error
        rename(source, target)

    def failing_write(path: Path, content: bytes) -> None:
        raise error

    monkeypatch.setattr(os, "rename", failing_rename)
    if failing == 3:
        monkeypatch.setattr(Path, "write_bytes", failing_write)
    with pytest.raises((ProgramError, KeyboardInterrupt)) as raised:
        program.save(folder)
    if error is FULL:
        assert str(raised.value) == f"{folder} cannot be written: No space left on device"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert names(folder.parent) == ["program"]


def test_threads_save_to_one_folder(small: Any, tmp_path: Path) -> None:
    module, program = small
    folder = tmp_path / "program"
    weights = program.module_weights(module)

    def save(number: int) -> None:
        for turn in range(3):
            program.save(folder, weights=weights if (number + turn) % 2 else None)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(save, range(8)))
    assert Program.load(folder).mlir == program.mlir
    assert names(tmp_path) == ["program"]


def test_a_folder_with_something_else_is_kept(small: Any, tmp_path: Path) -> None:
    _, program = small
    for number, mine in enumerate(("notes.txt", "manifest.json", "data/", "program.mlir/")):
        folder = tmp_path / str(number)
        folder.mkdir()
        there = folder / mine
        there.mkdir() if mine.endswith("/") else there.write_text("mine")
        refused(
            partial(program.save, folder),
            f"{folder} contains something other than a program ({mine}); nothing is written. Name"
            " another folder, or a new one inside it",
        )
        assert names(folder) == [mine.strip("/")]
    program.save(tmp_path / "program")
    (tmp_path / "program" / "notes.txt").write_text("mine")
    with pytest.raises(ProgramError, match=r"something other than a program \(.*notes\.txt"):
        program.save(tmp_path / "program")
    assert names(tmp_path / "program") == sorted([*FILES, "notes.txt"])
    wrong = Program(program.module, program.inputs[:2], program.outputs)
    refused(
        lambda: wrong.save(tmp_path / "other"),
        "the program's inputs and outputs are not those of @main: @main has 3 inputs, and 2 are"
        " described",
    )
    assert not (tmp_path / "other").exists()


# ---- arguments ----

X = torch.ones(2, 4)
NOT_AN_ARRAY = "the value of arg:0 must be a torch tensor, a numpy array or a jax array, not"
PLATFORM = "the platform must be a name such as 'cpu' or 'cuda', not"
RUNS: list[tuple[dict[Any, Any], Any, str]] = [
    ({}, {}, "inputs are missing: param:linear.weight, param:linear.bias"),
    ({"param:linear.wight": X}, {}, "'param:linear.wight'; did you mean 'param:linear.weight'?"),
    ({1: X}, {}, "there is no input 1"),
    ({"arg:0": None}, {}, f"{NOT_AN_ARRAY} NoneType"),
    ({"arg:0": "x"}, {}, f"{NOT_AN_ARRAY} str"),
    ({"arg:0": [[1], [1, 2]]}, {}, f"{NOT_AN_ARRAY} list"),
    ({"arg:0": torch.ones(2, 4, device="meta")}, {}, "the value of arg:0 cannot be read: Cannot"),
    ({}, {"platform": None}, f"{PLATFORM} None"),
    ({}, {"platform": b"cpu"}, f"{PLATFORM} b'cpu'"),
    ({}, {"platform": ""}, f"{PLATFORM} ''"),
]


def test_values_that_cannot_be_run_with(small: Any) -> None:
    module, program = small
    weights = program.module_weights(module)
    for changed, options, message in RUNS:
        values = {**({} if "missing" in message else weights), "arg:0": X, **changed}
        with pytest.raises(ProgramError, match=re.escape(message)):
            program.run(values, **options)
    refused(
        lambda: program.run(),
        "the program takes 3 inputs, got 0; give one array for each of its inputs, or one mapping"
        " from their names",
    )
    with pytest.raises(RunError, match=re.escape("jax has no platform 'abacus' on this machine")):
        program.run({**weights, "arg:0": X}, platform="abacus")
    deleted = jax.numpy.ones((2, 4))
    deleted.delete()
    with pytest.raises(RunError, match=r"the arrays cannot be put on cpu: .*deleted"):
        program.run({**weights, "arg:0": deleted})


def test_what_cannot_be_saved(small: Any, tmp_path: Path) -> None:
    _, program = small
    folders: tuple[Any, ...] = (None, 3, "a\0b", "\ud800")
    for folder in folders:
        message = f"the folder must be a path, not {folder!r}"
        refused(partial(program.save, folder), message)
        refused(partial(Program.load, folder), message)
    for weights in ([1], "weights", torch.nn.Linear(4, 4)):
        refused(
            partial(program.save, tmp_path / "program", weights=weights),
            "weights must be a mapping from names of inputs to tensors, not"
            f" {type(weights).__name__}; program.module_weights(module) makes one",
        )
    with pytest.raises(ProgramError, match="the value of arg:0 cannot be read: Cannot copy"):
        program.save(tmp_path / "program", weights={"arg:0": torch.ones(2, 4, device="meta")})
    with pytest.raises(ProgramError, match=f"{NOT_AN_ARRAY} list"):
        program.save(tmp_path / "program", weights={"arg:0": [1.0]})
    version: Any = 1
    with pytest.raises(VersionError, match="1 is not a StableHLO version; write it like"):
        program.save(tmp_path / "program", portable=version)
    assert not list(tmp_path.iterdir())
