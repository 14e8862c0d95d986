"""A device that holds its values on the CPU and refuses what CUDA refuses, for tests where there is no GPU.

Tensors of the device are a subclass that torch's PrivateUse1 backend in Python dispatches. A process can have one such
backend, under one name. What it cannot show: speed, memory, order of additions, branches on ``type == "cuda"``.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

NAME = "pretend"
aten = torch.ops.aten

# What takes tensors of both kinds: copies, indices on the CPU, and lengths that must be there.
_COPIES = {aten.copy_, aten._to_copy, aten._copy_from}
_INDEXED = {
    aten.index,
    aten.index_put,
    aten.index_put_,
    aten._index_put_impl_,
    aten._unsafe_index,
    aten._unsafe_index_put,
}
_OF_LENGTHS = {aten._pack_padded_sequence, aten._pad_packed_sequence, aten._pack_padded_sequence_backward}
# What the host must wait for, because the size of the result depends on values, or the result is a number.
_WAITS = {
    *(aten._local_scalar_dense, aten.equal, aten.is_nonzero, aten.nonzero, aten.masked_select, aten.bincount),
    *(aten._unique2, aten.unique_dim, aten.unique_consecutive, aten.histc, aten._linalg_check_errors),
}  # fmt: skip


def _gru_cell(inputs: Tensor, hidden: Tensor, state: Tensor, *biases: Tensor) -> tuple[Tensor, Tensor]:
    """The new state and what the gradient needs: torch calls one operation for a cell of a GRU wherever it is not on the
    CPU."""
    if biases:
        inputs, hidden = inputs + biases[0], hidden + biases[1]
    (read, update, new), (of_read, of_update, of_new) = inputs.chunk(3, 1), hidden.chunk(3, 1)
    read, update = (read + of_read).sigmoid(), (update + of_update).sigmoid()
    new = (new + read * of_new).tanh()
    return new + update * (state - new), torch.cat([read, update, new, state, of_new], 1)


def _gru_cell_backward(gradient: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    read, update, new, state, of_new = workspace.chunk(5, 1)
    of_update = gradient * (state - new) * update * (1 - update)
    of_candidate = gradient * (1 - update) * (1 - new * new)
    of_read = of_candidate * of_new * read * (1 - read)
    inputs = torch.cat([of_read, of_update, of_candidate], 1)
    hidden = torch.cat([of_read, of_update, of_candidate * read], 1)
    biases = (inputs.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return inputs, hidden, gradient * update, *biases


_CELLS = {aten._thnn_fused_gru_cell: _gru_cell, aten._thnn_fused_gru_cell_backward: _gru_cell_backward}

_GROWING = (
    *(aten.eye.default, aten.eye.m, aten.arange.default, aten.arange.start, aten.arange.start_step, aten.linspace.default),
    *(aten.randperm.default, aten.randperm.generator, aten.tril_indices.default, aten.triu_indices.default),
)  # fmt: skip


class MixedDevices(RuntimeError):
    """Tensors of two devices in one operation."""


class Backend(_DummyBackendModule):
    """``torch.pretend``. Random numbers come from a generator of its own."""

    generator = torch.Generator().manual_seed(1)
    _initialized = True  # asked by torch.utils.checkpoint, as of CUDA

    def device(self, number: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def get_rng_state(self, device: object = None) -> Tensor:
        return self.generator.get_state()

    def set_rng_state(self, state: Tensor, device: object = None) -> None:
        self.generator.set_state(state)

    def manual_seed_all(self, seed: int) -> None:
        self.generator.manual_seed(seed)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


class Pretend(Tensor):
    """A tensor of the device. held: its values, on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "Pretend":
        made = (held.shape, held.stride(), held.storage_offset())
        return torch.Tensor._make_wrapper_subclass(cls, *made, dtype=held.dtype, device=torch.device(NAME, 0))

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        return _run(function, args, kwargs or {})

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError(f"can't convert {self.device} device type tensor to numpy; use .cpu() first")
        return self.detach().cpu().numpy()

    def __array__(self, *_: object) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.held.untyped_storage()

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else repr(self)

    def __repr__(self) -> str:
        return f"{NAME}({self.held!r})"

    def __deepcopy__(self, memo: dict) -> Tensor:
        copied = self.detach().clone().requires_grad_(self.requires_grad)
        memo[id(self)] = copied
        return copied


class Count:
    """Operations that ran, and how often the host waited for the device."""

    operations = waits = 0


_counts: list[Count] = []


@contextlib.contextmanager
def counted() -> Iterator[Count]:
    count = Count()
    _counts.append(count)
    try:
        yield count
    finally:
        _counts.remove(count)


