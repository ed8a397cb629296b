"""The torch_xla frontend: the only module that touches private API of torch_xla.

Seen with torch 2.9.0 and torch_xla 2.9.0.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch._C._dynamo import eval_frame
from torch.utils._python_dispatch import _disable_current_modes
from torch_xla import runtime

from composites.errors import UnsupportedCallError
from composites.registry.model import ELEMENT_TYPES
from composites.registry.operators import Operator, find_overload
from lowering import products
from lowering.compiled_calls import CompiledCalls
from lowering.computations import Lowering
from lowering.emission import hlo_proto
from lowering.emission.builder import insertable
from lowering.emission.composite import DecompositionHlo, TensorType
from lowering.frontends import GraphParameter, Kernel, LoweredGraph, Seed, Target
from lowering.frontends.seeds import Generator, advances_between
from lowering.hlo.convert import to_stablehlo
from lowering.hlo.link import link, name_of, reference
from lowering.stablehlo import Module, constant_inputs
from lowering.stablehlo.dtypes import numpy_dtype

_XLAC = torch_xla._XLAC

OPERATOR_NAMESPACE = "composites"
"""Namespace of the operators that stand for entries whose own operator dissolves above XLA."""


_ELEMENT_TYPE_OF = {getattr(torch, name): element for element, name in ELEMENT_TYPES.items()} | {
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
}
_DTYPE_OF: dict[str, torch.dtype] = {element: dtype for dtype, element in _ELEMENT_TYPE_OF.items()}


@dataclass(frozen=True, slots=True, eq=False)
class StockKernel:
    """A kernel of torch_xla or PyTorch, callable after another one was registered over it."""

    call_boxed: Callable[..., Any]
    keys: torch._C.DispatchKeySet
    """The keys that a plain XLA tensor has from this kernel's key on down."""

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.call_boxed(self.keys, *arguments, **keywords)


@dataclass(frozen=True, slots=True)
class _LibraryOverride:
    library: torch.library.Library
    overload: Any = None
    """The `torch.ops` callable of the operator; None for an operator of ours."""

    def remove(self) -> None:
        self.library._destroy()
        _forget_dispatch(self.overload)


class ValueReadError(RuntimeError):
    """Something traced with placeholders asked for the value of one."""


_OTHER_DEVICE = "XLA tensor"
"""In all that torch_xla 2.9 says of a tensor that is on another device."""


class ForeignDataError(RuntimeError):
    """A recorded graph reads data that is none of its inputs."""


MAX_CONSTANT_BYTES = 1 << 20
"""What a tensor that is no input may hold; more would not be readable as text."""

_RECORDING_SEED = 0x5EED_C0DE_0F_5EED


