"""The compiled forms of a program.

They differ in the operands whose memory results take, and in those that are zeros: gradients of
results that the loss does not depend on, such as the logits that a model returns beside its loss.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowering.live.devices import Devices
from lowering.live.strides import Order
from lowering.stablehlo import Module, jax_function
from lowering.stablehlo.dtypes import numpy_dtype
from lowering.stablehlo.run import compiler_options, enable_x64, import_jax

_MOST_NEW = 1 << 26
"""Bytes. A program that allocates more can fail, and then loses the memory donated to it."""
_MOST_FORMS = 4
"""A program with more forms receives zeros that are made in each call."""


def in_own_thread(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call a function that makes arrays, or traces, in a thread without frames of Dynamo.

    JAX's caches and arrays keep the code of all frames around them. Dynamo keeps a program as long
    as the code that it wrote for it, and the program keeps its parameters, with their arrays.
    """

    def call() -> Any:
        with enable_x64():  # a setting of the thread
            return function(*arguments, **keywords)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled function of arrays."""

    run: Callable[..., Sequence[Any]]
    results: Sequence[tuple[int, Order]]
    """The position of each result that `run` returns, and the order of its dimensions."""
    can_fail: bool
    """True if memory of inputs is donated, and the remaining memory may be too small."""


class Compilations:
    """A program, each form of which is compiled when it is first called."""

    def __init__(
        self,
        module: Module,
        devices: Devices,
        types: Sequence[Any],
        results: Sequence[tuple[int, Order]],
        *,
        operand_by_result: Mapping[int, int],
        cache: str | os.PathLike[str] | None,
    ) -> None:
        """Compile nothing yet.

        Args:
            module: the program.
            devices: run the program.
            types: the types of the operands.
            results: the position and the order of dimensions of each result.
            operand_by_result: for results that can take an operand's memory, the operand.
            cache: see `Devices.compile`.
        """
        self._module = module
        self._devices = devices
        self._types = [
            import_jax().ShapeDtypeStruct(type_.shape, numpy_dtype(type_.element_type))
            for type_ in types
        ]
        self._results = results
        self._operand_by_result = operand_by_result
        self._cache = cache
        self._compiled: dict[tuple[tuple[int, ...], tuple[int, ...]], Compiled] = {}

    def compiled(self, owned: Iterable[int] = (), zeros: Iterable[int] = ()) -> Compiled:
        """The compiled program.

        Args:
            owned: the positions of the results that take the memory of operands.
            zeros: the operands that are zeros, which the compiled function does not take.

        Raises:
            RunError: XLA cannot compile the program.
        """
        form = tuple(owned), tuple(zeros)
        if form not in self._compiled:
            self._compiled[form] = in_own_thread(self._compile, *form)
        return self._compiled[form]

    def has_room(self, owned: Iterable[int], zeros: Iterable[int]) -> bool:
        """Return whether a form is compiled, or may be. A loss that depends on a random subset of
        many results would compile a new form in each step."""
        form = tuple(owned), tuple(zeros)
        return not form[1] or form in self._compiled or len(self._compiled) < _MOST_FORMS

    def with_zeros(
        self, arrays: Iterable[Any], zeros: Collection[int], make: Callable[..., Any] = np.zeros
    ) -> list[Any]:
        """All operands, from the operands that are not zeros.

        Args:
            make: makes zeros of a shape and a type.
        """
        rest = iter(arrays)
        return [
            make(type_.shape, type_.dtype) if operand in zeros else next(rest)
            for operand, type_ in enumerate(self._types)
        ]

    def _compile(self, owned: Sequence[int], zeros: Sequence[int]) -> Compiled:
        platform = self._devices.platform
        function = jax_function(self._module, platform=platform)
        donated = {n: self._operand_by_result[n] for n in owned}
        # JAX gives the memory of donated operands to the first results that have their types.
        numbered = [(donated.get(n, len(self._types)), k) for k, (n, _) in enumerate(self._results)]
        positions = [k for _, k in sorted(numbered)]

        def in_order(*arrays: Any) -> tuple[Any, ...]:
            operands = self.with_zeros(arrays, zeros, import_jax().numpy.zeros)
            results = function(*operands)
            return tuple(results[k] for k in positions)

        run = self._devices.compile(
            in_order,
            [type_ for operand, type_ in enumerate(self._types) if operand not in zeros],
            len(positions),
            compiler_options(self._module, platform),
            self._cache,
            donated=sorted(donated.values()),
        )
        can_fail = bool(donated) and _new_bytes(run) > _MOST_NEW
        return Compiled(run, [self._results[k] for k in positions], can_fail)


def _new_bytes(compiled: Any) -> int:
    """The memory that a run allocates."""
    stats = compiled.memory_analysis()
    new = stats.output_size_in_bytes - stats.alias_size_in_bytes
    return int(stats.temp_size_in_bytes + new)
