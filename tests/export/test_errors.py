"""Programs that cannot be exported, and the error for each."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from composites_testing.modules import CallingWithWeight, Computed

import composites
from composites import AllowlistError, ExportError
from lowering.stablehlo import RefusedOperationError


def refused(call: Callable[[], object], kind: type[Exception] = ExportError) -> str:
    """The message of the error that `call` raises, without the tensors of its traceback."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")


def sine_in_f64(x: torch.Tensor) -> torch.Tensor:
    return x.double().sin().float()


def gelu_in_f64(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x.double()).float()


@pytest.mark.parametrize("train", [False, True])
def test_what_a_target_refuses_has_its_line(train: bool) -> None:
    """LiteRT takes no f64, in an operator or in a composite."""
    for function, operation, operator, text in (
        (sine_in_f64, "sine of f64", "aten::sin", ".sin()"),
        (gelu_in_f64, "multiply of f64", "ptxla::gelu", "gelu(x.double())"),
    ):
        export = partial(composites.export, CallingWithWeight(function), (), train=train)
        message = refused(partial(export, target="litert"), RefusedOperationError)
        assert f"does not take stablehlo.{operation}, " in message
        file, line = re.findall(r", at (\S+):(\d+);", message)[0]
        assert f", from {operator}, at {file}" in message
        assert Path(file) == Path(__file__)
        assert text in Path(file).read_text(encoding="utf-8").splitlines()[int(line) - 1]


def test_a_loss_that_cannot_be_trained(x: torch.Tensor) -> None:
    for result, returned in (
        (lambda self, x: self.linear(x), "a tensor of shape (2, 4)"),
        (lambda self, x: self.linear(x).sum().reshape(1), "a tensor of shape (1,)"),
        (lambda self, x: {"x": x}, "dict"),
        (lambda self, x: "text", "str"),
    ):
        module = Computed(result)
        assert refused(partial(composites.export, module, (x,), train=True)) == (
            "with train=True, Computed must return a scalar loss: a tensor, an object with .loss,"
            f" or a tuple that starts with it; it returned {returned}"
        )
    module = Computed(lambda self, x: self.linear(x).sum().detach())
    assert refused(lambda: composites.export(module, (x,), train=True)) == (
        "the loss of Computed does not depend on any parameter that requires a gradient"
    )
    module = Computed(lambda self, x: {"text": "none"})
    assert refused(lambda: composites.export(module, (x,))) == "Computed returns no tensor"
    module = Computed(lambda self, x: {"rows": x + 1, "count": torch.zeros(3, device="cpu")})
    assert refused(lambda: composites.export(module, (x,))) == (
        "the result 'out:count' is a tensor on cpu; make it on the device of an input or a"
        " parameter, as torch.zeros(3, device=x.device), or register it as a buffer"
    )


SPARSE = "has the layout torch.sparse_{}; make it dense with .to_dense()"
NESTED = "is nested; pad it with torch.nested.to_padded_tensor"
nested = partial(torch.nested.nested_tensor, [torch.ones(2, 4), torch.ones(3, 4)])
LAYOUTS: tuple[tuple[Callable[[], torch.Tensor], str], ...] = (
    (torch.eye(4).to_sparse, SPARSE.format("coo")),
    (torch.eye(4).to_sparse_csr, SPARSE.format("csr")),
    (nested, NESTED),
    (partial(nested, layout=torch.jagged), NESTED),
)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:The PyTorch API of nested")
def test_sparse_and_nested_inputs(x: torch.Tensor) -> None:
    for make, advice in LAYOUTS:
        module, tensor = Computed(lambda self, x: self.linear(x)), make()
        message = refused(partial(composites.export, module, (tensor,)))
        assert message == f"arg:0 cannot be an input: it {advice}"
        module = Computed(lambda self, x: self.linear(x), mask=torch.nn.Parameter(tensor, False))
        message = refused(partial(composites.export, module, (x,)))
        assert message == f"param:mask cannot be an input: it {advice}"
    assert "it has no shape yet" in refused(lambda: composites.export(torch.nn.LazyLinear(2), (x,)))


