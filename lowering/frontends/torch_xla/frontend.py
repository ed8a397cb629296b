"""The parts of the torch_xla frontend, combined."""

from contextlib import nullcontext
from functools import partial

from lowering.frontends.protocols import Frontend
from lowering.frontends.torch_xla import wide_products
from lowering.frontends.torch_xla.dispatcher import CRASHING, XlaDispatching
from lowering.frontends.torch_xla.graph import XlaGraph
from lowering.frontends.torch_xla.in_place import write
from lowering.frontends.torch_xla.labels import XlaLabels
from lowering.frontends.torch_xla.modes import guard_syncs
from lowering.frontends.torch_xla.random import XlaRandomNumbers
from lowering.frontends.torch_xla.recorder import XlaRecording
from lowering.frontends.torch_xla.runner import XlaRunningGraph
from lowering.frontends.torch_xla.tensors import (
    SIGNED,
    XlaTensors,
    before_dynamic_sizes,
    sharding_text,
)
from lowering.frontends.torch_xla.tracer import XlaTracing


def make_frontend() -> Frontend:
    """Make the frontend of this process, once only, because it keeps the stock kernels."""
    guard_syncs()
    dispatching = XlaDispatching()
    graph = XlaGraph()
    random_numbers = XlaRandomNumbers()
    return Frontend(
        tensors=XlaTensors(),
        dispatching=dispatching,
        graph=graph,
        tracing=XlaTracing(graph, random_numbers),
        write=write,
        random_numbers=random_numbers,
        recording=XlaRecording(graph),
        running=lambda: nullcontext(XlaRunningGraph()),
        labels=XlaLabels(),
        dynamic_sizes=before_dynamic_sizes,
        decomposes=dispatching.decomposes,
        crashing=CRASHING,
        lost_types=SIGNED,
        sharding_text=sharding_text,
        own_operators=partial(wide_products.implement, dispatching, graph),
    )
