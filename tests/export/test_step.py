"""`Program.compile`: a step with its state on the device, its numbers, checkpoints and errors."""

import copy
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from composites_testing.processes import run_python
from jax.extend import backend
from safetensors.torch import load_file

import composites
from composites import Program, ProgramError, UnsupportedCallError
from lowering.export.partitioning import platform_name
from lowering.export.step import Step
from lowering.stablehlo import BindError, RunError, StableHLOError

Optimizer = Callable[..., torch.optim.Optimizer]


class Classifier(torch.nn.Module):
    """A small model with batch norm, a weight that it has twice, and one that it never reads."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.dropout = torch.nn.Dropout(dropout)
        self.unread = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        hidden = self.dropout(torch.nn.functional.gelu(self.first(self.norm(x))))
        return torch.nn.functional.cross_entropy(self.second(hidden), labels)


class Logits(torch.nn.Module):
    """A model for inference."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, unread: Any = None, *, scale: torch.Tensor) -> Any:
        return torch.nn.functional.gelu(self.linear(x)).softmax(-1) * scale


ADAMW = partial(torch.optim.AdamW, lr=1e-2)
X = torch.linspace(-2, 2, 24).reshape(6, 4).sin()
LABELS = torch.tensor([0, 1, 2, 3, 2, 1])


@pytest.fixture(scope="module")
def program() -> Program:
    return composites.export(Classifier(), (X, LABELS), optimizer=ADAMW)


@pytest.fixture(scope="module")
def step(program: Program) -> Step:
    return program.compile()


@pytest.fixture
def model() -> Classifier:
    torch.manual_seed(0)
    return Classifier()


@pytest.fixture(scope="module")
def inference() -> Program:
    return composites.export(Logits(), (X,), {"scale": torch.tensor(2.0)})


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    """The losses of PyTorch."""
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(X, LABELS)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of(step: Step, state: Any, steps: int) -> tuple[list[float], Any]:
    losses = []
    for _ in range(steps):
        loss, state = step(state, X, LABELS)
        losses.append(float(loss))
    return losses, state


# ---- numbers ----


def test_a_checkpoint_goes_on_in_pytorch(step: Step, model: Classifier, tmp_path: Path) -> None:
    _, state = losses_of(step, step.init(model), 3)
    step.save(state, tmp_path / "checkpoint")
    expected, _ = losses_of(step, state, 5)

    restored = Classifier()
    restored.load_state_dict(load_file(tmp_path / "checkpoint" / "model.safetensors"))
    assert restored.norm.num_batches_tracked == 3
    optimizer = ADAMW(restored.parameters())
    parameters = dict(restored.named_parameters())
    for name, value in load_file(tmp_path / "checkpoint" / "training.safetensors").items():
        owner, _, key = name.removeprefix("state:").rpartition(".")
        optimizer.state[parameters[owner]][key] = value
    assert train(restored, optimizer, 5) == pytest.approx(expected, rel=1e-4)


def test_training_that_pytorch_began_goes_on(step: Step, model: Classifier) -> None:
    optimizer = ADAMW(model.parameters())
    train(model, optimizer, 3)
    losses, _ = losses_of(step, step.init(model, optimizer=optimizer), 5)
    assert losses == pytest.approx(train(model, optimizer, 5), rel=1e-4)


def test_a_checkpoint_has_the_same_bits(step: Step, model: Classifier, tmp_path: Path) -> None:
    _, state = losses_of(step, step.init(model), 2)
    step.save(state, tmp_path / "one")
    again = step.load(tmp_path / "one")
    step.save(again, tmp_path / "two")
    for name in ("model.safetensors", "training.safetensors"):
        files = load_file(tmp_path / "one" / name), load_file(tmp_path / "two" / name)
        assert list(files[0]) == list(files[1])
        assert all(torch.equal(value, files[1][key]) for key, value in files[0].items())
    first, second = (losses_of(step, initial, 3)[0] for initial in (state, again))
    assert first == second
    # The weight that the module has twice, and the one that the program never reads.
    saved = load_file(tmp_path / "two" / "model.safetensors")
    assert torch.equal(saved["first.weight"], saved["second.weight"])
    assert torch.equal(saved["unread"], torch.ones(3))