def _is_seed(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.int64 and tensor.dim() == 0 and tensor.item() == _RECORDING_SEED


def _scalar_parameter(value: int) -> torch.Tensor:
    """A 0-d tensor that is data: `torch.tensor(value).to("xla")` is a constant where the value is 0
    or 1, or where something is traced."""
    tensor: torch.Tensor = xm.send_cpu_data_to_device([torch.tensor(value)], torch_xla.device())[0]
    return tensor


def _reset_to_base_seed() -> int:
    """The seed that torch_xla makes those of later graphs from; asking resets the running one."""
    with _values_readable():
        tensor = _XLAC._get_base_seed_as_tensor(str(torch_xla.device()))
        return int(tensor.item()) % (1 << 64)


class TorchXla:
    """Frontend of torch_xla; see `lowering.frontends.Frontend`."""

    dispatch_key = "XLA"
    autograd_key = "AutogradXLA"
    functionalization_key = "Functionalize"
    value_read_errors: type[Exception] = ValueReadError
    foreign_data_errors: type[Exception] = ForeignDataError

    # Called on every composite, so no function of ours stands in between.
    insert = staticmethod(_XLAC._xla_user_computation)

    def __init__(self) -> None:
        self._device = runtime.device_type() or "CPU"
        self._recording = False
        self._tracing = Lowering()
        self._referred: dict[str, bytes] = {}
        # A kernel's handle stays valid while another one is registered over it, but can only be
        # asked for while it is the newest one.
        self._stock: dict[tuple[str, str], StockKernel] = {}
        # Operators of ours stay defined: a compiled graph may hold one after it was turned off.
        self._defined: dict[str, torch.library.Library] = {}
        products.implement(self)
        self.compiled_calls = CompiledCalls()
        self.compiled_calls.implement(self.dispatch_key)
        self._top_of_dispatch = _fresh_thread_dispatch_state()
        self._generator = Generator(
            read=xm.get_rng_state,
            write=xm.set_rng_state,
            reset_to_base=_reset_to_base_seed,
            constants=_tracing_mode,
            parameter=_scalar_parameter,
        )

    @property
    def target(self) -> Target:
        # Autograd runs the backward of what is recorded in other threads, so that holds for all.
        return Target(None if self._recording else self._device, self._tracing.active)

    def stock_kernel(self, operator: Operator, dispatch_key: str) -> StockKernel:
        place = (operator.qualified, dispatch_key)
        if place not in self._stock:
            call_boxed = torch.library.get_kernel(operator.qualified, dispatch_key).call_boxed
            in_python = _python_kernel(find_overload(operator), dispatch_key)
            if in_python is not None:
                call_boxed = _in_python_dispatcher(in_python, call_boxed)
            self._stock[place] = StockKernel(call_boxed, _keys_from(dispatch_key))
        return self._stock[place]

    def takes_apart(self, operator: Operator) -> bool:
        # torch_xla's own AutogradXLA kernels (layer and group norm, pooling, …) are generated into
        # one file, whose name the dispatcher knows.
        table = torch._C._dispatch_dump_table(operator.qualified).splitlines()
        line = next((text for text in table if text.startswith(f"{self.autograd_key}:")), "")
        return "RegisterAutogradXLA" in line

    def override(self, operator: Operator, dispatch_key: str, kernel: Kernel) -> _LibraryOverride:
        self.stock_kernel(operator, dispatch_key)  # remember it while it can be asked for
        _keep_dynamo_out(kernel)
        namespace, _, name = operator.qualified.partition("::")
        library = torch.library.Library(namespace, "IMPL")
        with warnings.catch_warnings():  # "Overriding a previously registered kernel"
            warnings.simplefilter("ignore")
            library.impl(
                name,
                kernel,
                dispatch_key,
                with_keyset=dispatch_key != self.dispatch_key,
                allow_override=True,
            )
        overload = find_overload(operator)
        _forget_dispatch(overload)
        return _LibraryOverride(library, overload)

    def define_operator(self, name: str, operator: Operator, meaning: Kernel) -> Any:
        """An operator of ours with the schema of `operator`, which no decomposition takes apart.

        Its kernel on every other backend, on FakeTensors, and on XLA while the entry is off (a
        compiled graph may still call it) is `meaning`.
        """
        if name not in self._defined:
            schema = operator.schema.removeprefix(operator.qualified)
            library = torch.library.Library(OPERATOR_NAMESPACE, "FRAGMENT")
            library.define(f"{name}{schema}")
            library.impl(name, meaning, "CompositeExplicitAutograd")
            shapes = _for_fake_tensors(meaning)
            torch.library.register_fake(f"{OPERATOR_NAMESPACE}::{name}", shapes, lib=library)
            self._defined[name] = library
        return getattr(getattr(torch.ops, OPERATOR_NAMESPACE), name).default

    def on_backend(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*arguments: Any, **keywords: Any) -> Any:
            values = (*arguments, *keywords.values())
            if not any(isinstance(v, torch.Tensor) and v.is_xla for v in values):  # type: ignore[attr-defined]
                raise UnsupportedCallError("no tensor on XLA")
            return function(*arguments, **keywords)

        return checked

    def implement(self, name: str, kernel: Kernel) -> _LibraryOverride:
        """Give an operator of ours its XLA kernel."""
        library = torch.library.Library(OPERATOR_NAMESPACE, "IMPL")
        library.impl(name, kernel, self.dispatch_key)
        return _LibraryOverride(library)

    def trace(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        *,
        whole_dispatch: bool,
        autocast: torch.dtype | None = None,
        as_stock: bool = False,
    ) -> DecompositionHlo:
        with _disable_current_modes():  # those of torch.compile, if this is done while it traces
            return self._trace(function, operands, whole_dispatch, autocast, as_stock)

    def _trace(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        whole_dispatch: bool,
        autocast: torch.dtype | None,
        as_stock: bool,
    ) -> DecompositionHlo:
        def traced(*, constants: bool) -> tuple[DecompositionHlo, dict[int, torch.Tensor]]:
            with (
                self._tracing.begun(),
                _tracing_mode(constants=constants),
                self._whole_dispatch() if whole_dispatch else _nothing(),
                torch.no_grad(),
            ):
                placeholders = [None if t is None else _placeholder(t) for t in operands]
                with (
                    _values_unreadable(),
                    _autocast(autocast),
                    _without_saved_tensors_hooks(),
                ):
                    outputs = function(*placeholders)
                    outputs = outputs if isinstance(outputs, list | tuple) else (outputs,)
                    context = _XLAC.lowering.LoweringContext("decomposition")
                    context.build(list(outputs))
                ids = [context.tensor_parameter_id(t) for t in placeholders if t is not None]
                parameters = tuple(i if i >= 0 else None for i in ids)
                data = context.device_parameter_id_tensor_mapping()
                others = {n: tensor for n, tensor in data.items() if n not in parameters}
                return DecompositionHlo(context.hlo(), parameters), others

        before = xm.get_rng_state()
        decomposition, foreign = traced(constants=True)
        draws = advances_between(before, xm.get_rng_state(), limit=64)
        if draws == 0:
            if not as_stock or foreign or self._recording or self._device != "CPU":
                return decomposition
            decomposition, numbers = traced(constants=False)
            return replace(decomposition, numbers=self._numbers(numbers))
        # It draws random numbers. In the graph that is being built the state may be anything by
        # now, so it is traced again from a state that is a parameter and nothing more.
        self._generator.restore(before)
        with self._generator.at(_RECORDING_SEED):
            decomposition, others = traced(constants=True)
        with _values_readable():
            seeds = [number for number, tensor in others.items() if _is_seed(tensor)]
        return replace(decomposition, seed=seeds[0] if seeds else None, draws=draws or 0)

    def _numbers(self, tensors: Mapping[int, torch.Tensor]) -> dict[int, Any]:
        with _values_readable():
            return {number: self._values(tensor) for number, tensor in tensors.items()}

    def _values(self, tensor: torch.Tensor) -> Any:
        """The values of a tensor that has data, as numpy."""
        type_ = self.tensor_type(tensor)
        bits = tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return bits.view(numpy_dtype(type_.element_type)).reshape(type_.shape)

    def autocast_dtype(self) -> torch.dtype | None:
        return torch.get_autocast_dtype("xla") if torch.is_autocast_enabled("xla") else None

    @contextmanager
    def autocast(self, dtype: torch.dtype | None) -> Iterator[None]:
        with _autocast(dtype):
            yield

    def seed(self) -> Seed:
        return self._generator.seed()

    def advance(self, draws: int) -> None:
        self._generator.advance(draws)

    @contextmanager
    def random_state(self, seed: Seed | None) -> Iterator[None]:
        with _nothing() if seed is None else self._generator.at(seed.value):
            yield

    def tensor_type(self, tensor: torch.Tensor) -> TensorType:
        return TensorType(_ELEMENT_TYPE_OF[tensor.dtype], tuple(tensor.shape))

    def dtype(self, element_type: str) -> torch.dtype:
        return _DTYPE_OF[element_type]

    def computation(self, name: str, module: bytes) -> Any:
        if self._recording:
            self._referred[name_of(module)] = module
            module = reference(module)
        return _XLAC._xla_op_computation_from_module_proto(name, module)

    def hlo(self, tensors: Sequence[torch.Tensor]) -> bytes:
        """The graph that gives these tensors, as a serialized HLO module, before any XLA pass."""
        return _XLAC._get_xla_tensors_hlo_proto(list(tensors))  # type: ignore[no-any-return]

    @contextmanager
    def recording(self) -> Iterator[None]:
        # A seed that nothing else equals, to know the parameter that carries it.
        before, recording = xm.get_rng_state(), self._recording
        xm.set_rng_state(_RECORDING_SEED)
        self._recording = True
        try:
            with _tracing_mode(), _values_unreadable():
                yield
        except RuntimeError as error:
            if _OTHER_DEVICE not in str(error):
                raise
            raise ForeignDataError(
                "an operator takes a tensor of another device beside one that is traced"
                f" ({str(error).splitlines()[0]}); make it on the device of the module's arguments,"
                " as torch.ones(n, device=x.device) does, or register it as a buffer"
            ) from error
        finally:
            self._recording = recording
            xm.set_rng_state(before)

    def placeholder(self, like: torch.Tensor) -> torch.Tensor:
        return _placeholder(like)

    def unchanged(
        self, tensors: Sequence[torch.Tensor], placeholders: Sequence[torch.Tensor]
    ) -> list[bool]:
        if not tensors:
            return []
        context = _XLAC.lowering.LoweringContext("unchanged")
        context.build(list(placeholders))
        return [context.tensor_parameter_id(tensor) >= 0 for tensor in tensors]

    def lower_graph(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> LoweredGraph:
        context = _XLAC.lowering.LoweringContext("IrToHlo")
        context.build(list(outputs))
        hlo = context.hlo()
        module = to_stablehlo(hlo, self._referred)
        clean = module is not None
        if module is None:
            outputs = self._linked(hlo, context.device_parameter_id_tensor_mapping())
            context = _XLAC.lowering.LoweringContext("IrToHlo")
            context.build(list(outputs))
            # This lowers the outputs one after the other too, so it numbers parameters alike.
            bytecode = _XLAC._get_stablehlo(list(outputs), "", [], True)
            module = Module.from_bytes(bytecode, "torch_xla's StableHLO")
        found = {context.tensor_parameter_id(t): n for n, t in enumerate(inputs)}
        data = context.device_parameter_id_tensor_mapping()
        parameters: list[GraphParameter] = []
        constants: dict[int, Any] = {}
        with _values_readable():
            for number in sorted(data):
                operand = found.get(number)
                if operand is None and not _is_seed(data[number]):
                    constants[number] = self._constant(data[number])
                else:
                    parameters.append(GraphParameter(operand, self.tensor_type(data[number])))
        if constants:
            module = constant_inputs(module, constants)
        return LoweredGraph(module, clean, tuple(parameters))

    def _constant(self, tensor: torch.Tensor) -> Any:
        """The values of a tensor that the program made itself, as numpy."""
        size = tensor.numel() * tensor.element_size()
        if size > MAX_CONSTANT_BYTES:
            type_ = self.tensor_type(tensor)
            raise ForeignDataError(
                f"the module computes with a tensor of its own, {type_}, that is no parameter,"
                f" buffer or argument, and with {size / 1e6:.0f} MB too large for a constant;"
                " register it as a buffer"
            )
        return self._values(tensor)

    def _linked(self, hlo: bytes, parameters: Mapping[int, torch.Tensor]) -> Sequence[torch.Tensor]:
        """The results of a recorded graph, as those of one that has in it what it refers to."""
        graph = hlo_proto.Module.FromString(hlo)
        computations = link(graph, self._referred)
        graph.ClearField("computations")
        graph.computations.extend(computations)
        handle = _XLAC._xla_op_computation_from_module_proto("graph", insertable(graph))
        operands = [parameters[number] for number in sorted(parameters)]
        results: Sequence[torch.Tensor] = self.insert("composites::graph", operands, handle)
        return results

    @contextmanager
    def _whole_dispatch(self) -> Iterator[None]:
        with torch._C._ForceDispatchKeyGuard(*self._top_of_dispatch):
            yield


def _forget_dispatch(overload: Any) -> None:
    """PyTorch's Python dispatcher, under torch.compile, remembers which kernel an operator has."""
    if overload is not None:
        overload._dispatch_cache.clear()


def _keep_dynamo_out(kernel: Kernel) -> None:
    """Run a kernel and what it calls as they are, as Dynamo does with kernels in C++.

    It would trace their frames too where an operator is called in a frame that it has skipped.
    """
    skipped = eval_frame._FrameExecStrategy(
        eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP
    )
    eval_frame.set_code_exec_strategy(kernel.__code__, skipped)


def _python_kernel(overload: Any, dispatch_key: str) -> Kernel | None:
    """The kernel in Python that an operator has for a key beside the one in C++."""
    key = torch._ops.resolve_key(overload, getattr(torch._C.DispatchKey, dispatch_key))
    return overload.py_kernels.get(key)  # type: ignore[no-any-return]


def _for_fake_tensors(meaning: Kernel) -> Kernel:
    """What finds an operator's results on FakeTensors: the operators that it dissolves into.

    Called on meta tensors, as PyTorch does without it, `aten::cross_entropy_loss` never returns.
    """
    if isinstance(meaning, torch._ops.OpOverload) and meaning._can_decompose():
        return meaning.decompose
    return meaning


def _in_python_dispatcher(in_python: Kernel, call_boxed: Kernel) -> Kernel:
    """What the dispatcher would call: torch.compile traces kernels in Python where there are any.

    Theirs of dropout, for one, draws other random numbers.
    """

    def chosen(keys: torch._C.DispatchKeySet, *arguments: Any, **keywords: Any) -> Any:
        if torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.PythonDispatcher):
            return in_python(*arguments, **keywords)
        return call_boxed(keys, *arguments, **keywords)

    return chosen


def _keys_from(dispatch_key: str) -> torch._C.DispatchKeySet:
    # ADInplaceOrView has a kernel for operators that write or return views, which no entry is, and
    # a fallthrough for the others, which must not be called.
    order = ("AutogradXLA", "Functionalize", "XLA")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.XLA)
    for name in order[order.index(dispatch_key) :]:
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return keys


