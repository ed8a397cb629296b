"""`composites lock`, `diff` and `inspect --against`, with real registries."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from composites_testing.command_line import invoke
from composites_testing.golden import Parts, check_cases
from composites_testing.modules import Calling
from composites_testing.processes import run, run_python

import composites
from composites.contracts.changes import Effect, broken, changes
from composites.contracts.lock import lock_text, read_lock, write_lock
from composites.contracts.model import Lock
from composites.errors import MissingPackageError
from composites.registry.catalog import builtin_registry, load_catalog
from composites.registry.contracts import contracts
from composites.registry.packages import builtin_registry_path
from lowering import activation
from lowering.locking import lock_registry

pytestmark = pytest.mark.usefixtures("nothing_on")

LOCK = builtin_registry_path().with_suffix(".lock")
HEAD = "schema: 1\nnamespace: umbra\ncomposites:\n"
GELU = "  gelu: {op: aten::gelu, attributes: {approximate: approximate}}\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def written(entries: str, name: str = "umbra.yaml") -> str:
        (tmp_path / name).write_text(HEAD + entries)
        return str(tmp_path / name)

    return written


def lock(file: str) -> Lock:
    catalog = load_catalog([file], in_place=True)
    return lock_registry(catalog.registries[0], catalog)


def test_the_builtin_lock_says_what_the_registry_says() -> None:
    """The lock and the registry are equal but for decompositions (`composites lock --check`)."""
    registry = builtin_registry()
    now = Lock(registry.namespace, {}, tuple(contracts(registry)))
    differences = changes(read_lock(LOCK), now)
    wrong = [str(c) for c in differences if c.verdict is not Effect.UNKNOWN]
    assert not wrong, "run: composites lock registry.yaml -o registry.lock\n" + "\n".join(wrong)


def test_every_builtin_contract_has_a_canonical_call() -> None:
    """Only the contract whose operands torch_xla cannot have lacks a call."""
    without_calls = [c.entry for c in read_lock(LOCK).contracts if not c.calls]
    assert without_calls == ["ptxla.mx_linear"]


@pytest.mark.process
def test_a_lock_is_the_same_in_every_process(write: Callable[..., str], tmp_path: Path) -> None:
    entries = (
        GELU + "  norm: {op: aten::native_layer_norm, attributes: {eps: eps}, backward: derive,"
        " example: {input: 2x3xf32, normalized_shape: [3], weight: 3xf32, bias: 3xf32, eps: 0.1}}\n"
    )
    file = write(entries)
    expected = lock_text(lock(file))
    assert expected.count("sha256:") == 4  # gelu in two types, norm, and norm's backward
    output = tmp_path / "umbra.lock"
    command = ["lock", file, "-o", str(output)]
    script = f"from lowering.cli import main\nimport sys\nsys.argv[1:] = {command!r}\nmain()\n"
    done = run_python(script, XLA_COMPOSITE_OP="silu", PYTHONHASHSEED="7", PJRT_DEVICE="CPU")
    done.succeeded()
    assert output.read_text() == expected


def test_entries_without_an_example_say_why(write: Callable[..., str]) -> None:
    file = write(
        "  norm: {op: aten::native_layer_norm, backward: derive}\n"
        "  act: {function: 'torch.nn:GELU.forward', operands: [input]}\n"
        "  gone: {function: 'no_such_package:f', operands: [x]}\n"
        "  cat: {op: aten::cat, attributes: {dim: dim}, example: {tensors: []}}\n"
    )
    reasons = {c.composite: c.no_call for c in lock(file).contracts}
    no_guess = "no call of aten::native_layer_norm is easily guessed; give one with `example`"
    assert reasons == {
        "umbra.norm": no_guess,
        "umbra.norm_backward": no_guess,
        "umbra.act": "torch.nn:GELU.forward is a method, and its object cannot be guessed",
        "umbra.gone": "there is no module no_such_package",
        "umbra.cat": "the example call failed: ValueError: torch.cat(): expected a non-empty list"
        " of Tensors",
    }


def test_without_torch_xla_the_rest_is_locked(
    write: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MissingPackageError("torch_xla is not installed")

    whole = lock(write(GELU))
    monkeypatch.setattr(activation, "backend", missing)
    bare = lock(write(GELU))
    assert (bare.made_with, bare.contracts[0].calls) == ({}, ())
    assert bare.contracts[0].no_call == "nothing was lowered: torch_xla is not installed"
    assert [change.verdict for change in changes(whole, bare)] == [Effect.UNKNOWN]


def test_a_broken_decomposition_is_an_error(write: Callable[..., str], module_folder: Path) -> None:
    text = "def gelu(self, *, approximate): return self.nothing\n"
    (module_folder / "locked_ops.py").write_text(text)
    file = write("  gelu: {op: aten::gelu, decomposition: 'locked_ops:gelu'}\n")
    result = invoke("lock", file, "-o", str(module_folder / "umbra.lock"))
    assert result.exit_code == 1
    assert f"{file}:4: umbra.gelu: decomposition locked_ops:gelu failed" in result.stderr
    assert not (module_folder / "umbra.lock").exists()


DECOMPOSITION = """
import torch
def scaled(self: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    return self * {factor}
"""


def test_a_changed_decomposition(write: Callable[..., str], module_folder: Path) -> None:
    """The file says the same before and after: the function is another one."""
    for module, factor in (("umbra_one", 2), ("umbra_same", 2), ("umbra_other", 3)):
        (module_folder / f"{module}.py").write_text(DECOMPOSITION.format(factor=factor))
    locks = {
        module: lock(write(f"  gelu: {{op: aten::gelu, decomposition: '{module}:scaled'}}\n"))
        for module in ("umbra_one", "umbra_same", "umbra_other")
    }
    moved = changes(locks["umbra_one"], locks["umbra_same"])
    assert [change.verdict for change in moved] == [Effect.SAME]
    other = broken(changes(locks["umbra_one"], locks["umbra_other"]))
    assert [change.what for change in other] == [
        "the decomposition changed for tensor<2x3xf32> {}",
        "the decomposition changed for tensor<2x3xbf16> {}",
    ]


@pytest.mark.slow
def test_lock_refuses_a_changed_meaning(write: Callable[..., str], tmp_path: Path) -> None:
    output = str(tmp_path / "umbra.lock")
    assert invoke("lock", write(GELU), "-o", output).stdout == (
        f"{output}: 1 contracts, 1 with a decomposition's hash\n"
    )
    assert invoke("lock", write(GELU), "-o", output, "--check").exit_code == 0
    before = Path(output).read_text()
    bare = write("  gelu: {op: aten::gelu}\n")
    refused = invoke("lock", bare, "-o", output)
    assert refused.exit_code == 1
    assert refused.stderr == (
        "error: the meaning changed and `version` was not raised; raise it for umbra.gelu (now 1);"
        " or, if kernels for the old form are still right, write the lock with"
        f" --same-meaning COMPOSITE. {output} was not changed:\n"
        "  umbra.gelu version 1: attribute approximate removed (version not raised)\n"
    )
    assert Path(output).read_text() == before
    wrong = invoke("lock", bare, "-o", output, "--same-meaning", "umbra.glue")
    assert "--same-meaning umbra.glue: " in wrong.stderr
    assert invoke("lock", bare, "-o", output, "--same-meaning", "umbra.gelu").exit_code == 0
    assert Path(output).read_text() != before
    raised = write("  gelu: {op: aten::gelu, version: 2, attributes: {approximate: approximate}}\n")
    stale = invoke("lock", raised, "-o", output, "--check")
    assert stale.stderr == f"error: {output} is stale; run: composites lock {raised} -o {output}\n"
    assert invoke("lock", raised, "-o", output).exit_code == 0
    assert [r.version for r in read_lock(Path(output)).retired] == [1]
    assert invoke("lock", raised, "-o", output, "--check").exit_code == 0
    again = invoke("lock", write(GELU), "-o", output)
    assert "this number was used before" in again.stderr or "lower than" in again.stderr


@pytest.mark.slow
def test_diff_of_files_and_locks(write: Callable[..., str], tmp_path: Path) -> None:
    old, bare = write(GELU, "old.yaml"), write("  gelu: {op: aten::gelu}\n", "bare.yaml")
    raised = write("  gelu: {op: aten::gelu, version: 2}\n", "raised.yaml")
    locked = tmp_path / "old.lock"
    write_lock(lock(old), locked)
    assert invoke("diff", old, str(locked)).stdout == "no changes\n"
    changed = invoke("diff", str(locked), bare)
    assert changed.exit_code == 1
    assert "umbra.gelu version 1: attribute approximate removed (version not raised)" in (
        changed.stdout.splitlines()
    )
    assert changed.stderr == (
        "error: the meaning changed and `version` was not raised; raise it for umbra.gelu (now 1)\n"
    )
    good = invoke("diff", str(locked), raised, "--json")
    assert good.exit_code == 0
    data = json.loads(good.stdout)
    assert data["compatible"]
    what = [change["what"] for change in data["changes"]]
    assert what == ["raised from version 1", "attribute approximate removed"]
    assert invoke("diff", str(locked), str(tmp_path / "no.lock")).stderr == (
        f"error: {tmp_path / 'no.lock'}: cannot be read: No such file or directory\n"
    )


MODULE = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.composite NAME %x {composite_attributes = ATTRIBUTES, decomposition = @impl,
    version = VERSION : i32} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @impl(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }
"""


def module(name: str, attributes: str, version: int = 1) -> str:
    text = MODULE.replace("NAME", f'"{name}"').replace("ATTRIBUTES", attributes)
    return text.replace("VERSION", str(version))


def test_inspect_against_a_lock(tmp_path: Path) -> None:
    """Another entry makes ptxla.gelu with a constant."""
    file = tmp_path / "module.mlir"
    against = (str(file), "--against", str(LOCK))

    def output(parts: Parts) -> str:
        name, attributes, version = (part.strip() for part in parts.values())
        file.write_text(module(name, attributes, int(version)))
        result = invoke("inspect", *against)
        if result.exit_code == 0:
            return result.stdout.replace(str(LOCK), "registry.lock")
        (row,) = json.loads(invoke("inspect", *against, "--json").stdout)["not_understood"]
        assert row["reason"] in result.stdout
        assert (row["composite"], row["version"], row["count"]) == (name, int(version), 1)
        return f"exit code {result.exit_code}: {row['reason']}\n"

    check_cases(Path(__file__).parent / "golden" / "against.txt", output)


LISTS = """\
  cat: {op: aten::cat, attributes: {dim: dim}, example: {tensors: [2x3xf32, 4x3xf32]}}
  add: {op: aten::_foreach_add.List, attributes: {alpha: alpha}, backward: derive}
"""


def test_lists_are_locked_as_such(write: Callable[..., str], tmp_path: Path) -> None:
    made = lock(write(LISTS))
    cat, add, backward = made.contracts
    assert [operand.variadic for operand in (*cat.operands, *add.operands)] == [True] * 3
    assert [c.operands for c in cat.calls] == [("tensor<2x3xf32>", "tensor<4x3xf32>")]
    assert [a.name for a in cat.attributes] == ["dim"]
    assert [a.name for a in add.attributes] == ["alpha", "operand_segment_sizes"]
    assert (add.results, backward.results) == (None, None)
    write_lock(made, tmp_path / "lists.lock")
    assert read_lock(tmp_path / "lists.lock") == made


WITH_LISTS: list[tuple[int, str | None, str | None]] = [
    (4, "dense<[2, 2]> : tensor<2xi64>", None),
    (4, "dense<[1, 3]> : tensor<2xi64>", None),
    (3, "dense<[2, 2]> : tensor<2xi64>", "has 3 operands, and operand_segment_sizes says 4"),
    (4, "dense<[2, 1, 1]> : tensor<3xi64>", "has 3 sizes, and the lock has 2 operands"),
    (4, None, "attribute operand_segment_sizes is missing"),
]


def test_calls_with_lists_against_a_lock(write: Callable[..., str], tmp_path: Path) -> None:
    made, file = tmp_path / "lists.lock", tmp_path / "module.mlir"
    write_lock(lock(write(LISTS)), made)
    for count, sizes, reason in WITH_LISTS:
        segment_sizes = f", operand_segment_sizes = {sizes}" if sizes else ""
        text = module("umbra.add", f"{{alpha = 1.0 : f32{segment_sizes}}}")
        text = text.replace(" %x {", f" {', '.join(['%x'] * count)} {{").replace(
            ": (tensor<2xf32>)", f": ({', '.join(['tensor<2xf32>'] * count)})"
        )
        parameters = ", ".join(f"%x{n}: tensor<2xf32>" for n in range(count))
        text = text.replace(
            "@impl(%x: tensor<2xf32>) -> tensor<2xf32> { return %x",
            f"@impl({parameters}) -> tensor<2xf32> {{ return %x0",
        )
        file.write_text(text)
        result = invoke("inspect", str(file), "--against", str(made))
        assert (result.exit_code == 0) == (reason is None), result.stdout + result.stderr
        assert reason is None or reason in " ".join(result.stdout.split())


@pytest.mark.slow
def test_exports_are_understood_with_the_lock(tmp_path: Path) -> None:
    layers = (torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Dropout(0.5))
    loss = Calling(lambda x: x.square().sum())
    step = torch.nn.Sequential(*layers, torch.nn.Softmax(-1), loss)
    optimizer = torch.optim.AdamW
    program = composites.export(step, (torch.ones(2, 4),), optimizer=optimizer, ops=["all"])
    program.module.write(tmp_path / "step.mlir")
    assert len(program.composites) > 5
    result = invoke("inspect", str(tmp_path / "step.mlir"), "--against", str(LOCK))
    assert (result.exit_code, result.stderr) == (0, ""), result.stdout


@pytest.mark.process
def test_against_a_lock_needs_no_torch(tmp_path: Path) -> None:
    file = tmp_path / "module.mlir"
    file.write_text(module("ptxla.silu", "{}"))
    command = ["inspect", str(file), "--against", str(LOCK)]
    done = run_python(
        "import sys\n"
        "sys.modules['torch'] = sys.modules['torch_xla'] = None\n"
        f"sys.argv[1:] = {command!r}\n"
        "from lowering.cli import main\nmain()\n"
    )
    assert done.stdout.startswith("all 1 composites match "), done.stderr


@pytest.mark.process
def test_the_action_and_the_hook_compare_with_the_base_branch(
    write: Callable[..., str], tmp_path: Path
) -> None:
    root, branch = Path(__file__).parents[2], tmp_path / "branch"
    files = (root / name for name in (".pre-commit-hooks.yaml", "action.yml"))
    (*_, hook), action = (yaml.safe_load(file.read_text()) for file in files)
    script, command = str(root / hook["entry"]), action["runs"]["steps"][-1]["run"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {"FILE": "umbra.lock", "BASE": "main", "GITHUB_ACTION_PATH": str(root)}
    write_lock(lock(write(GELU)), tmp_path / "umbra.lock")
    commit = "git add umbra.lock; git -c user.name=a -c user.email=a@b commit -qm first"
    run("bash", "-ec", f"git init -qb main; {commit}; git clone -q . branch", cwd=tmp_path)
    for entries, code, message in (
        (GELU + "  erf: {op: aten::erf}\n", 0, "umbra.erf version 1: added (new version)\n"),
        ("  gelu: {op: aten::gelu}\n", 1, "attribute approximate removed (version not raised)\n"),
    ):
        write_lock(lock(write(entries)), branch / "umbra.lock")
        for parts in ((script, "umbra.lock"), ("bash", "-c", command)):
            done = run(*parts, cwd=branch, PATH=path, **variables)
            assert (done.code, done.stdout[-len(message) :]) == (code, message), done.stderr
    assert "nothing to compare" in run(script, "new.lock", cwd=branch).succeeded().stdout