def test_weights(step: Step, model: Classifier, tmp_path: Path) -> None:
    """Names and values that are given in any form mean the same, and are copied."""
    before = copy.deepcopy(model.state_dict())
    named: dict[str, torch.Tensor]
    named = {f"param:{name}": value for name, value in model.named_parameters()}
    named |= {f"buffer:{name}": value for name, value in model.named_buffers()}
    forms: dict[str, Any] = {
        "module": model,
        "state_dict": model.state_dict(),
        "input names": named,
        "numpy": {name: value.numpy() for name, value in model.state_dict().items()},
        "state": step.init(model).values,
    }
    losses = []
    for form, weights in forms.items():
        own, state = losses_of(step, step.init(weights), 3)
        losses.append(own)
        if form in ("state_dict", "numpy"):
            step.save(state, tmp_path / form)
            saved = load_file(tmp_path / form / "model.safetensors")
            Classifier().load_state_dict(saved)
            assert torch.equal(saved["first.weight"], saved["second.weight"])
    assert losses == [losses[0]] * len(forms)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["NAdam", "SGD", "Adamax", "Rprop", "AdamW"])
def test_optimizers_start_as_in_pytorch(model: Classifier, name: str) -> None:
    by_name: dict[str, dict[str, Any]] = {"SGD": {"momentum": 0.9}, "AdamW": {"fused": True}}
    options = by_name.get(name, {})
    optimizer: Optimizer = partial(getattr(torch.optim, name), lr=1e-2, **options)
    step = composites.export(model, (X, LABELS), optimizer=optimizer).compile()
    updating, state = optimizer(model.parameters()), None
    if name == "Rprop":
        with pytest.raises(ProgramError, match=r"state:first\.weight\.step_size.*optimizer="):
            step.init(model)
        train(model, updating, 1)
        state = step.init(model, optimizer=updating)
    losses, _ = losses_of(step, state or step.init(model), 4)
    assert losses == pytest.approx(train(model, updating, 4), rel=1e-4)


def test_random_numbers_follow_from_the_seed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Classifier(dropout=0.5)
    sgd = partial(torch.optim.SGD, lr=0.0)  # nothing but the random numbers differs
    step = composites.export(model, (X, LABELS), optimizer=sgd).compile()
    first, second, other = (losses_of(step, step.init(model, seed=s), 4)[0] for s in (1, 1, -2))
    assert first == second
    assert len({*first, *other}) == 8
    for seed, message in (
        (0.5, "seed must be an integer"),
        (2**63, f"signed 64-bit integer, not {2**63}"),
        (-(2**63) - 1, f"signed 64-bit integer, not {-(2**63) - 1}"),
    ):
        with pytest.raises(ProgramError, match=message):
            step.init(model, seed=seed)  # type: ignore[arg-type]
    # The seed is in a checkpoint.
    _, state = losses_of(step, step.init(model, seed=3), 2)
    step.save(state, tmp_path)
    assert losses_of(step, step.load(tmp_path), 3)[0] == losses_of(step, state, 3)[0]


def test_inference(inference: Program) -> None:
    model = Logits()
    step = inference.compile()
    state = step.init(model)
    for scale in (2.0, torch.tensor(3.0)):
        outputs, following = step(state, X, scale=scale)
        with torch.no_grad():
            expected = model(X, scale=torch.as_tensor(scale))
        np.testing.assert_allclose(outputs["out:0"], expected.numpy(), atol=1e-6)
        # A value that is not updated stays.
        assert following.values["param:linear.weight"] is state.values["param:linear.weight"]
        with pytest.raises(ProgramError, match="no argument 'scal'; did you mean 'scale'"):
            step(state, X, scal=scale)


