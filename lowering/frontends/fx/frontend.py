"""The parts of the fx frontend, combined."""

from functools import partial

from composites.in_place import copy_each
from lowering.frontends.fx import (  # noqa: F401  (they register functions for operators)
    creation,
    derived,
    linear_algebra,
    strides,
)
from lowering.frontends.fx.autocast import define_casts
from lowering.frontends.fx.control_flow import offer_control_flow
from lowering.frontends.fx.dispatcher import FxDispatching
from lowering.frontends.fx.flex_attention import offer_flex_attention
from lowering.frontends.fx.graph import FxGraph
from lowering.frontends.fx.random import FxRandomNumbers
from lowering.frontends.fx.recorder import FxRecording
from lowering.frontends.fx.runner import running
from lowering.frontends.fx.tensors import FxTensors
from lowering.frontends.fx.tracer import FxTracing
from lowering.frontends.protocols import Frontend


def make_frontend() -> Frontend:
    """Make the frontend of this process. It keeps the stock kernels, so it must be made only once.

    Raises:
        MissingPackageError: this release of PyTorch, or this process, does not support the device.
    """
    define_casts()
    strides.define_operators()
    offer_control_flow()
    offer_flex_attention()
    graph = FxGraph()
    recording = FxRecording(graph)
    return Frontend(
        tensors=FxTensors(),
        dispatching=FxDispatching(),
        graph=graph,
        tracing=FxTracing(graph),
        write=copy_each,
        random_numbers=FxRandomNumbers(),
        recording=recording,
        running=partial(running, recording),
    )
