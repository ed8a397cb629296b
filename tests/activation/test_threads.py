"""Several threads that turn composites on and off, and trace: one state, and the same bits."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from composites_testing.names import GELU, SILU
from composites_testing.processes import run_python
from composites_testing.tensors import gradient_of

import composites
from lowering.frontends import registration
from lowering.requests import Block, Requests

NAMES = ("gelu", "silu", "mish", "layer_norm", "cross_entropy_loss", "adam", "softmax", "elu")


@pytest.fixture(autouse=True)
def all_off() -> Iterator[None]:
    composites.disable()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads take turns often
    yield
    sys.setswitchinterval(interval)
    composites.disable()


def run(*functions: Callable[[], None]) -> None:
    """Run functions in threads of their own at the same time, and raise what they raise."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(functions))

    def work(function: Callable[[], None]) -> None:
        barrier.wait()
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


FIRST = """
import sys, threading, composites
sys.setswitchinterval(1e-5)
barrier = threading.Barrier(4)
failed = []
def work():
    barrier.wait()
    try:
        composites.enable("gelu")
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(failed, *composites.active())
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("imports", "variable", "expected"), [("import torch_xla", "", GELU), ("", "silu", GELU | SILU)]
)
def test_the_first_use_in_several_threads(imports: str, variable: str, expected: set[str]) -> None:
    """The first use imports torch_xla if nothing has done so before."""
    done = run_python(f"{imports}\n{FIRST}", XLA_COMPOSITE_OP=variable)
    assert set(done.stdout.split()) == {"[]", *expected}, done.stderr


def step(seed: int) -> list[torch.Tensor]:
    """Losses and gradients, computed on the device. Stock torch_xla fails if several threads of one
    device call torch_xla.sync, so there is none here."""
    values = torch.linspace(-4, 4, 24).reshape(4, 6) + seed
    x = values.to("xla").requires_grad_()
    y = F.mish(F.silu(F.gelu(x)))
    loss = F.cross_entropy(F.softmax(F.layer_norm(y, (6,)), -1), torch.arange(4).to("xla"))
    loss.backward()
    return [loss.detach().cpu(), gradient_of(x).cpu()]


def tidied() -> None:
    """A thread that is alone removes what had to stay in the dispatcher because of others. Tests
    before this one may have left threads, which call no operators."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registration, "_alone", lambda: True)
        composites.disable()


@pytest.mark.parametrize(
    "rounds",
    [2, pytest.param(6, marks=pytest.mark.slow), pytest.param(60, marks=pytest.mark.exhaustive)],
)
def test_tracing_and_toggling_in_eight_threads(rounds: int) -> None:
    stock = [step(seed) for seed in range(8)]
    with composites.enabled("gelu"):  # the guard of traces stays registered
        step(0)
    tidied()
    table = torch._C._dispatch_dump_table("aten::gelu")
    finders = list(sys.meta_path)
    optimizer = sys.modules["torch.optim.adam"]
    adam = optimizer._single_tensor_adam
    different: list[int] = []

    def work(number: int) -> None:
        for turn in range(rounds):
            if number % 2:
                with composites.enabled(NAMES[(number + turn) % len(NAMES)]):
                    with composites.enabled("gelu", "layer_norm"):
                        assert set(composites.active()) >= GELU
                        results = step(number)
                        composites.disable("gelu")
                    assert len(composites.active()) > 0
            else:
                composites.enable(NAMES[number])
                results = step(number)
                composites.disable(NAMES[number])
            if not all(map(torch.equal, results, stock[number])):
                different.append(number)

    run(*(lambda number=number: work(number) for number in range(8)))
    assert different == []
    assert composites.active() == ()
    tidied()
    assert torch._C._dispatch_dump_table("aten::gelu") == table
    assert sys.meta_path == finders
    assert optimizer._single_tensor_adam is adam


def test_a_block_keeps_its_composites_while_others_change() -> None:
    """Hooks are replaced over the old ones, so no call between the two is missed."""
    ended = threading.Event()
    texts: list[str] = []

    def toggle() -> None:
        while not ended.is_set():
            with composites.enabled("silu"):
                pass

    def trace() -> None:
        x = torch.ones(3, device="xla")
        with composites.enabled("gelu"):
            texts.extend(xm.get_stablehlo([F.gelu(x)]) for _ in range(40))
        ended.set()

    try:
        run(toggle, trace)
    finally:
        ended.set()
    assert all('"ptxla.gelu"' in text for text in texts)
    assert len(texts) == 40
    assert composites.active() == ()