def test_gradients_take_the_weights_of_a_step(step: Step, model: Classifier) -> None:
    _, state = losses_of(step, step.init(model), 2)
    other = composites.export(model, (X, LABELS), train=True).compile()
    results, after = other(other.init(state.values), X, LABELS)
    assert "grad:first.weight" in results
    assert int(after.values["buffer:norm.num_batches_tracked"]) == 3
    assert float(results["loss"]) == losses_of(step, state, 1)[0][0]


# ---- state ----


def test_the_state_is_donated(step: Step, model: Classifier, tmp_path: Path) -> None:
    state = step.init(model)
    before = dict(state.values)
    step(state, X, LABELS)
    assert before["param:first.weight"].is_deleted()
    assert before["state:first.weight.exp_avg"].is_deleted()
    for again in (partial(step, state, X, LABELS), partial(step.save, state, tmp_path / "folder")):
        with pytest.raises(ProgramError, match=r"passed to a call before.*param:\S+ is deleted"):
            again()
    assert not (tmp_path / "folder").exists()


def test_a_state_that_is_kept(program: Program, model: Classifier) -> None:
    step = program.compile(donate=False)
    state = step.init(model)
    assert losses_of(step, state, 2)[0] == losses_of(step, state, 2)[0]


# ---- mistakes ----


WRONG_WEIGHTS: tuple[tuple[Callable[[Classifier], Any], str], ...] = (
    (
        lambda model: {n: v for n, v in model.state_dict().items() if n != "first.bias"},
        "weights are missing: param:first.bias",
    ),
    (
        lambda model: {n.replace("t.bias", "t.bios"): v for n, v in model.state_dict().items()},
        "missing: param:first.bias; did you mean 'first.bios'",
    ),
    (
        lambda model: model.state_dict() | {"first.bias": torch.ones(5)},
        r"param:first.bias has shape \(4,\), but its value has shape \(5,\)",
    ),
    (
        lambda model: model.state_dict() | {"first.bias": torch.ones(4).double()},
        "param:first.bias has dtype float32, but its value has float64",
    ),
    (
        lambda model: model.state_dict() | {"first.bias": "text"},
        "the value of param:first.bias must be a torch tensor",
    ),
    (lambda model: 3, "weights must be a torch module"),
    (lambda model: {3: model.first.bias}, "names of weights must be text, not 3"),
)


def test_wrong_weights(step: Step, model: Classifier) -> None:
    for make, message in WRONG_WEIGHTS:
        with pytest.raises(ProgramError, match=message):
            step.init(make(model))
    with pytest.raises(ProgramError, match="optimizer must be a torch optimizer"):
        step.init(model.state_dict(), optimizer=ADAMW(model.parameters()))


WRONG_BATCHES: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "shape": ((X[:2], LABELS), {}, RunError, r"input arg:0 is tensor<6x4xf32>, got .*\(2, 4\)"),
    "dtype": ((X, LABELS.int()), {}, RunError, "input arg:1 is tensor<6xi64>, got .* int32"),
    "missing": ((X,), {}, ProgramError, r"the batch lacks arg:1; the program takes arg:0 \("),
    "too many": ((X, LABELS, X), {}, ProgramError, "has 3 positional .* reads 2 of them"),
    "by name": ((X,), {"labels": LABELS}, ProgramError, "reads no argument 'labels'"),
    "a list": ((X, [1, 2]), {}, ProgramError, r"lacks arg:1; .* arg:1 \(tensor<6xi64>\)$"),
    "a text": ((X, "labels"), {}, ProgramError, "the value of arg:1 must be a torch tensor"),
}


def test_wrong_batches(step: Step, model: Classifier) -> None:
    state = step.init(model)
    for batch, named, kind, message in WRONG_BATCHES.values():
        with pytest.raises(kind, match=message):
            step(state, *batch, **named)
    losses_of(step, state, 1)  # nothing was donated


