"""Processes that act as the ranks of a training, kept for the session: each call is run by some of them as one group.

They are forks of a clean process that has imported torch and the pipeline once.
"""

import atexit
import functools
import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

_MOST = 3
_HERE = "tests.train.ranked"


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


def asleep(folder: Path, device: torch.device) -> None:
    """For a minute, whoever asks to end; a file in ``folder`` has the name of the process."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (folder / str(os.getpid())).touch()
    time.sleep(60)


@functools.cache
def _pool() -> list:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_HERE, "vse_pipe.train.stage", "tests.train.rank_cases"])
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