def _placeholder(tensor: torch.Tensor) -> torch.Tensor:
    from torch_xla.core.xla_builder import create_placeholder_tensor

    return create_placeholder_tensor(tuple(tensor.shape), tensor.dtype)  # type: ignore[no-any-return]


_EXCLUSIVE = threading.Lock()
"""Held by the outermost trace of the process, for what it and the threads of autograd do for it."""


@dataclass(slots=True)
class _Switches:
    """torch_xla's process-wide switches as they were before the outermost trace."""

    constants: bool = False


_OUTSIDE = _Switches()


@contextmanager
def _tracing_mode(*, constants: bool = True) -> Iterator[None]:
    """Trace whatever the user's mode is.

    torch_xla's eager mode would run each operator on placeholders, which aborts the process. And it
    makes Python numbers other than 0 and 1 parameters of the graph; with `constants`, they are
    constants, otherwise what they are in the user's graphs.
    """
    outermost = not torch._C._dispatch_tls_is_dispatch_key_included(_GUARD)
    with _EXCLUSIVE if outermost else _nothing():
        before = (_XLAC._get_xla_all_numbers_special_scalars(), _XLAC._get_use_eager_mode())
        if outermost:
            _OUTSIDE.constants = before[0]
        _XLAC._set_xla_all_numbers_special_scalars(constants or _OUTSIDE.constants)
        _XLAC._set_use_eager_mode(False)
        try:
            yield
        finally:
            _XLAC._set_xla_all_numbers_special_scalars(before[0])
            _XLAC._set_use_eager_mode(before[1])


