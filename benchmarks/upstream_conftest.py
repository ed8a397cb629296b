"""A pytest plugin that writes which composites were on at the end of a process of tests, and lets
`composites` compile the graphs that backends of Dynamo's tests would run as they are.

`benchmarks.upstream` copies this file, as conftest.py, beside the tests that it runs.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock


def pytest_sessionfinish() -> None:
    if {"torch_xla", "torch._dynamo"} & set(sys.modules) and "composites" in sys.modules:
        import composites

        active = " ".join(sorted(composites.active()))
        Path(os.environ["COMPOSITES_ACTIVE"]).write_text(active, encoding="utf-8")


def replace_backends() -> None:
    from torch._dynamo.backends import registry
    from torch._dynamo.output_graph import OutputGraph

    from lowering.frontends.fx.tensors import LIVE_BACKENDS
    from lowering.live.backend import composites

    LIVE_BACKENDS.append(mock.ANY)  # for these graphs, hooks of functions are on
    call_compiler = OutputGraph._call_user_compiler

    def call(self: Any, graph: Any, inputs: Any) -> Any:
        own = self.compiler_fn

        def compiler(graph: Any, inputs: Any) -> Any:
            made = own(graph, inputs)
            runs_graph = made is graph or getattr(made, "__self__", None) is graph
            return composites(graph, inputs) if runs_graph else made

        compiler.__name__ = getattr(own, "__name__", "compiler")
        with mock.patch.object(self, "compiler_fn", compiler):
            return call_compiler(self, graph, inputs)

    setattr(OutputGraph, "_call_user_compiler", call)  # noqa: B010
    for name in ("aot_eager", "aot_eager_decomp_partition", "inductor"):
        registry.lookup_backend(name)
        registry._COMPILER_FNS[name] = lambda graph, inputs, **_: composites(graph, inputs)


if os.environ.get("XLA_COMPOSITE_OP") and find_spec("torch_xla") is None:
    replace_backends()
