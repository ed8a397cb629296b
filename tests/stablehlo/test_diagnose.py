"""diagnose: planted faults are found where they are, and each likely mistake is one clear error."""

import json
import sys
import time
import weakref
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from composites_testing.passes import DATA, composite_module, load
from composites_testing.plugins import cpu_plugin
from composites_testing.processes import run as run_process
from composites_testing.stablehlo_commands import invoke, printed

from lowering.export.manifest import Value
from lowering.export.program import Program
from lowering.stablehlo import Module, RunError, clean, compile_module, run
from lowering.stablehlo.comparison.difference import error
from lowering.stablehlo.comparison.inputs import typical_inputs
from lowering.stablehlo.diagnosis.bisection import Steps, minimal
from lowering.stablehlo.diagnosis.clock import Clock
from lowering.stablehlo.diagnosis.devices import Device, Run
from lowering.stablehlo.diagnosis.diagnose import Diagnoser
from lowering.stablehlo.diagnosis.parts import split_main
from lowering.stablehlo.symbols import functions

CALLS = 200
ROWS = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


def chain() -> Module:
    """Calls of one composite, with a negation behind each, which has a sharding."""
    type_, lines = "tensor<4x8xf32>", ""
    sharding = "{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>}"
    for number in range(CALLS):
        call = f'"acme.shrink" %n{number} {{decomposition = @impl}} : ({type_}) -> {type_}'
        lines += f"%c{number} = stablehlo.composite {call}\n"
        lines += f"%n{number + 1} = stablehlo.negate %c{number} {sharding} : {type_}\n"
    return Module.parse(f"""sdy.mesh @mesh = <["x"=2]>
        func.func @main(%n0: {type_}) -> {type_} {{{lines}return %n{CALLS} : {type_} }}
        func.func private @impl(%x: {type_}) -> {type_} {{
          %0 = stablehlo.tanh %x : {type_} return %0 : {type_} }}""")


def changed(change: Any) -> Device:
    """The CPU, whose composites' results are changed: `change` gets the number of the operands."""
    last, number = b"", -1

    def device(part: Module) -> Run:
        run = compile_module(part)

        def run_changed(*arrays: Any) -> Sequence[Any]:
            nonlocal last, number
            bits = b"".join(array.tobytes() for array in arrays)
            last, number = bits, number + (bits != last)
            return [change(number, result) for result in run(*arrays)]

        return run_changed if "composite" in part.text else run

    return device


def test_one_call_of_many_is_off_by_a_percent() -> None:
    """Later calls have the error too, but none of their own."""
    device = changed(lambda number, result: result * np.float32(1.01 if number == 16 else 1))
    diagnosis, replays = Diagnoser(chain(), device).run([ROWS])
    shrink, outside = diagnosis.composites
    assert (shrink.call.name, shrink.call.count, shrink.worst.number) == ("acme.shrink", CALLS, 17)
    wrong = [call for call in shrink.calls if call.problem is not None]
    assert [call.number for call in wrong] == [17]
    assert wrong[0].own is not None
    assert wrong[0].own.error == pytest.approx(0.01, rel=1e-3)
    assert wrong[0].own.pcc == pytest.approx(1)
    assert 1e5 / 2 < wrong[0].own.ulps < 2e5
    after = [call.added for call in (*shrink.calls[17:], *outside.calls[17:])]
    assert all(added is not None and added.error > 1e-3 for added in after)
    assert all(call.added is not None and call.added.error == 0 for call in shrink.calls[:16])
    (problem,) = diagnosis.problems
    assert problem.startswith("acme.shrink, call 17 of the program: its error is 0.01, and 1e-05")
    ((number, replay),) = replays.items()
    (alone,) = compile_module(replay.part)(*replay.arrays)
    assert number == 17
    np.testing.assert_allclose(alone, np.tanh(replay.arrays[0]), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-2, 2**-23])
