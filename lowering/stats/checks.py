"""The checks of kernels in this process."""

from dataclasses import dataclass, field

from lowering.stats.data import Checks


@dataclass
class RecordedChecks:
    """All checks since the process began."""

    checks: Checks = field(default_factory=Checks)


recorded = RecordedChecks()
