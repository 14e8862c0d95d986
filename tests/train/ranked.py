"""Processes that act as the ranks of a training, and the work that they do in tests."""

import atexit
import contextlib
import functools
import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed
from torch.utils._pytree import keystr, tree_flatten_with_path

from tests.train.some import member, some_pairs, some_scheme
from vse_pipe.core import processes
from vse_pipe.project.registry import IMAGE_ENCODERS, SCHEMES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.train import data, model, optimise
from vse_pipe.train.data import Pairs
from vse_pipe.train.model import DualEncoder, build
from vse_pipe.train.optimise import Averages, optimizer_for
from vse_pipe.train.scheme import Scheme
from vse_pipe.train.schemes.distil import Teacher

_MOST = 3


def on(count: int, work: Callable, *arguments: Any) -> list[Any]:
    """``work(*arguments)`` as each of ``count`` ranks: what each gives back, in order. AssertionError where one fails."""
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        pipes = _pool()[:count]
        for number, pipe in enumerate(pipes):
            pipe.send((work, arguments, number, count, f"file://{folder}/meeting", Path.cwd()))
        answers = [pipe.recv() for pipe in pipes]
    failed = [found for well, found in answers if not well]
    assert not failed, "\n".join(failed)
    return [found for _, found in answers]


@functools.cache
def _pool() -> list:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["vse_pipe.train.stage", "tests.train.ranked"])
    pipes = []
    for _ in range(_MOST):
        ours, theirs = context.Pipe()
        one = context.Process(target=_serve, args=(theirs,), daemon=True)
        one.start()
        theirs.close()
        atexit.register(one.join)
        atexit.register(ours.close)  # called before: the process then ends
        pipes.append(ours)
    return pipes


def _serve(pipe: Any) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    while True:
        try:
            work, arguments, number, count, place, folder = pipe.recv()
        except EOFError:
            return
        os.chdir(folder)
        try:
            found = True, _joined(work, arguments, number, count, place)
        except BaseException:
            found = False, traceback.format_exc()
        pipe.send(found)


def _joined(work: Callable, arguments: tuple, number: int, count: int, place: str) -> Any:
    how = {"rank": number, "world_size": count, "timeout": timedelta(seconds=60)}
    distributed.init_process_group("gloo", init_method=place, **how)
    try:
        found = work(*arguments)
        distributed.barrier()
        return found
    finally:
        distributed.destroy_process_group()


COUNT = 34
FRAGMENTS = ("scan_t2i", "scan_i2t", "saf", "sgr")
Found = tuple[list[float], dict[str, np.ndarray]]


def each(work: Callable[..., Found], cases: list[dict[str, Any]], *arguments: Any) -> list[Found]:
    """``work`` of one case after the other."""
    return [work(case, *arguments) for case in cases]


def gradient(how: dict[str, Any], size: int, exact: bool = True) -> Found:
    """The loss of one batch of ``size`` pairs, and the gradient of every weight; exact: in float64."""
    with _read_as(exact):
        scheme = _scheme(how, exact)
        model, params = scheme.model.train(), scheme.setting.train
        batch = scheme.setting.pairs.batch(np.arange(0, 2 * size, 2))
        torch.manual_seed(7)
        encode = partial(optimise.encoded_in_chunks, model, params.chunk) if params.chunk else model.encode
        total = scheme.terms(*encode(batch, scheme.setting.device, params.precision), batch).total()
        value = total.item()
        total.backward()
        if processes.rank_count() > 1:
            model.sum_gradients()
        tensors = [(name, weight.grad) for name, weight in model.named_parameters()] + list(model.named_buffers())
        return [value], {name: one.numpy() for name, one in tensors if one is not None}


def epochs(how: dict[str, Any], count: int, exact: bool = True) -> Found:
    """The loss of each of ``count`` epochs, and weights, averages and what the scheme keeps at their end."""
    with _read_as(exact):
        scheme = _scheme(how, exact)
        params = scheme.setting.train
        optimizer, averages = optimizer_for(scheme.setting.model, params), Averages(scheme.models, params.average)
        batches = list(np.split(np.random.default_rng(1).permutation(COUNT), [9, 18, 27]))
        losses = [
            optimise.mean_loss(optimise.train_epoch(scheme, optimizer, averages, batches, one)) for one in range(count)
        ]
        models = {
            f"{place}/{name}": one for place, of in enumerate(averages.models) for name, one in of.state_dict().items()
        }
        leaves, _ = tree_flatten_with_path(scheme.state())
        kept = {f"scheme/{keystr(path)}": one for path, one in leaves}
        return losses, {name: one.detach().numpy() for name, one in (scheme.model.state_dict() | models | kept).items()}


def answered() -> list[bool]:
    """What the first answers where the others answer otherwise."""
    return [processes.first_answer(processes.is_first()), processes.first_answer(not processes.is_first())]


@contextlib.contextmanager
def _read_as(exact: bool) -> Iterator[None]:
    """exact: features are read as float64, as no run does."""
    read = data.image_inputs
    with pytest.MonkeyPatch.context() as patch:
        for module in (data, model) if exact else ():
            patch.setattr(module, "image_inputs", lambda array, rows: read(array, rows).double())
        yield


def _scheme(how: dict[str, Any], exact: bool) -> Scheme:
    """how: names of loss, scheme and similarity, options of members, ``train``."""
    pairs = some_pairs(COUNT, each=2)
    if how.get("similarity") in FRAGMENTS:
        array = np.random.default_rng(0).standard_normal((len(pairs.array), 3, 6)).astype(np.float16)
        pairs = replace(pairs, array=array)

    def made(seed: int) -> DualEncoder:
        model = _model(pairs, how, seed)
        return model.double() if exact else model

    plain = some_scheme(pairs, how.get("loss", "sum"), model=made(0), train={"epochs": 9, **how.get("train", {})})
    name = how.get("scheme", "plain")
    run = replace(plain.setting.run, scheme=member(SCHEMES, name, **how.get("options", {})))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Teacher, "read", lambda *arguments: _teacher())
        scheme = SCHEMES.load(name).scheme(replace(plain.setting, run=run, build=made))
    return _in_float64(scheme) if exact else scheme


def _model(pairs: Pairs, how: dict[str, Any], seed: int) -> DualEncoder:
    similarity = how.get("similarity", "cosine")
    image = {"name": "regions" if similarity in FRAGMENTS else "linear", **how.get("image", {})}
    text = {"name": "gru", "word_dim": 5, **how.get("text", {})}
    options = {"sim_dim": 4} if similarity in ("saf", "sgr") else {}
    members = (
        member(IMAGE_ENCODERS, **image),
        member(TEXT_ENCODERS, **text),
        member(SIMILARITIES, similarity, **options),
    )
    return build(*members, pairs.array.shape[1:], pairs.texts.inputs, 8, seed)


def _teacher() -> Teacher:
    drawn = torch.Generator().manual_seed(0)
    images, captions = (torch.randn(COUNT, 4, generator=drawn).half() for _ in range(2))
    return Teacher(images, captions, torch.arange(COUNT), torch.arange(COUNT))


def _in_float64(scheme: Any) -> Any:
    """What a scheme keeps is float32, which would round away what is to be seen."""
    if hasattr(scheme, "costs"):
        scheme.costs.network.double()
    if hasattr(scheme, "targets"):
        scheme.targets = scheme.targets.double()
    if hasattr(scheme, "images"):
        begin = scheme.start

        def start(epoch: int) -> None:
            begin(epoch)
            if scheme.images is not None:
                scheme.images, scheme.texts = scheme.images.double(), scheme.texts.double()

        scheme.start = start
    return scheme