def test_wrong_states(step: Step, inference: Program) -> None:
    with pytest.raises(ProgramError, match="the state must be one that init, load or a call"):
        step({}, X, LABELS)  # type: ignore[arg-type]
    other = inference.compile()
    with pytest.raises(ProgramError, match="belongs to another program: param:norm"):
        step(other.init(Logits()), X, LABELS)


def test_wrong_folders(step: Step, inference: Program, model: Classifier, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    state = step.init(model)
    with pytest.raises(ProgramError, match=r"something other than a checkpoint \(a\.txt\)"):
        step.save(state, tmp_path / "notes")
    with pytest.raises(ProgramError, match=r"model\.safetensors cannot be read"):
        step.load(tmp_path / "none")
    with pytest.raises(ProgramError, match="must be a path"):
        step.load(3)  # type: ignore[arg-type]
    step.save(state, tmp_path / "checkpoint")
    with pytest.raises(ProgramError, match="not a checkpoint of this program: it lacks param:"):
        inference.compile().load(tmp_path / "checkpoint")
    path = tmp_path / "checkpoint" / "training.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ProgramError, match=r"training\.safetensors is damaged"):
        step.load(tmp_path / "checkpoint")


def test_wrong_platforms(program: Program) -> None:
    with pytest.raises(RunError, match="jax has no platform 'tpu'"):
        program.compile("tpu")
    with pytest.raises(ProgramError, match="the platform must be a name"):
        program.compile(3)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="has no shardings for several devices"):
        program.compile(mesh=object())
    with pytest.raises(ProgramError, match="compiled programs cannot be kept in"):
        program.compile(cache=__file__)


# ---- kernels ----


def gelu(x: jax.Array, *, approximate: str) -> jax.Array:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


def twice(x: jax.Array, *, dim: int) -> jax.Array:
    if dim == -1 or dim == x.ndim - 1:
        raise UnsupportedCallError("the last dimension has a kernel elsewhere")
    return jax.nn.softmax(x, axis=dim)


def fails(x: jax.Array, *, approximate: str) -> jax.Array:
    raise ValueError("boom")


def test_kernels(inference: Program) -> None:
    step = inference.compile(kernels={"ptxla.gelu@1": gelu, "ptxla.softmax": twice})
    uses = {use.composite: (use.count, use.kernel, use.reason) for use in step.kernels}
    assert uses == {
        "ptxla.gelu": (1, "gelu", None),
        "ptxla.softmax": (1, None, "twice: the last dimension has a kernel elsewhere"),
    }
    model = Logits()
    outputs, _ = step(step.init(model), X, scale=1.0)
    with torch.no_grad():
        expected = model(X, scale=torch.tensor(1.0))
    np.testing.assert_allclose(outputs["out:0"], expected.numpy(), atol=1e-6)


def test_a_kernel_is_what_runs(inference: Program) -> None:
    def zeros(x: jax.Array, *, approximate: str) -> jax.Array:
        return jnp.zeros_like(x)

    step = inference.compile(kernels={"ptxla.gelu": zeros})
    outputs, _ = step(step.init(Logits()), X, scale=1.0)
    np.testing.assert_allclose(outputs["out:0"], np.full((6, 4), 0.25), atol=1e-6)
    nothing: tuple[tuple[Any, str], ...] = (
        ("auto", "no kernel is listed for cpu"),
        (None, "the step was compiled without kernels"),
        ({}, "no kernel is given for it"),
    )
    for kernels, reason in nothing:
        step = inference.compile(kernels=kernels)
        assert [(use.kernel, use.reason) for use in step.kernels] == [(None, reason)] * 2