def test_exports_run_one_after_the_other() -> None:
    counts: dict[int, object] = {}
    layers = [torch.nn.GELU(), torch.nn.SiLU(), torch.nn.GELU(), torch.nn.Mish()]

    def export(number: int) -> None:
        program = composites.export(layers[number], (torch.ones(number + 1),))
        counts[number] = program.composites

    run(*(lambda number=number: export(number) for number in range(4)))
    names = ("gelu", "silu", "gelu", "mish")
    assert counts == {number: {f"ptxla.{name}": 1} for number, name in enumerate(names)}
    assert composites.active() == ()


def test_a_trace_leaves_the_numbers_of_other_threads_alone() -> None:
    """A number is data of a stock graph. As a constant, it would change bits."""
    tracing, recorded = threading.Event(), threading.Event()
    texts: list[str] = []
    x = torch.ones(3).to("xla")

    def graph() -> str:
        return str(xm.get_stablehlo([F.elu(x, 0.7)]))

    @composites.composite("acme.slow")
    def slow(x: torch.Tensor) -> torch.Tensor:
        tracing.set()
        assert recorded.wait(60)
        return x * 0.3

    def record() -> None:
        assert tracing.wait(60)
        texts.append(graph())
        recorded.set()

    stock = graph()
    run(record, lambda: texts.append(str(slow(x).cpu())))
    assert "dense<0.69" not in stock
    assert texts[0] == stock


TRACED = logging.getLogger("tests.traced")


def test_a_sync_beside_a_trace_waits_for_it() -> None:
    tracing, synced = threading.Event(), threading.Event()
    waited: list[bool] = []

    class Waiting(logging.Handler):
        """Waits inside the trace, whose function may not read what changes, such as an event."""

        def emit(self, record: logging.LogRecord) -> None:
            before = synced.is_set()
            tracing.set()
            time.sleep(0.3)
            waited.append(synced.is_set() == before)

    @composites.composite("acme.slow")
    def slow(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        TRACED.warning("traced")
        return y * 2

    x = torch.ones(3).to("xla")
    results: list[torch.Tensor] = []

    def sync() -> None:
        tracing.wait()
        torch_xla.sync()
        synced.set()

    handler = Waiting()
    TRACED.addHandler(handler)
    try:
        run(sync, lambda: results.append(slow(x)))
    finally:
        TRACED.removeHandler(handler)
    assert waited
    assert all(waited)
    assert torch.equal(results[0].cpu(), torch.full((3,), 4.0))


def test_blocks_of_several_threads_are_counted() -> None:
    a, b, c = (Block(thread, frozenset(names)) for thread, names in ((1, "g"), (2, "gs"), (1, "m")))
    start = Requests().with_names(frozenset("x"), 3)
    both = start.with_block(a).with_block(b)
    assert both.names == set("xgs")
    assert both.without_block(a.key).names == set("xgs")
    assert both.without_block(a.key).without_block(b.key) == start
    assert both.without_block(b.key).names == set("xg")
    # Thread 1 changes what it asks for until its block ends, and nothing of thread 2.
    inner = both.with_block(c).without_names(None, 1)
    assert inner.names == set("gs")
    assert inner.with_names(frozenset("x"), 1).names == set("gsx")
    assert inner.without_block(c.key) == both
    # A thread outside all blocks changes what `enable` asked for.
    assert both.without_names(None, 3).names == set("gs")
    assert both.with_names(frozenset("e"), 3).without_block(a.key).names == set("xgse")
    # Nothing else is on in an export, and what others ask for meanwhile is on after it.
    export = Block(2, frozenset("e"), only=True, exporting=True)
    exporting = both.with_block(export).with_names(frozenset("n"), 3).with_names(frozenset("i"), 2)
    assert exporting.names == set("ei")
    assert exporting.exporting
    after = exporting.without_block(export.key)
    assert after.names == set("xgsn")
    assert not after.exporting