def test_sparse_and_nested_tensors_inside(x: torch.Tensor) -> None:
    eye = torch.eye(2).to_sparse()
    for function, advice in (
        (lambda self, x: eye @ x, "make it dense with .to_dense()"),
        (lambda self, x: eye.to(x.device) @ x, "make it dense with .to_dense()"),
        (lambda self, x: torch.nested.as_nested_tensor([x, x]), "to_padded_tensor|no rule in JAX"),
    ):
        message = refused(partial(composites.export, Computed(function), (x,)))
        assert message.startswith(f"{__file__}:")
        assert re.search(advice, message)


class Counting(torch.optim.Optimizer):
    """Counts its steps as a Python number: for each parameter, for each group, or once."""

    def __init__(self, parameters: Any, holder: str) -> None:
        super().__init__(parameters, {})
        self.holder, self.steps = holder, 0
        self.param_groups[0]["steps"] = 0

    def step(self, closure: Any = None) -> Any:
        for parameter in self.param_groups[0]["params"]:
            count = self.state.get(parameter, {}).get("steps", 0)
            self.state[parameter] = {
                "best": float("nan"), "steps": count + 1 if self.holder == "state" else 0
            }  # fmt: skip
            parameter.sub_(parameter.grad)
        self.param_groups[0]["steps"] += self.holder == "group"
        self.steps += self.holder == "optimizer"


def test_an_optimizer_that_counts_in_python(x: torch.Tensor) -> None:
    module = Computed(lambda self, x: self.linear(x).sum())
    for holder, what in (
        ("state", "'steps' of linear.weight"),
        ("group", "'steps' of group 0"),
        ("optimizer", "'steps' of itself"),
    ):
        optimizer = partial(Counting, holder=holder)
        message = refused(partial(composites.export, module, (x,), optimizer=optimizer))
        assert message.startswith(f"Counting changes {what}, a Python number, in each step, but")
    program = composites.export(module, (x,), optimizer=partial(Counting, holder="nowhere"))
    assert "param:linear.weight" in [value.name for value in program.outputs]