WRONG_KERNELS: tuple[tuple[Any, type[Exception], str], ...] = (
    ({"ptxla.gelu": fails}, BindError, r"ptxla\.gelu: fails cannot .*6x4xf32.*boom"),
    (
        {"ptxla.gelu": "nobody_has"},
        RunError,
        r"the kernel that fails is nobody_has for ptxla\.gelu@1\(tensor<6x4xf32>\)",
    ),
    ({"ptxla.gell": gelu}, StableHLOError, "did you mean 'ptxla.gelu'"),
    ({"ptxla.gelu": 3}, StableHLOError, "must be a JAX function or the name"),
    (["ptxla.gelu"], ProgramError, "no kernel is listed on cpu for 'ptxla.gelu'"),
    ("gelu", ProgramError, "kernels must be 'auto'"),
    ([gelu], ProgramError, "kernels must be 'auto'"),
)


def test_wrong_kernels(inference: Program) -> None:
    for kernels, kind, message in WRONG_KERNELS:
        with pytest.raises(kind, match=message):
            inference.compile(kernels=kernels)


def test_gpus_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs are told apart by the name of jax's client, since both platforms are `gpu`."""
    clients = {"cuda": object(), "rocm": object()}
    started = backend.backends()
    monkeypatch.setattr(backend, "backends", lambda: started | clients)
    for platform, client in clients.items():
        assert platform_name(SimpleNamespace(platform="gpu", client=client)) == platform
    assert platform_name(jax.devices("cpu")[0]) == "cpu"


# ---- profile ----


def test_profile(step: Step, model: Classifier) -> None:
    state = step.init(model)
    profile = step.profile((X, LABELS), state=state, seconds=0.001)
    assert profile.step > 0
    names = {row.call.composite: row for row in profile.calls}
    assert {"ptxla.gelu", "ptxla.gelu_backward", "ptxla.cross_entropy_loss"} <= set(names)
    assert all(row.seconds > 0 for row in profile.calls)
    assert "ptxla.gelu_backward" in str(profile)
    totals = [row.total for row in profile.calls]
    assert totals == sorted(totals, reverse=True)
    losses_of(step, state, 1)  # it is not used up

    by_name = composites.export(Logits(), (), {"x": X, "scale": torch.tensor(2.0)})
    kernels = by_name.compile(kernels={"ptxla.gelu": gelu})
    profile = kernels.profile({"x": X, "scale": 1.0}, seconds=0.001)
    taken = {row.call.composite: row.call.kernel for row in profile.calls}
    assert taken == {"ptxla.gelu": "gelu", "ptxla.softmax": None}


# ---- other processes ----

CHILD = """
import json, sys
import jax, numpy as np
from composites import Program

hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
program = Program.load(FOLDER + "/program")
step = program.compile(cache=FOLDER + "/cache")
state = step.load(FOLDER + "/checkpoint")
batch = np.load(FOLDER + "/batch.npz")
loss, state = step(state, batch["x"], batch["labels"])
step.save(state, FOLDER + "/next")
assert "torch" not in sys.modules
assert jax.config.jax_compilation_cache_dir is None
print(json.dumps([float(loss), hits.count("/jax/compilation_cache/cache_hits")]))
"""


@pytest.mark.process
def test_without_torch_and_from_the_cache(
    program: Program, step: Step, model: Classifier, tmp_path: Path
) -> None:
    program.save(tmp_path / "program")
    state = step.init(model)
    step.save(state, tmp_path / "checkpoint")
    np.savez(tmp_path / "batch.npz", x=X.numpy(), labels=LABELS.numpy())
    expected, _ = losses_of(step, state, 1)
    counts = []
    for _ in range(2):
        script = f"FOLDER = {str(tmp_path)!r}\n{CHILD}"
        finished = run_python(script, JAX_PLATFORMS="cpu", PJRT_DEVICE="CPU")
        loss, hits = json.loads(finished.succeeded().stdout.splitlines()[-1])
        assert loss == pytest.approx(expected[0], rel=1e-6)
        counts.append(hits)
    assert counts == [0, 1]
    Classifier().load_state_dict(load_file(tmp_path / "next" / "model.safetensors"))
