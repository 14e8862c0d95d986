"""``python -m tests.benchmarks.kernels NAME``: similarities and transport plans against plain programs."""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, leaky_relu, normalize
from torch.utils._python_dispatch import TorchDispatchMode

from tests.benchmarks.measure import benchmark, peak_mib, run, seconds, show
from tests.benchmarks.train import bfloat16_units, peak
from vse_pipe.project.registry import LOSSES, SIMILARITIES
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.similarities import order as order_similarity
from vse_pipe.train.batch import Scored
from vse_pipe.train.transport import partial_plan

# Seconds that are allowed.
BARS = {"scan_t2i": 1.0, "scan_i2t": 1.5, "saf": 2.0, "sgr": 3.0}
# The last two arguments of each are the matrices.
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addmm_", "baddbmm_"}
_EPS = 1e-8


@benchmark(
    batch=128, regions=36, dim=1024, threads=2, rounds=3, loss=["sum", "max"], only=list(BARS), device="cpu",
    loop=False, processor=False,
)  # fmt: skip
def fragments(options: argparse.Namespace) -> None:
    """Scores of a batch by each fragment similarity, and the way back.

    128 images of 36 regions against 128 captions of 8 to 20 words, vectors of 1024 numbers, training mode. Seconds of
    the scores alone and with the gradient of a loss in regions, words and weights; ``sum`` passes a gradient to
    almost every cell, ``max`` to few. The work counted is that of all matrix products that were really made. The best
    of --rounds counts. --loop: also a loop over captions, as in the authors' programs.
    """
    units = bfloat16_units()
    idle = f"{units} lies idle" if units else "no bfloat16 units"
    show(f"{options.threads} threads, {options.device}, float32; {idle}")
    show("GB: the whole process, PyTorch itself among it, without what a GPU holds")
    for name in options.only:
        batch = FragmentBatch(name, options)
        scoring = min(seconds(batch.validate) for _ in range(options.rounds))
        for loss in options.loss:
            work = partial(batch.train, LOSSES.load(loss))
            with Products() as products:
                work()
            Path("/proc/self/clear_refs").write_text("5")  # the largest memory is counted anew
            times, rates, loop_times = [], [], []
            for _ in range(options.rounds):
                rates.append(peak(options.device))
                times.append(seconds(work))
                if options.loop:
                    loop_times.append(seconds(partial(work, score_by_caption)))
            gflop, best = products.flop / 1e9, min(times)
            show(
                f"{name:9}{loss:8}{scoring:7.2f} s scores{best:7.2f} s with the gradient (bar {BARS[name]:.1f})"
                f"{peak_mib() * 2**20 / 1e9:6.2f} GB{gflop:7.0f} GFLOP{gflop / best:6.0f} GFLOP/s"
                f"{100 * gflop / best / max(rates):5.0f} % of {max(rates):.0f}"
                + (f"{min(loop_times):7.2f} s a caption at a time, {min(loop_times) / best:.1f}x" if loop_times else "")
            )


class Products(TorchDispatchMode):
    """Multiplications and additions of the matrix products made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.flop = 0.0

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        if operation.overloadpacket.__name__ in _PRODUCTS:
            left, right = arguments[-2:]
            self.flop += 2.0 * left.numel() * right.shape[-1]
        return operation(*arguments, **(options or {}))


class FragmentBatch:
    """One similarity on a batch of unit vectors, the same for every similarity."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name, self.member = name, SIMILARITIES.load(name)
        self.params, self.network = self.member.Params(), ()
        rng = torch.Generator().manual_seed(0)
        lengths = torch.randint(8, 21, (options.batch,), generator=rng)
        images = torch.randn(options.batch, options.regions, options.dim, generator=rng)
        words = torch.randn(int(lengths.sum()), options.dim, generator=rng)
        images, words = (normalize(side, dim=-1).to(options.device).requires_grad_() for side in (images, words))
        self.sides = images, Words(words, lengths)
        if hasattr(self.member, "network"):
            network = self.member.network(self.params, options.dim, options.regions, torch.Generator().manual_seed(0))
            self.network = (network.train().to(options.device),)

    def validate(self) -> None:
        """Nothing is kept for a gradient."""
        with torch.no_grad():
            self.member.score(*self.sides, self.params, *self.network)

    def train(self, loss, score: Callable | None = None) -> None:
        score = partial(score, self.name) if score else self.member.score
        scores = score(*self.sides, self.params, *self.network)
        loss.loss(Scored.from_scores(scores), loss.Params()).total().backward()