def test_a_kernel_that_races(size: float) -> None:
    """Other bits in every other run of one call are shown, and are an error if they differ by more
    than the tolerance: sums on a GPU can have another order in each run."""
    factors = cycle(map(np.float32, (1, 1 + size)))
    device = changed(lambda number, result: result * next(factors) if number == 16 else result)
    diagnosis, _ = Diagnoser(chain(), device).run([ROWS])
    start = "acme.shrink, call 17 of the program: it gives other results for the same operands"
    assert [problem.startswith(start) for problem in diagnosis.problems] == [True] * (size > 1e-5)
    calls = json.loads(diagnosis.to_json())["composites"][0]["calls"]
    assert [call["number"] for call in calls if not call["repeats"]] == [17]
    assert printed(diagnosis.table(), 400).count("varies") == 1


def test_not_finite_results_and_failures_are_counted() -> None:
    def odd(number: int, result: Any) -> Any:
        if number == 5:
            raise RunError("the device is on fire")
        return np.where(np.arange(8) < 2, np.float32(np.nan if number == 3 else np.inf), result)

    diagnosis, _ = Diagnoser(chain(), changed(odd)).run([ROWS])
    shrink = next(row for row in diagnosis.composites if row.call.name == "acme.shrink")
    counts = [call.own and (call.own.nans, call.own.infinities) for call in shrink.calls]
    assert counts[0] == (0, 8)
    assert (8, 0) in counts
    assert sum(count is None for count in counts) == 1
    (failure,) = (call.problem for call in shrink.calls if call.own is None)
    assert str(failure).endswith("of the program: the device is on fire")
    assert json.loads(diagnosis.to_json())["composites"][0]["calls"][0]["own"]["error"] == "inf"


def test_values_are_released_once_they_are_used_up() -> None:
    alive: list[weakref.ref[Any]] = []
    most = 0

    def device(part: Module) -> Run:
        compiled = compile_module(part)

        def run(*arrays: Any) -> Sequence[Any]:
            nonlocal most
            results = [np.array(result) for result in compiled(*arrays)]
            alive.extend(map(weakref.ref, results))
            most = max(most, sum(reference() is not None for reference in alive))
            return results

        return run

    Diagnoser(chain(), device).run([ROWS])
    assert len(alive) >= 4 * CALLS
    assert most < 10


def test_rounding_that_the_cpu_has_too_is_no_fault() -> None:
    """A sum that cancels has few right digits, and another order has other digits."""
    type_ = "tensor<4x8xf32>"
    body = f"""
        %c = stablehlo.constant dense<1.0e+06> : {type_}
        %s = stablehlo.add %x, %c : {type_}
        %b = stablehlo.optimization_barrier %s : {type_}
        %r = stablehlo.subtract %b, %c : {type_}
    """
    module = composite_module("acme.cancel", type_, body)
    for f64, factor, wrong in ((True, 1, 0), (False, 1.005, 0), (False, 1.2, 1)):
        device = changed(lambda _, result, by=factor: result * np.float32(by))
        assert len(Diagnoser(module, device, f64=f64).run([ROWS])[0].problems) == wrong, (
            f64,
            factor,
        )
    body = f"%y = stablehlo.multiply %x, %x : {type_}\n%r = stablehlo.divide %y, %x : {type_}"
    overflow = np.where(np.eye(4, 8) > 0, np.float32(1e30), ROWS)
    for f64, factor, wrong in ((True, 1, 1), (False, 1, 0), (False, 1.2, 1)):
        device = changed(lambda _, result, by=factor: result * np.float32(by))
        own = composite_module("acme.own", type_, body)
        diagnosis, _ = Diagnoser(own, device, f64=f64).run([overflow])
        assert len(diagnosis.problems) == wrong, (f64, factor)


