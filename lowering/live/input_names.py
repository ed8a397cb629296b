"""The names of the inputs of Dynamo's graphs, and the shardings that a user gives them.

L['self']._modules['first']._parameters['weight']   param:first.weight
L['batch']['ids']                                   arg:batch.ids
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from composites.errors import CompositesError, CompositesWarning
from composites.tensor_subclasses import inner_tensors
from lowering.export.shardings import DeviceMesh, Spec, matches, names_near

_IN_MODULE = re.compile(r"\._(?:modules|parameters|buffers)\[(['\"])(.+?)\1\]")
_KEY = re.compile(r"\[['\"]?([^'\"\]]*)['\"]?\]")
_LOCAL = re.compile(r"^[LG]\[(['\"])(.*?)\1\]")


def name_of_source(source: str) -> str:
    """The name of an input that Dynamo has read by an expression."""
    parts = list(_IN_MODULE.finditer(source))
    if parts:
        names = [match[2] for match in parts]
        return f"param:{'.'.join(names)}{source[parts[-1].end() :]}"
    return "arg:" + _KEY.sub(r".\1", _LOCAL.sub(r"\2", source))


def inner_sources(sources: Sequence[str], values: Sequence[Any]) -> list[str]:
    """The sources of the tensors that inputs hold: `….weight.qdata` for a quantized weight."""
    pairs = zip(sources, values, strict=True)
    return [name for source, value in pairs for name, _ in inner_tensors(source, value)]


@dataclass(frozen=True)
class InputShardings:
    """The shardings that a user gives the inputs of a model's graphs."""

    mesh: DeviceMesh | None = None
    by_pattern: Mapping[str, Any] = field(default_factory=dict)
    """Specs by pattern; see `lowering.export.shardings.input_specs`."""

    def spec(self, name: str | None, shape: tuple[int, ...]) -> Spec | None:
        """The spec of the last pattern that matches an input; None if no pattern does.

        Raises:
            ExportError: the spec does not fit the mesh or the shape.
        """
        if self.mesh is None or name is None:
            return None
        specs = [spec for pattern, spec in self.by_pattern.items() if matches(pattern, name)]
        return self.mesh.spec(specs[-1], shape, name) if specs else None

    def check(self, sources: Sequence[str], *, is_full_graph: bool) -> None:
        """Warn about patterns that match no input of a graph. If Dynamo breaks a model into several
        graphs, other graphs may have such inputs.

        Args:
            sources: the sources of the inputs.

        Raises:
            CompositesError: a pattern matches no input and the model is one graph, or a pattern is
                not a string.
        """
        names = [name_of_source(source) for source in sources if source]
        for pattern in self.by_pattern:
            if not isinstance(pattern, str):
                raise CompositesError(f"shardings: a pattern must be a string, not {pattern!r}")
            if not any(matches(pattern, name) for name in names):
                text = f"shardings: no input has the name {pattern!r}{names_near(pattern, names)}"
                if is_full_graph:
                    raise CompositesError(text)
                warnings.warn(f"{text} (in this graph)", CompositesWarning, stacklevel=5)
