"""Running a module's step on placeholders, to find the tensors that are inputs and outputs."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import torch

from composites import torch_internals
from composites.errors import ExportError, ProgramError, UnsupportedCallError
from composites.tensor_subclasses import inner_tensors, with_inner_tensors
from composites.torch_internals import pytree
from composites.user_code import error_line
from lowering import interrupts
from lowering.export.arrays import array
from lowering.export.cache_tensors import cache_input
from lowering.export.manifest import Value
from lowering.export.optimizers import OptimizerFactory, make_optimizer, step_once
from lowering.export.program import Program
from lowering.frontends.errors import (
    ControlFlowError,
    ForeignDataError,
    NoKernelError,
    ValueReadError,
)
from lowering.frontends.finished_frames import clear_frames
from lowering.frontends.protocols import Frontend, Tensors
from lowering.frontends.tensor_types import layout_refusal
from lowering.stablehlo import order_inputs


@dataclass(frozen=True, slots=True)
class Output:
    """A result of the step."""

    name: str
    tensor: torch.Tensor
    updates: str | None = None


def _bytes(name: str, tensor: torch.Tensor) -> bytes | None:
    """The bytes of a tensor; None if it has no value, as on the device `meta`."""
    try:
        return array(name, tensor).tobytes()  # type: ignore[no-any-return]
    except ProgramError:
        return None


def trace(
    frontend: Frontend,
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    train: bool = False,
    optimizer: OptimizerFactory | None = None,
    shared: bool = False,
) -> "Traced":
    """Record a forward pass.

    Args:
        train: True to record the backward, and with an optimizer the update.
        shared: True if several devices share the program.
    """

    def finished(result: Any) -> Any:
        """The result, after the backward."""
        if not train:
            return result
        loss = _loss(result, type(module).__name__)
        loss.backward()
        return loss

    with (
        interrupts.deferred(),
        # Gradients are needed in any mode of the caller.
        torch.inference_mode(torch.is_inference_mode_enabled() and not train),
        _recording(frontend, shared) as tracer,
        torch.set_grad_enabled(train),
        interrupts.allowed(),
    ):
        result = tracer.call(module, args, kwargs, finished)
        trained: dict[str, torch.nn.Parameter] = {}
        if train:
            tracer.output("loss", result.detach())
            for name, parameter in tracer.parameters.items():
                if parameter.grad is not None:
                    trained[name] = parameter
                    # A copy: the optimizer may write to the gradient.
                    tracer.output(f"grad:{name}", parameter.grad.clone())
        else:
            for path, leaf in pytree.tree_flatten_with_path(result)[0]:
                if isinstance(leaf, torch.Tensor):
                    tracer.output(f"out:{_written(path) or '0'}", leaf)
            if not tracer.outputs:
                raise ExportError(f"{type(module).__name__} returns no tensor")
        tracer.updates()
        if optimizer is not None:
            tracer.update(trained, optimizer)
    return tracer


def move_graph(
    program: torch.export.ExportedProgram | torch.fx.GraphModule, tensors: Tensors
) -> torch.nn.Module:
    """Return the module of an exported program or of a graph, moved to the frontend's device.

    A graph names the device that it was traced on where it creates or checks tensors.
    """
    persistent: Mapping[str, Any]
    if isinstance(program, torch.fx.GraphModule):
        graph, persistent = program, program.state_dict()
    else:
        graph, persistent = program.module(), program.state_dict
    moved = _moved(graph, torch.device(tensors.device_type, 0))
    for name, tensor in list(moved.named_buffers(remove_duplicate=False)):
        if name not in persistent:
            owner, _, leaf = name.rpartition(".")
            moved.get_submodule(owner).register_buffer(leaf, tensor, persistent=False)
    return moved


def model_name(module: torch.nn.Module | torch.export.ExportedProgram) -> str:
    """The name of a model's class.

    An exported program is a graph, whose nodes record the modules that they come from. The first
    module is the model.
    """
    if not isinstance(module, torch.export.ExportedProgram):
        return type(module).__name__
    stacks = (node.meta.get("nn_module_stack") for node in module.graph.nodes)
    outermost = next((next(iter(stack.values())) for stack in stacks if stack), None)
    if outermost is None:  # the graph is empty
        return type(module.graph_module).__name__
    _path, class_name = outermost
    return str(class_name).rpartition(".")[2]


def names_device(module: object) -> TypeGuard[torch.fx.GraphModule]:
    """Return whether a module is a graph that names the device that it was traced on."""
    if not isinstance(module, torch.fx.GraphModule):
        return False
    return any(
        torch_internals.is_metadata_check(node.target)
        or any(isinstance(x, torch.device) for x in pytree.tree_leaves((node.args, node.kwargs)))
        for node in module.graph.nodes
    ) or any(map(names_device, module.children()))


def _moved(module: Any, device: torch.device) -> torch.fx.GraphModule:
    moved = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    # Pre-forward hooks are torch.export's checks, which need more of the module.
    hooks = {name: value for name, value in vars(module).items() if "_forward_hooks" in name}
    vars(moved).update(hooks)
    for name, child in module.named_children():
        if isinstance(child, torch.fx.GraphModule):
            setattr(moved, name, _moved(child, device))
    for node in list(moved.graph.nodes):
        if torch_internals.is_metadata_check(node.target):
            moved.graph.erase_node(node)
        else:
            node.args, node.kwargs = pytree.tree_map_only(
                torch.device, lambda _: device, (node.args, node.kwargs)
            )
    moved.recompile()
    return moved


def _loss(result: Any, owner: str) -> torch.Tensor:
    loss = getattr(result, "loss", None)
    if loss is None:
        loss = result[0] if isinstance(result, tuple | list) and result else result
    if not isinstance(loss, torch.Tensor) or loss.dim() != 0:
        returned = (
            f"a tensor of shape {tuple(loss.shape)}"
            if isinstance(loss, torch.Tensor)
            else (f"{type(result).__name__}")
        )
        raise ExportError(
            f"with train=True, {owner} must return a scalar loss: a tensor, an object with .loss,"
            f" or a tuple that starts with it; it returned {returned}"
        )
    if not loss.requires_grad:
        raise ExportError(
            f"the loss of {owner} does not depend on any parameter that requires a gradient"
        )
    return loss


class _Called(torch.nn.Module):
    """A module followed by its backward. The backward, in which checkpointed parts run again, runs
    while the module's tensors are still placeholders."""

    def __init__(self, module: torch.nn.Module, then: Callable[[Any], Any]) -> None:
        super().__init__()
        self.module = module
        self._then = then

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._then(self.module(*args, **kwargs))