def score_by_caption(name: str, images: Tensor, texts: Words, params, network=None) -> Tensor:
    """(images, captions): a fragment similarity, default options, a caption at a time, as the authors' programs go.

    The maths of SCAN and SGRAF in their published form: attended vectors are made and all of it is kept for the
    gradient.
    """
    extra = () if network is None else (network, network.whole_images(images))
    score = {"scan_t2i": _scan_t2i, "scan_i2t": _scan_i2t, "sgr": _sgr, "saf": _saf}[name]
    captions = texts.vectors.split(texts.lengths.tolist())
    columns = [score(images, caption.expand(len(images), *caption.shape), params, *extra) for caption in captions]
    return torch.stack(columns, dim=1)


def _unit(vectors: Tensor) -> Tensor:
    return vectors / (vectors.norm(dim=-1, keepdim=True) + _EPS)


def _attended(context: Tensor, queries: Tensor, temperature: float) -> Tensor:
    """(images, c, dim), (images, q, dim) to the mean context of every query; normalised over queries."""
    raw = _unit(leaky_relu(context @ queries.transpose(1, 2), 0.1))
    return (temperature * raw.transpose(1, 2)).softmax(dim=2) @ context


def _scan_t2i(images: Tensor, words: Tensor, params) -> Tensor:
    return cosine_similarity(words, _attended(images, words, params.temperature), dim=2).mean(dim=1)


def _scan_i2t(images: Tensor, words: Tensor, params) -> Tensor:
    return cosine_similarity(images, _attended(words, images, params.temperature), dim=2).mean(dim=1)


def _nodes(images: Tensor, words: Tensor, whole: Tensor, params, network) -> Tensor:
    context = _unit(_attended(images, words, params.temperature))
    local = _unit(network.sim_tranloc_w((context - words).square()))
    text = network.t_global_w(words[:1])
    return torch.cat([_unit(network.sim_tranglo_w((whole - text).square()))[:, None], local], dim=1)


def _sgr(images: Tensor, words: Tensor, params, network, whole: Tensor) -> Tensor:
    nodes = _nodes(images, words, whole, params, network)
    for module in network.SGR_module:
        edges = (module.graph_query_w(nodes) @ module.graph_key_w(nodes).transpose(1, 2)).softmax(dim=2)
        nodes = module.sim_graph_w(edges @ nodes).relu()
    return network.sim_eval_w(nodes[:, 0]).sigmoid()[:, 0]


def _saf(images: Tensor, words: Tensor, params, network, whole: Tensor) -> Tensor:
    nodes, module = _nodes(images, words, whole, params, network), network.SAF_module
    gates = module.bn(module.attn_sim_w(nodes).transpose(1, 2)).sigmoid()
    gates = gates / (gates.sum(dim=2, keepdim=True) + _EPS)
    return network.sim_eval_w(_unit((gates @ nodes)[:, 0])).sigmoid()[:, 0]


