"""The time of each part of a program on a device, and the least time that a kernel could take."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from ..comparison.difference import TOLERANCES
from ..comparison.timing import Machine, kernel_bytes, measured, median_times, product_rate
from ..dtypes import element_name
from ..errors import StableHLOError
from ..module import Module
from ..run import Executable, main_types
from .devices import Device, Run


@dataclass(frozen=True)
class Peaks(Machine):
    """The highest rates that were measured on a device."""

    product_rates: dict[str, float]
    """Operations per second of a matmul, by element type."""

    def bound(self, size: int, flops: int, types: Iterable[str]) -> float:
        """The seconds to move `size` bytes, or to run `flops` operations, whichever is longer."""
        elements = set(map(element_name, types)) & self.product_rates.keys()
        rate = max(self.product_rates[element] for element in elements or self.product_rates)
        return max(size / self.copy_bandwidth, flops / rate)


@dataclass(frozen=True)
class Time:
    """The time of one part, or the total time of several parts."""

    seconds: float
    """The median time of the part, less the time of a call without work."""
    bytes: int
    """The bytes of operands and results, as `kernel_bytes` counts them."""
    flops: int
    """Floating-point operations of the decomposition, as XLA counts them."""
    bound_seconds: float
    """The time of a copy of these bytes, or of a matmul with as many operations."""

    @classmethod
    def total(cls, times: Iterable["Time"]) -> "Time":
        """The time of several parts."""
        return cls(*map(sum, zip(*map(astuple, times), strict=True)))

    @property
    def excess(self) -> float:
        """The seconds that a kernel as fast as the bound would save."""
        return max(0.0, self.seconds - self.bound_seconds)


@dataclass(frozen=True)
class Clock:
    """Measures the times of parts of a program on a device. Equal parts are measured once."""

    peaks: Peaks
    _times: dict[Run, Time] = field(default_factory=dict)

    @classmethod
    def create(cls, program: Module, device: Device, platform: str) -> "Clock":
        """Measure the device's peaks, in f32 and in other types that the program has."""
        text, rates = program.text, {"f32": product_rate(device, "f32")}
        for element in sorted(TOLERANCES.keys() - rates.keys()):
            with suppress(StableHLOError):  # the device does not support such a matmul
                if f"x{element}>" in text:
                    rates[element] = product_rate(device, element)
        return cls(Peaks(**asdict(measured(platform, device)), product_rates=rates))

    def time(self, run: Run, arrays: Sequence[Any], part: Module, plain: Executable) -> Time:
        """The time of a part. `plain` is its decomposition."""
        if run not in self._times:
            (seconds,) = median_times([run], arrays, seconds=0.2)
            types = [type_ for types in main_types(part) for type_ in types]
            size, flops = kernel_bytes(part), plain.flops
            bound = self.peaks.bound(size, flops, types)
            alone = max(0.0, seconds - self.peaks.call_seconds)
            self._times[run] = Time(alone, size, flops, bound)
        return self._times[run]
