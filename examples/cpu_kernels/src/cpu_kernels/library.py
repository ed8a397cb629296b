"""Compiles kernels when they are first used, and registers them with XLA.

source/NAME.cc -> NAME-KEY.so in a cache folder -> its handlers as targets of XLA's typed FFI

The key is a hash of the sources, the flags, the compiler, what it knows of this processor, and the
versions of jaxlib and, for kernels of ATen, torch. A library of another key is never loaded.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import jax

from composites import UnsupportedCallError

SOURCES = Path(__file__).parent / "source"
FLAGS = (
    *("-O3", "-march=native", "-std=c++20", "-shared", "-fPIC", "-fopenmp-simd"),
    # No kernel reads errno or the floating-point flags. NaN and infinity keep their meaning.
    *("-fno-math-errno", "-fno-trapping-math"),
)
_OTHERWISE = "run the step without this package's kernels, as with compile(kernels=None)"
_HANDLER = re.compile(r"^XLA_FFI_DEFINE_HANDLER_SYMBOL\(\s*(\w+)", re.MULTILINE)


class CompilationError(RuntimeError):
    """The kernels cannot be compiled on this machine, kept or loaded."""


def cache_folder() -> Path:
    """The folder of compiled kernels: CPU_KERNELS_CACHE, or `cpu_kernels` in the user's cache."""
    folder = os.environ.get("CPU_KERNELS_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cpu_kernels"


@cache
def register(name: str, *, needs_torch: bool = False) -> None:
    """Make the handlers of source/NAME.cc targets of XLA, under their own names.

    Args:
        needs_torch: whether the source calls ATen.

    Raises:
        UnsupportedCallError: it calls ATen, and torch is not installed.
        CompilationError: there is no compiler, it fails, or the library cannot be kept or loaded.
    """
    if needs_torch:
        if find_spec("torch") is None:
            raise UnsupportedCallError("is ATen's, and needs torch: pip install torch")
        import torch  # noqa: F401  loads ATen, which the library then finds

    library = _loaded(compiled(name, needs_torch=needs_torch))
    for target in _HANDLER.findall((SOURCES / f"{name}.cc").read_text(encoding="utf-8")):
        handler = jax.ffi.pycapsule(getattr(library, target))
        jax.ffi.register_ffi_target(target, handler, platform="cpu")


def _loaded(library: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise CompilationError(
            f"the compiled kernels cannot be loaded ({error}): remove {library}, so that they are"
            f" compiled again, name another folder with CPU_KERNELS_CACHE, or {_OTHERWISE}"
        ) from error


def compiled(name: str, *, needs_torch: bool = False) -> Path:
    """The shared library of source/NAME.cc, compiled if the cache lacks it.

    Raises:
        CompilationError: there is no compiler, it fails, or the library cannot be kept.
    """
    flags = [*FLAGS, "-isystem", jax.ffi.include_dir()]
    linked: list[str] = []
    if needs_torch:
        torch_flags, linked = _torch_flags()
        flags += torch_flags
    library = cache_folder() / f"{name}-{_key(name, flags, needs_torch)}.so"
    try:
        if not library.exists():
            with _locked(library):
                if not library.exists():
                    _compile(name, library, flags, linked)
    except OSError as error:
        raise CompilationError(
            f"compiled kernels cannot be kept in {library.parent} ({error}): name a folder"
            f" that can be written to with CPU_KERNELS_CACHE, or {_OTHERWISE}"
        ) from error
    return library


@contextmanager
def _locked(library: Path) -> Iterator[None]:
    """Let other processes that need this library wait, for it takes up to a minute to compile."""
    library.parent.mkdir(parents=True, exist_ok=True)
    lock = library.with_suffix(".lock")
    with lock.open("w") as file:
        with suppress(OSError):  # a network's file system may have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _compile(name: str, library: Path, flags: list[str], linked: list[str]) -> None:
    # In a folder of its own: where there are no locks, others may compile the same, and the last
    # one counts. An interrupted compilation leaves no library.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        command = [compiler(), *flags, "-o", str(made), str(SOURCES / f"{name}.cc"), *linked]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompilationError(
                f"{compiler()} cannot compile {name}.cc: {done.stderr.strip()[-2000:]};"
                f" {_OTHERWISE}"
            )
        made.replace(library)


def compiler() -> str:
    """The C++ compiler: CXX, or g++."""
    return os.environ.get("CXX") or "g++"


def _torch_flags() -> tuple[list[str], list[str]]:
    """Options of the compiler and the linker for ATen."""
    import torch

    folder = Path(torch.__file__).parent
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    headers = ["-isystem", str(folder / "include"), abi]
    libraries = folder / "lib"
    linked = ["-L", str(libraries), "-ltorch_cpu", "-lc10", "-ldl", f"-Wl,-rpath,{libraries}"]
    return headers, linked


def _key(name: str, flags: list[str], needs_torch: bool) -> str:
    packages = ["jaxlib", "torch"] if needs_torch else ["jaxlib"]
    texts = [
        *flags,
        *(f"{package} {version(package)}" for package in packages),
        _of_compiler(compiler()),
        platform.machine(),
        (SOURCES / f"{name}.cc").read_text(encoding="utf-8"),
        *(path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("*.h"))),
    ]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


@cache
def _of_compiler(path: str) -> str:
    """Its version, and what -march=native means on this processor."""
    outputs = []
    for asked in (["--version"], ["-march=native", "-Q", "--help=target"]):
        try:
            done = subprocess.run([path, *asked], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise CompilationError(
                f"the kernels are compiled at their first use, and the C++ compiler {path!r} does"
                f" not run ({error}): install g++ (apt install g++), name a compiler of GNU's with"
                f" CXX, or {_OTHERWISE}"
            ) from error
        outputs.append(done.stdout)
    return "\0".join(outputs)