def test_a_slow_kernel_could_win_most_of_the_step() -> None:
    type_, table = "tensor<64x64xf32>", "tensor<99x64xf32>"
    body = f"""%c = stablehlo.constant dense<9> : tensor<i32>
        %g = stablehlo.dynamic_slice %x, %c, %c, sizes = [64, 64]
          : ({table}, tensor<i32>, tensor<i32>) -> {type_}
        %r = stablehlo.dot_general %g, %g, contracting_dims = [1] x [0]
          : ({type_}, {type_}) -> {type_}"""
    module = composite_module("acme.square", table, body, type_)

    def device(part: Module) -> Run:
        run = compile_module(part)

        def slow(*arrays: Any) -> Sequence[Any]:
            time.sleep(0.02)
            return run(*arrays)

        return slow if "composite" in part.text else run

    values = [np.ones((99, 64), np.float32)]
    diagnosis, _ = Diagnoser(module, device, clock=Clock.create(module, device, "cpu")).run(values)
    (row,) = (row for row in diagnosis.composites if row.call.name == "acme.square")
    assert row.time is not None
    assert (row.time.bytes, row.time.flops) == (2 * 64 * 64 * 4, 2 * 64**3)
    assert 0 < row.time.bound_seconds < 0.001 < 0.015 < row.time.seconds < 1
    assert 0.9 < (row.gain or 0) < 1
    errors, seconds = diagnosis.node_data()
    assert (errors.name, seconds.values[0]) == ("error", row.time.seconds)
    assert "could win" in printed(diagnosis.table(), 400)
    assert "gain" not in Diagnoser(module, device).run(values)[0].to_json()


def test_parts_give_what_the_whole_gives() -> None:
    """Regions read values from outside, and constants are in each part that reads them."""
    for name in ("block", "loops", "transformer_step_torch_xla_2_9"):
        module = clean(load(name))
        inputs = typical_inputs(module)
        main = functions(module.ir)["main"]
        block = main.regions[0].blocks[0]
        values = dict(zip(block.arguments, inputs, strict=True))
        for part in split_main(main):
            operands = [values[value] for value in part.sources]
            values |= zip(part.outputs, run(part.module(module), *operands), strict=True)
        *_, end = block.operations
        for value, expected in zip(end.operands, run(module, *inputs), strict=True):
            assert error([values[value]], [expected]) < 1e-5, value


def test_a_wrong_kernel_of_large_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The saved call is wrong alone too, and node data has the numbers that the graph has."""
    monkeypatch.syspath_prepend(str(DATA.parent))
    data, nodes, saved = tmp_path / "d.json", tmp_path / "n.json", tmp_path / "worst"
    kernels = ("--kernels", DATA / "kernels.yaml")
    written = ("--json", data, "--node-data", nodes, "--save", saved)
    code, out, err = invoke("diagnose", DATA / "three_sizes.mlir", *kernels, *written)
    assert (code, err.count("error: acme.twice, call ")) == (1, 2)
    assert out.count("twice_to_sixteen") == 3
    rows = json.loads(data.read_text())["composites"]
    wrong = [row["call"]["operands"][0] for row in rows if row["calls"][0]["problem"]]
    assert sorted(wrong) == ["tensor<16xbf16>", "tensor<24xbf16>"]
    results = json.loads(nodes.read_text())["main"]["results"]
    colors = {node: value["bgColor"] for node, value in results.items()}
    assert colors == {"0": "#ccff90", "1": "#f28b82", "2": "#f28b82"}
    assert sorted(folder.name for folder in saved.iterdir()) == ["2", "3"]
    for worst in saved.iterdir():
        inputs = ("--inputs", worst / "operands.npz")
        code, _, err = invoke("diagnose", worst, *kernels, *inputs)
        assert (code, err.count("error: ")) == (1, 1)
        bound = ("--bind", "acme.twice=stand_ins:twice_to_sixteen")
        code, out, err = invoke("compare", worst, *bound, *inputs)
        assert (code, "kernels for @module" in out) == (1, True)
        assert "differs from the decomposition" in err
    out = invoke("diagnose", DATA / "nested_sine.mlir", *kernels)[1]
    assert "none: no kernel is listed; inside: a.inner: jax.numpy:cos" in out
    _, out, err = invoke("diagnose", DATA / "loops.mlir", *kernels, *written[:2])
    where = "call 2 of the program, in the first iteration of a loop, which may not run"
    assert f"{where}: its error is 0.085" in err
    diagnosis = json.loads(data.read_text())
    assert (diagnosis["left_out"], "not looked at" in out) == (
        ["acme.twice in stablehlo.case"],
        True,
    )
    calls = {row["call"]["name"]: row["calls"] for row in diagnosis["composites"]}
    assert [call["in_loop"] for call in calls["acme.twice"]] == [True] * 3
    monkeypatch.setenv("XLA_COMPOSITE_REGISTRY", str(DATA / "tolerances.yaml"))
    assert invoke("diagnose", DATA / "three_sizes.mlir", *kernels, *written[:2])[0] == 0
    assert {row["tolerance"] for row in json.loads(data.read_text())["composites"]} == {0.1}


@pytest.mark.process
def test_the_device_of_a_plugin(tmp_path: Path) -> None:
    """The plug-in's kernels are those of the platform that the command names."""
    registry = tmp_path / "acme.yaml"
    kernels = "kernels:\n  acme.twice: {chip: [{function: 'stand_ins:twice_to_sixteen'}]}\n"
    registry.write_text(f"schema: 2\nnamespace: acme\ncomposites: {{}}\n{kernels}")
    command = ("-m", "composites", "diagnose", str(DATA / "three_sizes.mlir"), "--plugin")
    variables = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(DATA.parent)}
    for options, wrong in (((), 0), (("--platform", "chip", "--kernels", str(registry)), 2)):
        done = run_process(sys.executable, *command, str(cpu_plugin()), *options, **variables)
        assert (done.code, done.stderr.count("error: acme.twice, call ")) == (min(wrong, 1), wrong)