@benchmark(threads=2, rounds=5, loss=["sum", "max"])
def order(options: argparse.Namespace) -> None:
    """Order violations by the compiled loop and by PyTorch's differences.

    Scores of a batch and their gradient under --loss, and scores of the 1,000 images and 5,000 captions of a
    validation. Medians of --rounds and of the ratios.
    """
    rng = torch.Generator().manual_seed(0)
    for dim in (256, 1024):
        sides = [torch.rand(128, dim, generator=rng, requires_grad=True) for _ in range(2)]
        for name in options.loss:
            loss = LOSSES.load(name)

            def training(loss=loss, sides=sides) -> None:
                scores = order_similarity.score(*sides, order_similarity.Params())
                loss.loss(Scored.from_scores(scores), loss.Params()).total().backward()

            _compiled_or_not(f"step of 128, {dim} numbers, {name}", training, options.rounds)
        sides = [torch.rand(rows, dim, generator=rng) for rows in (1000, 5000)]
        validation = partial(order_similarity.score, *sides, order_similarity.Params())
        _compiled_or_not(f"validation, {dim} numbers", validation, options.rounds)


def _compiled_or_not(name: str, work: Callable[[], object], rounds: int) -> None:
    times = []
    for _ in range(rounds + 1):  # the first is not counted
        compiled = seconds(work)
        with mock.patch.object(order_similarity._Squared, "apply", order_similarity._squared):
            times.append((compiled, seconds(work)))
    compiled, plain = (1e3 * statistics.median(side) for side in zip(*times[1:], strict=True))
    ratio = statistics.median(right / left for left, right in times[1:])
    show(f"{name:34}{compiled:9.1f} ms compiled{plain:9.1f} ms differences{ratio:7.1f}x")


@benchmark(batch=128, plans=50)
def transport(options: argparse.Namespace) -> None:
    """Transport plans a second, ours and the authors' recursion.

    The costs are those of random similarities, as the cost network gives them at its start; both stop by the same rule.
    """
    rng = np.random.default_rng(0)
    costs = [1 - rng.random((options.batch, options.batch), dtype=np.float32) for _ in range(options.plans)]
    for regularisation in (0.01, 0.07):
        ours = theirs = difference = 0.0
        for cost in costs:
            start = time.perf_counter()
            reference = _authors_plan(cost, 0.1, regularisation)
            middle = time.perf_counter()
            plan = partial_plan(torch.from_numpy(cost), 0.1, regularisation)
            ours += time.perf_counter() - middle
            theirs += middle - start
            difference = max(difference, float(np.abs(plan.numpy() - reference).max()))
        show(
            f"regularisation {regularisation}: ours {options.plans / ours:.0f} plans/s, the authors' loop "
            f"{options.plans / theirs:.0f}, {theirs / ours:.1f} times; largest difference {difference:.1e}"
        )


def _authors_plan(cost: np.ndarray, mass: float, regularisation: float) -> np.ndarray:
    """Log-domain Sinkhorn as the authors run it: log-sum-exp over the extended matrix, mask and all, in numpy."""
    n = len(cost)
    dear = 100 * cost.max()
    extended = np.full((n + 1, n + 1), dear, dtype=np.float32)
    extended[:n, :n] = cost
    extended[n, n] = 2 * dear + cost.max()
    masked = np.eye(n + 1, dtype=bool)
    masked[n, n] = False
    p = np.append(np.full(n, 1 / n), 1 - mass)
    q = p.astype(np.float32)

    def exponents(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        values = (-extended + u[:, None] + v[None, :]) / regularisation
        values[masked] = -1e6
        return values

    def soft_max(values: np.ndarray) -> np.ndarray:
        top = values.max(axis=1, keepdims=True)
        return (np.log(np.exp(values - top).sum(axis=1, keepdims=True) + 1e-10) + top).squeeze()

    u, v = np.zeros(n + 1), np.zeros(n + 1)
    for _ in range(1000):
        before = u
        u = regularisation * (np.log(p) - soft_max(exponents(u, v))) + u
        v = regularisation * (np.log(q) - soft_max(exponents(u, v).T)) + v
        if np.linalg.norm(u - before) < 1e-3:
            break
    return np.float32(np.exp(exponents(u, v)))[:n, :n]


if __name__ == "__main__":
    run(__name__)
