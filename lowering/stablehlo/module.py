"""`Module`: one StableHLO module, read from text or bytes. Passes do not change it in place."""

import os
from dataclasses import dataclass
from pathlib import Path

from composites.files import write_atomic

from . import bindings
from .ir_types import IrModule
from .isolation import Limits, checked


@dataclass(frozen=True, eq=False, repr=False)
class Module:
    """A StableHLO module. Passes take a module and return another one. Neither changes later.

    A module is read in this process. A damaged module can crash jaxlib, and the process with it.
    With `limits`, another process reads the module first, which takes a quarter of a second more,
    and this process reads the bytecode that the other process has written again. A `CrashError`
    reports that the other process died or exceeded the limits.
    """

    ir: IrModule
    """The MLIR module. It may be read freely. To change it, work on `copy_ir()`."""

    @classmethod
    def parse(cls, text: str, source: str = "<text>", *, limits: Limits | None = None) -> "Module":
        """Read MLIR text. `source` is the name that error messages refer to.

        Raises:
            ParseError: the text is malformed; the message has the line and column.
            CrashError: jaxlib cannot read the text within the limits.
        """
        if limits is not None:
            checked(text.encode(errors="surrogatepass"), source, limits)
        return cls(bindings.parse_text(text, source))

    @classmethod
    def from_bytes(
        cls, data: bytes, source: str = "<bytes>", *, limits: Limits | None = None
    ) -> "Module":
        """Read MLIR text, MLIR bytecode or a portable StableHLO artifact.

        Raises:
            ParseError: the text is malformed; the message has the line and column.
            BytecodeError: the bytecode is damaged, or `data` is neither text nor bytecode.
            CrashError: jaxlib cannot read the data within the limits.
        """
        if limits is not None:
            data = checked(data, source, limits)
        return cls(bindings.parse_bytes(data, source))

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, limits: Limits | None = None) -> "Module":
        """Read a file. Its first bytes, not its name, determine whether it is text or bytecode.

        Raises:
            StableHLOError: see `from_bytes`.
        """
        return cls.from_bytes(Path(path).read_bytes(), str(path), limits=limits)

    @property
    def text(self) -> str:
        """The module as MLIR text, without source locations."""
        return str(self.ir)

    @property
    def name(self) -> str:
        """The module's symbol name, or an empty string."""
        name = bindings.attributes(self.ir.operation).get("sym_name")
        return "" if name is None else bindings.string_value(name)

    def write(self, path: str | os.PathLike[str], *, portable: str | None = None) -> None:
        """Write text, or a portable artifact if `portable` names a StableHLO version.

        A name that ends in `.mlirbc` also selects a portable artifact, for the default version of
        `portable`. The file is written completely or not at all.
        """
        binary = portable is not None or Path(path).suffix == ".mlirbc"
        write_atomic(path, self.portable(portable) if binary else self.text)

    def portable(self, version: str | None = None) -> bytes:
        """A versioned artifact for StableHLO readers of `version` and newer.

        The default version is 1.13.0 (`bindings.PORTABLE_VERSION`), which jaxlib 0.7.1 and newer
        read. CHLO has no versioned form, so CHLO operations are legalized to StableHLO first.
        Source locations are dropped, so that equal text gives equal bytes.

        Raises:
            VersionError: the version is invalid, or cannot hold the module; see the message.
        """
        copy = self.copy_ir()
        bindings.legalize_chlo(copy)
        bindings.run_pipeline(copy, "builtin.module(strip-debuginfo)")
        return bindings.serialize_portable(copy, version)

    def verify(self) -> None:
        """Raise `VerificationError` if the module breaks a rule of its dialects."""
        bindings.verify(self.ir)

    def copy_ir(self) -> IrModule:
        """A copy of the MLIR module that a pass can change and wrap in a new `Module`."""
        return bindings.clone(self.ir)

    def __repr__(self) -> str:
        return f"Module(@{self.name}, {len(self.ir.body.operations)} functions)"