def test_bisection_finds_what_makes_the_loss_leave_the_tolerance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of a gradient shows in the loss of the second step; kernels that are right are in no
    set."""
    monkeypatch.syspath_prepend(str(DATA.parent))
    inputs = Value("arg:0", (8,), "f32"), Value("param:w", (16,), "f32")
    weight = Value("param:w", (16,), "f32", updates="param:w")
    outputs = Value("out:0", (8,), "f32"), Value("loss", (16,), "f32"), weight
    Program(load("step"), inputs, outputs).save(tmp_path / "step")
    bisection = (
        *("diagnose", tmp_path / "step", "--kernels", DATA / "step.yaml"),
        *("--bisect", "--json", tmp_path / "sets.json", "--steps"),
    )
    code, _, err = invoke(*bisection, "3")
    assert (code, err.count("error: stand_ins:")) == (1, 2)
    sets = json.loads((tmp_path / "sets.json").read_text())["sets"]
    broken = [([use["kernel"] for use in subset["kernels"]], subset["step"]) for subset in sets]
    assert broken == [(["stand_ins:twice_to_sixteen"], 1), (["stand_ins:a_percent_more"], 2)]
    assert sets[1]["problem"].startswith("the error of step 2 is 0.00")
    assert invoke(*bisection, "3", "--tolerance", "0.2")[:2] == (
        0, "with all kernels (3), no error is above 0.2 in 3 steps\n",
    )  # fmt: skip


def test_each_step_of_a_bisection_has_a_random_seed_of_its_own() -> None:
    type_ = "tensor<i64>"
    program = Module.parse(f"func.func @main(%s: {type_}) -> {type_} {{ return %s : {type_} }}")
    steps = Steps([np.asarray(-1, np.int64)], 3, updates={}, compared=[0], seed=0)
    seeds = [int(seed) for (seed,) in steps.results(program)]
    assert seeds[0] == -1
    assert len({seed % 2**32 for seed in seeds}) == 3


@pytest.mark.parametrize("together", [[0], [6], [2, 5], [0, 7, 8], list(range(9))])
def test_sets_are_as_small_as_possible(together: list[int]) -> None:
    assert minimal([*range(9)], lambda subset: {*together} <= {*subset}) == together