# The operators through which a value leaves the device; torch_xla aborts the process when it is a
# placeholder's. `_to_cpu` is how an operator without XLA kernel falls back to the CPU.
_READERS = (
    "_to_cpu",
    "_to_copy",
    "_local_scalar_dense",
    "_copy_from",
    "_copy_from_and_resize",
    "equal",
)


@contextmanager
def _autocast(dtype: torch.dtype | None) -> Iterator[None]:
    before = (torch.is_autocast_enabled("xla"), torch.get_autocast_dtype("xla"))
    torch.set_autocast_enabled("xla", dtype is not None)
    torch.set_autocast_dtype("xla", dtype or before[1])
    try:
        yield
    finally:
        torch.set_autocast_enabled("xla", before[0])
        torch.set_autocast_dtype("xla", before[1])


@contextmanager
def _without_saved_tensors_hooks() -> Iterator[None]:
    """Take away the user's hooks, which must not see what is traced: it has no values."""
    api = torch._C._autograd
    hooks: list[Any] = []
    while (top := api._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(top)
        api._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            api._push_saved_tensors_default_hooks(pack, unpack)


_GUARD_NAME = "TESTING_ONLY_GenericMode"
_GUARD = torch._C._dispatch_key_parse(_GUARD_NAME)
"""A dispatch key that no tensor has and nothing of PyTorch's uses: kernels for it run in a thread
that includes it, and in the threads of autograd that run a backward for that one."""


@contextmanager
def _values_unreadable() -> Iterator[None]:
    """Turn torch_xla's abort on reading a placeholder into an exception.

    Other threads may read values meanwhile: kernels for a key of its own leave those of XLA, and
    what they raise, as they were.
    """
    _guard_readers()
    with torch._C._IncludeDispatchKeyGuard(_GUARD):
        yield


@contextmanager
def _values_readable() -> Iterator[None]:
    """Let this thread read the value of a tensor that has data, also while it traces."""
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_GUARD)):
        yield


