"""link: references to modules and the modules themselves."""

import jax.numpy as jnp
import numpy as np
from composites_testing.hlo import hlo_of

from lowering.emission import hlo_proto
from lowering.emission.linking import link, module_name, reference
from lowering.hlo.convert import to_stablehlo
from lowering.stablehlo import compile_module

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def calling(*modules: bytes) -> bytes:
    """A graph of references to modules of one argument, each on the result of the one before."""
    graph = hlo_proto.Module.FromString(hlo_of(lambda x: x, X))
    main = hlo_proto.entry_computation(graph)
    graph.entry_computation_id = main.id
    del main.instructions[1:]
    next_id = 1000
    computations = []
    for module in modules:
        referring = hlo_proto.Module.FromString(reference(module)).computations[0]
        referring.id = next_id
        computations.append(referring)
        main.instructions.add(
            name=f"call.{next_id + 1}",
            opcode="call",
            id=next_id + 1,
            operand_ids=[main.instructions[-1].id],
            called_computation_ids=[referring.id],
            shape=main.program_shape.result,
        )
        main.root_id = next_id + 1
        next_id += 2
    graph.ClearField("computations")
    graph.computations.extend([*computations, main])
    return bytes(graph.SerializeToString())


def test_a_module_is_put_in_once() -> None:
    double, wave = hlo_of(lambda x: x * 2, X), hlo_of(lambda x: jnp.sin(x), X)
    modules = {module_name(module): module for module in (double, wave)}
    assert len(modules) == 2
    graph = calling(double, wave, double)
    linked = link(hlo_proto.Module.FromString(graph), modules)
    ids = [computation.id for computation in linked]
    assert len(set(ids)) == len(ids) == 6  # the modules, three calls, and the graph
    calls = [i for caller in linked[:-1] for i in caller.instructions if i.opcode == "call"]
    assert [ids.index(*call.called_computation_ids) for call in calls] == [0, 2, 0]
    module = to_stablehlo(graph, modules)
    assert module is not None
    (result,) = compile_module(module)(X)
    np.testing.assert_allclose(result, np.sin(X * 2) * 2, rtol=1e-6)


def test_a_module_may_refer_to_others() -> None:
    double = hlo_of(lambda x: x * 2, X)
    twice = calling(double, double)
    modules = {module_name(module): module for module in (double, twice)}
    module = to_stablehlo(calling(twice, double), modules)
    assert module is not None
    (result,) = compile_module(module)(X)
    np.testing.assert_array_equal(result, X * 8)