def _run(function: Any, args: tuple, kwargs: dict) -> Any:
    """The operation on the held values."""
    # Without gradients torch leaves it to the device to take an operation apart, and its parts are what is checked.
    parts = function.decompose(*args, **kwargs)
    if parts is not NotImplemented:
        return parts
    packet, leaves = function.overloadpacket, tree_leaves((args, kwargs))
    owners = {id(leaf.held): leaf for leaf in leaves if isinstance(leaf, Pretend)}
    device = kwargs.get("device")
    goes_there = bool(owners) if device is None else torch.device(device).type == NAME
    others = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, Pretend)]
    if owners and others:
        _require_one_device(function, args, others)
    if kwargs.get("generator") is not None:
        raise MixedDevices(f"{function}: expected a generator of {NAME}, found one of the CPU")
    if _counts:
        _count(function, args, kwargs, goes_there, bool(owners), bool(others))
    if packet is aten._to_copy and not owners and not goes_there:
        raise AssertionError("a copy on the CPU came here")
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    held_args, held_kwargs = tree_map_only(Pretend, lambda leaf: leaf.held, (args, kwargs))
    with _own_numbers() if torch.Tag.nondeterministic_seeded in function.tags else contextlib.nullcontext():
        result = _CELLS.get(packet, function)(*held_args, **held_kwargs)
    if torch.Tag.inplace_view in function.tags:
        with torch._C._DisableTorchDispatch():  # the outer tensor takes the new shape too
            return function(*args, **kwargs)
    if not goes_there:
        return result

    def wrapped(tensor: Tensor) -> Tensor:
        return owners[id(tensor)] if id(tensor) in owners else Pretend(tensor)

    if packet is aten._pack_padded_sequence:  # batch sizes stay on the CPU
        return wrapped(result[0]), result[1]
    if packet is aten.copy_ and not isinstance(args[0], Pretend):
        return args[0]
    return tree_map_only(Tensor, wrapped, result)


def _require_one_device(function: Any, args: tuple, others: list[Tensor]) -> None:
    """Raises MixedDevices where CUDA would raise."""
    packet = function.overloadpacket
    if packet in _COPIES:
        return
    numbers = all(other.ndim == 0 for other in others)
    changes_other = function._schema.is_mutable and not isinstance(args[0], Pretend)
    takes_numbers = torch.Tag.pointwise in function.tags or packet in _INDEXED or packet is aten.fill_
    if numbers and takes_numbers and not changes_other:
        return
    if packet in _INDEXED and isinstance(args[0], Pretend):
        values = args[2:3] if len(args) > 2 else ()
        if all(not isinstance(value, Tensor) or isinstance(value, Pretend) or value.ndim == 0 for value in values):
            return
    if packet in _OF_LENGTHS and isinstance(args[0], Pretend):
        return
    raise MixedDevices(f"{function}: expected all tensors on one device, found {NAME} and cpu")


def _count(function: Any, args: tuple, kwargs: dict, goes_there: bool, from_there: bool, from_host: bool) -> None:
    packet = function.overloadpacket
    masks = packet in _INDEXED and any(
        isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1]
    )
    at_once = kwargs.get("non_blocking", False)
    if packet is aten.copy_:
        goes_there, from_there = isinstance(args[0], Pretend), isinstance(args[1], Pretend)
        at_once = args[2] if len(args) > 2 else at_once
    crosses = packet in _COPIES and goes_there != from_there
    indices = packet in _INDEXED and from_host
    repeats = packet is aten.repeat_interleave
    for count in _counts:
        count.operations += 1
        # CUDA also waits for a copy from the host that is not told otherwise, and so for indices that lie there.
        if (crosses and (from_there or not at_once)) or indices or packet in _WAITS or masks or repeats:
            count.waits += 1


@contextlib.contextmanager
def _own_numbers() -> Iterator[None]:
    """Draw from the device's generator where the operation takes torch's."""
    before = torch.get_rng_state()
    torch.set_rng_state(Backend.generator.get_state())
    try:
        yield
    finally:
        Backend.generator.set_state(torch.get_rng_state())
        torch.set_rng_state(before)


def _installed() -> tuple[torch.library.Library, ...]:
    _setup_privateuseone_for_python_backend(NAME, Backend())
    library = torch.library.Library("_", "IMPL")
    # Operations without a tensor of the device among their arguments: what makes one.
    library.fallback(lambda function, *args, **kwargs: _run(function, args, kwargs), "PrivateUse1")
    library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    named = torch.library.Library("aten", "IMPL")
    # torch would make these of an empty tensor that grows, which a tensor of the device cannot.
    for function in _GROWING:
        named.impl(function, lambda *args, _function=function, **kwargs: _run(_function, args, kwargs), "PrivateUse1")
    return library, named


_LIBRARIES = _installed()


@contextlib.contextmanager
def used() -> Iterator[torch.device]:
    """The device. ``torch.tensor(values, device=...)`` first makes a CPU tensor here, which it otherwise does below
    where Python can take part."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        yield torch.device(NAME)
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