@cache
def _guard_readers() -> tuple[torch.library.Library, ...]:
    """Give the guard its kernels, for good."""
    others = torch.library.Library("_", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, _GUARD_NAME)
    readers = torch.library.Library("aten", "IMPL")
    for name in _READERS:
        readers.impl(name, _refusing(name), _GUARD_NAME, with_keyset=True)
    return others, readers


def _refusing(name: str) -> Kernel:
    overload = getattr(torch.ops.aten, name).default

    def kernel(keys: torch._C.DispatchKeySet, *arguments: Any, **keywords: Any) -> Any:
        # PyTorch hands over the tensor that it made of a Python number as the number itself.
        arguments = tuple(_as_tensor(a) if n == 0 else a for n, a in enumerate(arguments))
        read = arguments[0] if name == "_to_cpu" else arguments[:2]
        on_xla = any(isinstance(t, torch.Tensor) and t.is_xla for t in read)  # type: ignore[attr-defined]
        if not on_xla or _stays_on_xla(name, arguments, keywords):
            return overload.redispatch(keys.remove(_GUARD), *arguments, **keywords)
        by = "an operator without XLA kernel, on the CPU," if name == "_to_cpu" else f"aten::{name}"
        raise ValueReadError(
            f"{by} reads the value of a tensor, and there is none while it is traced"
        )

    return kernel


def _as_tensor(value: Any) -> Any:
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    return torch.tensor(value) if isinstance(value, int) else value


def _stays_on_xla(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether a copy goes to an XLA tensor again; casts of dtype are copies too."""
    if name == "_to_copy":
        device = keywords.get("device")
        return device is None or torch.device(device).type == "xla"
    return name.startswith("_copy_from") and arguments[1].device.type == "xla"


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _fresh_thread_dispatch_state() -> tuple[Any, Any]:
    """The dispatcher's thread-local included and excluded keys as a user's call finds them."""
    found: list[Any] = []

    def read() -> None:
        found.append(torch._C._dispatch_tls_local_include_set())
        found.append(torch._C._dispatch_tls_local_exclude_set())

    thread = threading.Thread(target=read, name="composites-dispatch-state")
    thread.start()
    thread.join()
    return found[0], found[1]