class Traced:
    """A step that is recorded and not run: placeholders for the tensors that a module reads, and
    the outputs."""

    def __init__(self, frontend: Frontend) -> None:
        self.frontend = frontend
        self.inputs: dict[str, torch.Tensor] = {}
        """Placeholders by name."""
        self.outputs: list[Output] = []
        self.marks: dict[str, str] = {}
        """The shardings of the caller's tensors, as GSPMD's text, by input."""
        self.kept: dict[str, torch.Tensor] = {}
        """The caller's buffers that a `state_dict` leaves out, by the name of their input."""
        self.parameters: dict[str, torch.nn.Parameter] = {}
        self.buffers: dict[str, torch.Tensor] = {}
        self._names: dict[str, str] = {}
        """The names of inputs, by buffer."""
        self.arguments: dict[str, torch.Tensor] = {}
        """The tensors among the arguments, by name of the input."""

    def lower(self, *, located: bool = False) -> Program:
        """Lower the outputs to StableHLO, with the inputs that they depend on, in the order of
        recording; see `Recording.lower_graph`."""
        outputs = [output.tensor for output in self.outputs]
        try:
            graph = self.frontend.recording.lower_graph(
                outputs, list(self.inputs.values()), located=located
            )
        except (ForeignDataError, UnsupportedCallError) as error:
            raise ExportError(str(error)) from error
        names = [*self.inputs, "rng_seed"]
        numbers = [len(self.inputs) if p.operand is None else p.operand for p in graph.parameters]
        order = sorted(range(len(numbers)), key=numbers.__getitem__)
        values = []
        for index in order:
            name = names[numbers[index]]
            kept = _bytes(name, self.kept[name]) if name in self.kept else None
            values.append(replace(Value.from_type(name, graph.parameters[index].type), kept=kept))
        # A tensor that the module writes to and does not read is not an input to update. A tensor
        # that replaces a tensor of another type is not its next value.
        input_types = {(value.name, value.type) for value in values}
        results = []
        for output, type_ in zip(self.outputs, graph.results, strict=True):
            value = Value.from_type(output.name, type_)
            is_next = (output.updates, value.type) in input_types
            results.append(replace(value, updates=output.updates) if is_next else value)
        module = order_inputs(graph.module, order)
        return Program(module, tuple(values), tuple(results))

    def placeholder(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """A tensor to compute with: a copy, because updates write to it and the input must stay. A
        tensor that holds inner tensors has an input for each inner tensor."""
        copied: torch.Tensor = with_inner_tensors(name, like, self._placeholder)
        return copied

    def _placeholder(self, name: str, like: torch.Tensor) -> torch.Tensor:
        if name in self.inputs:
            raise ExportError(f"two tensors of the call have the name {name!r}; rename a key")
        refusal = layout_refusal(like)
        if refusal is not None:
            raise ExportError(f"{name} cannot be an input: it {refusal}")
        try:
            self.inputs[name] = self.frontend.tensors.placeholder(like)
        except UnsupportedCallError as error:
            raise ExportError(
                f"{name} cannot be an input: {error}; cast it, or pass its bits as uint8 with"
                " .view(torch.uint8)"
            ) from error
        mark = self.frontend.sharding_text(like)
        if mark:
            self.marks[name] = mark
        return self.inputs[name].clone()

    def output(self, name: str, tensor: torch.Tensor, *, updates: bool = False) -> None:
        """Add a result, or a result for each inner tensor.

        Args:
            updates: True if the result is the next value of the input of the same name.
        """
        for inner_name, inner in inner_tensors(name, tensor):
            if any(output.name == inner_name for output in self.outputs):
                raise ExportError(
                    f"two outputs have the name {inner_name!r}; rename a key of the result"
                )
            if inner.device.type != self.frontend.tensors.device_type:
                raise ExportError(
                    f"the result {inner_name!r} is a tensor on {inner.device}; make it on the"
                    " device of an input or a parameter, as torch.zeros(3, device=x.device), or"
                    " register it as a buffer"
                )
            self.outputs.append(Output(inner_name, inner, inner_name if updates else None))

    def call(
        self,
        module: torch.nn.Module,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        then: Callable[[Any], Any],
    ) -> Any:
        """Call the module, and return the result of `then` for the module's result."""
        for name, parameter in module.named_parameters():
            tensor = self.placeholder(f"param:{name}", parameter)
            self.parameters[name] = torch.nn.Parameter(tensor, parameter.requires_grad)
        for name, buffer in module.named_buffers():
            self._names[name] = cache_input(module, name) or f"buffer:{name}"
            self.buffers[name] = self.placeholder(self._names[name], buffer)
            if torch_internals.is_not_persistent(module, name):
                self.kept[self._names[name]] = buffer
        positional = self._arguments("arg", tuple(args))
        keywords = self._arguments("kwarg", dict(kwargs))
        tensors: dict[str, torch.Tensor] = {**self.parameters, **self.buffers}
        state = {f"module.{name}": tensor for name, tensor in tensors.items()}

        def finished(result: Any) -> Any:
            returned = then(result)
            # A module may also assign a new tensor to a buffer: `self.count = self.count + 1`.
            now = dict(module.named_buffers(remove_duplicate=False))
            self.buffers = {name: now.get(name, buffer) for name, buffer in self.buffers.items()}
            return returned

        called = _Called(module, finished)
        return torch.func.functional_call(called, state, tuple(positional), keywords)

    def _arguments(self, prefix: str, tree: Any) -> Any:
        def replaced(path: Any, leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            name = f"{prefix}:{_written(path)}"
            self.arguments[name] = self.placeholder(name, leaf)
            return self.arguments[name]

        return pytree.tree_map_with_path(replaced, tree)

    def updates(self) -> None:
        """Add outputs for the tensors that the forward pass wrote to: buffers, as in batch norm,
        and arguments, such as a cache of keys and values."""
        buffers = {self._names[name]: tensor for name, tensor in self.buffers.items()}
        held = (buffers | self.arguments).items()
        written = dict(inner for name, tensor in held for inner in inner_tensors(name, tensor))
        inputs = [self.inputs[name] for name in written]
        unchanged = self.frontend.recording.unchanged(list(written.values()), inputs)
        for (name, tensor), same in zip(written.items(), unchanged, strict=True):
            if not same:
                self.output(name, tensor, updates=True)

    def update(self, trained: Mapping[str, torch.nn.Parameter], factory: OptimizerFactory) -> None:
        optimizer = make_optimizer(factory, list(trained.values()))
        for name, values in self._optimizer_state(trained, factory).items():
            optimizer.state[trained[name]] = values
        step_once(optimizer, trained)
        for name, parameter in trained.items():
            self.output(f"param:{name}", parameter.detach(), updates=True)
        for name, parameter in trained.items():
            for key, tensor in optimizer.state.get(parameter, {}).items():
                if isinstance(tensor, torch.Tensor):
                    self.output(f"state:{name}.{key}", tensor, updates=True)

    def _optimizer_state(
        self, trained: Mapping[str, torch.nn.Parameter], factory: OptimizerFactory
    ) -> dict[str, dict[str, Any]]:
        """Placeholders for the optimizer state. A first step on stand-in parameters shows the
        contents of the state.

        One parameter of each group, shape and dtype is enough, because the other parameters have
        the same kind of state.
        """
        stand_ins = {
            name: torch.nn.Parameter(self.frontend.tensors.placeholder(parameter))
            for name, parameter in trained.items()
        }
        first = make_optimizer(factory, list(stand_ins.values()))
        alike: dict[torch.Tensor, torch.Tensor] = {}
        for group in first.param_groups:
            kinds: dict[Any, torch.Tensor] = {}
            for parameter in group["params"]:
                kind = (parameter.shape, parameter.dtype)
                alike[parameter] = kinds.setdefault(kind, parameter)
        for parameter in set(alike.values()):
            parameter.grad = self.frontend.tensors.placeholder(parameter)
        step_once(first)
        return {
            name: {
                key: self.placeholder(f"state:{name}.{key}", value)
                if isinstance(value, torch.Tensor)
                else value
                for key, value in first.state[alike[parameter]].items()
            }
            for name, parameter in stand_ins.items()
            if parameter in alike
        }


@contextmanager
def nothing_kept(frontend: Frontend, module: torch.nn.Module) -> Iterator[None]:
    """A context for tracing a module. At its end, attributes of the module and its submodules that
    hold traced tensors, also in lists and dictionaries, are restored. Errors hold no traced tensors
    either."""
    recording = frontend.recording

    def is_traced(value: Any) -> bool:
        leaves = pytree.tree_leaves(value)
        return any(isinstance(x, torch.Tensor) and recording.has_no_value(x) for x in leaves)

    before = [(vars(part), _contents(vars(part))) for part in module.modules()]
    try:
        yield
    except BaseException as error:
        clear_frames(error, is_traced)
        raise
    finally:
        for attributes, contents in before:
            for name in [name for name, value in attributes.items() if is_traced(value)]:
                if name in contents:
                    attributes[name] = _restored(*contents[name])
                else:
                    del attributes[name]


def _contents(attributes: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The attributes by name, each with a copy of its items if it is a list or a dictionary."""
    return {n: (v, v.copy() if type(v) in (list, dict) else None) for n, v in attributes.items()}


def _restored(value: Any, content: Any) -> Any:
    if type(value) is list:
        value[:] = content
    elif type(value) is dict:
        value.clear()
        value.update(content)
    return value


@contextmanager
def _recording(frontend: Frontend, shared: bool) -> Iterator[Traced]:
    """A context for running Python on placeholders, in torch.export's mode.

    Libraries such as transformers (for attention masks) skip checks of values while
    `torch.compiler.is_exporting()` is true.
    """
    recording = frontend.recording
    try:
        with torch_internals.exporting(), recording.recording(shared=shared):
            yield Traced(frontend)
    except (ControlFlowError, ForeignDataError) as error:
        raise ExportError(f"{error_line(error.__cause__ or error)}{error}") from error
    except NoKernelError as error:
        raise ExportError(
            f"{error_line(error)}{error}; use other operators, compute it before the program and"
            " pass the result, or write an entry with a decomposition for it"
        ) from error
    except ValueReadError as error:
        raise ExportError(
            f"{error_line(error)}the module reads the value of a tensor while it runs, but an"
            f" exported program takes the same path for all values ({error})"
        ) from error


def _written(path: Sequence[Any]) -> str:
    """A path in nested arguments as text: `0`, `x.1`, `config.mask`."""
    parts: list[str] = []
    for key in path:
        for attribute in ("key", "idx", "name"):
            if hasattr(key, attribute):
                parts.append(str(getattr(key, attribute)))
                break
    return ".".join(parts)