def branches(module: Any, x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x
    return module.linear(x)


def takes_an_item(module: Any, x: torch.Tensor) -> torch.Tensor:
    scale = x.max().item()
    return module.linear(x) * scale


def has_a_size_that_depends_on_values(module: Any, x: torch.Tensor) -> torch.Tensor:
    indices = x.nonzero()
    return module.linear(x).sum() + indices.sum()


@pytest.mark.parametrize("function", [branches, takes_an_item, has_a_size_that_depends_on_values])
def test_control_flow_that_depends_on_values_names_the_line(function: Any, x: torch.Tensor) -> None:
    message = refused(lambda: composites.export(Computed(function), (x,)))
    line = inspect.getsourcelines(function)[1] + 1
    assert message.startswith(
        f"{__file__}:{line}: the module reads the value of a tensor while it runs, but an"
        " exported program takes the same path for all values ("
    )


def test_a_large_tensor_that_is_no_buffer(x: torch.Tensor) -> None:
    table = torch.rand(4, 2**17)
    module = Computed(lambda self, x: self.linear(x) @ self.table.to(x.device), table=table)
    message = refused(lambda: composites.export(module, (x,)))
    assert "the module computes with a tensor" in message
    assert message.endswith(
        "that is not a parameter, buffer or argument; 2 MB is too large for a constant, so"
        " register it as a buffer"
    )


@pytest.mark.torch_xla
def test_a_tensor_of_another_device(x: torch.Tensor) -> None:
    attend = torch.nn.functional.scaled_dot_product_attention
    for function in (
        lambda self, x: x.masked_fill(torch.ones(2, 4) > 0, 0.0),
        # PyTorch compares the devices, before torch_xla sees the call.
        lambda self, x: attend(x, torch.ones(2, 4), x),
    ):
        message = refused(partial(composites.export, Computed(function), (x,)))
        assert message.startswith(f"{__file__}:")
        assert "an operator combines a traced tensor with a tensor on another device (E" in message
        assert message.endswith("torch.ones(n, device=x.device), or register it as a buffer")


@pytest.mark.torch_xla
def test_a_composite_of_tensors_on_two_devices() -> None:
    module = Computed(lambda self, x: torch._int_mm(x, torch.ones(8, 8, dtype=torch.int8)))
    message = refused(lambda: composites.export(module, (torch.ones(32, 8, dtype=torch.int8),)))
    assert "this call of aten::mm.dtype, which has a tensor on cpu too, and would" in message


@pytest.mark.torch_xla
def test_an_operator_that_runs_on_the_cpu(x: torch.Tensor) -> None:
    module = Computed(lambda self, x: torch.linalg.cholesky(x @ x.mT))
    line = inspect.getsourcelines(test_an_operator_that_runs_on_the_cpu)[1] + 2
    for _ in range(2):  # the second is told from the first by how often the operator fell back
        assert refused(lambda: composites.export(module, (x,))) == (
            f"{__file__}:{line}: torch_xla has no lowering for this call of"
            " aten::linalg_cholesky_ex and would compute it on the CPU, but a traced tensor has no"
            " value; use other"
            " operators, compute it before the program and pass the result, or write an entry with"
            " a decomposition for it"
        )


def test_an_exported_program_cannot_be_trained(x: torch.Tensor) -> None:
    module = Computed(lambda self, x: self.linear(x).sum())
    graph = torch.export.export(module, (x,))
    for options in ({"train": True}, {"optimizer": torch.optim.SGD}):
        assert refused(partial(composites.export, graph, (x,), **options)) == (
            "an ExportedProgram only supports inference; pass the module itself"
        )


def test_errors_of_the_module_itself_come_through(x: torch.Tensor) -> None:
    module = Computed(lambda self, x: self.linear(x[:, :3]))
    assert re.search(
        "mat1|shape|size|dim", refused(lambda: composites.export(module, (x,)), RuntimeError)
    )
    assert "missing 1 required positional argument" in refused(
        lambda: composites.export(module, ()), TypeError
    )


OF_ITS_OWN = torch.nn.Parameter(torch.ones(3))
OPTIMIZERS: tuple[tuple[Any, str], ...] = (
    (
        torch.optim.AdamW([OF_ITS_OWN]),
        "optimizer is AdamW with parameters of its own; pass a function that makes one",
    ),
    ("torch.optim:AdamW", "not 'torch.optim:AdamW'"),
    (lambda parameters: None, "optimizer returned a NoneType; return a torch"),
    (torch.optim.LBFGS, "the step of LBFGS calls a closure that computes the loss"),
    (torch.optim.Adagrad, "Adagrad reads the value of a tensor in its step"),
    (
        lambda parameters: torch.optim.SGD([OF_ITS_OWN], lr=0.1),
        "SGD has parameters that were not passed to optimizer",
    ),
)


def test_what_makes_no_optimizer() -> None:
    module = torch.nn.Linear(3, 1)
    module.register_forward_hook(lambda *arguments: arguments[-1].sum())
    for optimizer, message in OPTIMIZERS:
        call = partial(composites.export, module, (torch.ones(1, 3),), optimizer=optimizer)
        assert message in refused(call)


def test_other_arguments_by_mistake() -> None:
    module, x = torch.nn.ReLU(), torch.ones(3)
    wrong: tuple[tuple[Any, Any, dict[str, Any], str], ...] = (
        (lambda x: x, (x,), {}, "the first argument is a function"),
        (torch.nn.ReLU, (x,), {}, "the first argument is ReLU"),
        (
            module,
            x,
            {},
            "args must be a tuple or a list of arguments; write (tensor,) for a single one",
        ),
        (module, {"x": x}, {}, "args must be a tuple or a list of arguments"),
        (module, (x,), {"kwargs": [x]}, "kwargs must be a dictionary"),
        (module, (x,), {"ops": "gelu"}, "ops must be a list of names; write ops=['gelu']"),
        (module, (x,), {"passes": ["clean"]}, "such as lowering.stablehlo.clean, not 'clean'"),
    )
    for model, arguments, options, message in wrong:
        assert message in refused(partial(composites.export, model, arguments, **options))
    error = refused(lambda: composites.export(module, (x,), ops=["gelo"]), AllowlistError)
    assert error.startswith("there is no composite 'gelo'; did you mean 'gelu'? ")
    assert composites.active() == ()
