"""``python -m benchmarks.gpu``: whether a device computes what the CPU does, twice the same bytes, and how fast it is.

One line a check. ``tuning`` needs open_clip_torch with ftfy, regex and wcwidth. Each rate stands beside a bare loop of torch that does the same work in the same run: the authors' loop over
captions for SCAN, SGR and SAF. Beside torch it needs what the package itself imports, and no file. ``pytest tests/devices`` is
the other half: every stage and scheme.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, normalize
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pack_padded_sequence

from tests import pair_project
from tests.devices import test_members as members
from tests.extract import project
from tests.train.some import some_pairs, some_run
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core import console, devices
from vse_pipe.core.text import SPECIAL, Tokens
from vse_pipe.extract.compute import Computer
from vse_pipe.extract.job import plan
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import IMAGE_ENCODERS, INFERENCES, LOSSES, SCHEMES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.ranking.recall import Truth, positions
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.split import cosine
from vse_pipe.train import graphs, optimise
from vse_pipe.train.data import Pairs, text_lengths
from vse_pipe.train.model import build
from vse_pipe.train.optimise import Averages, optimizer_for, step
from vse_pipe.train.scheme import Scheme, Setting

CPU = torch.device("cpu")
BATCH, DIM, WIDTH, WORDS, REGIONS = 128, 1024, 2048, 10_000, 36
# Of COCO: 566,435 training captions.
COCO_STEPS = 30 * (566_435 // BATCH)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", help="also cpu, and pretend, that of tests/devices")
    parser.add_argument("--only", nargs="*", default=[], choices=[*CHECKS])
    parser.add_argument("--steps", type=int, default=40, help="of an epoch that is timed")
    parser.add_argument(
        "--batch", type=int, default=BATCH, help="pairs of a step; fewer on a CPU, where 128 take hours"
    )
    options = parser.parse_args()
    globals()["BATCH"] = options.batch
    stack = contextlib.ExitStack()
    if options.device == "pretend":
        from tests.devices import pretend  # registers a device, which a process with a GPU must not

        devices.KINDS.append(pretend.NAME)
        stack.enter_context(pretend.used())
    device = devices.resolve_device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else options.device
    console.silence()
    graphs._IS_SAFE = True  # graphs are measured under older versions too
    print(f"{name}, torch {torch.__version__}, {torch.get_num_threads()} threads", flush=True)
    failed = 0
    for check in options.only or CHECKS:
        started = time.perf_counter()
        try:
            for line in CHECKS[check](device, options.steps):
                print(f"{check}: {line}", flush=True)
        except Exception as error:  # the next check runs all the same
            failed += 1
            print(f"{check}: FAILED, {type(error).__name__}: {error}", flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc()
        print(f"{check}: {time.perf_counter() - started:.1f} s", flush=True)
    sys.exit(failed > 0)


def values(device: torch.device, steps: int) -> Iterator[str]:
    """Results and gradients of every member against those of the CPU."""
    computations: list[tuple[str, Callable, tuple]] = [
        *(("loss", members.loss_results, (name, on)) for name in LOSSES.names() for on in members.BATCHES),
        *(("similarity", members.similarity_results, (name,)) for name in SIMILARITIES.names()),
        *(("criterion", members.criterion_results, (name,)) for name in INFERENCES.names()),
        *(("encoder", members.encoder_results, both) for both in members.ENCODERS),
    ]
    differing = 0
    for kind, compute, (name, *more) in computations:
        try:
            tail = more.pop() if kind == "loss" else ()
            results = [compute(name, *more, where, *tail) for where in (device, CPU)]
            members.require_alike(*results)
        except (AssertionError, RuntimeError) as error:
            differing += 1
            yield f"{kind} {name} {more}: {type(error).__name__}: {str(error).strip()[:300]}"
    yield f"{len(computations) - differing} of {len(computations)} losses, similarities, criteria and encoders as on the CPU"
    assert not differing


def ranks(device: torch.device, steps: int) -> Iterator[str]:
    """Vectors of few bits, so that products are exact on every device and scores tie."""
    rng = torch.Generator().manual_seed(0)
    images, captions = (torch.randint(-2, 3, (count, 8), generator=rng).float() for count in (1000, 5000))
    found = []
    for where in (device, CPU):
        scores = Scores.from_sides(images.to(where), captions.to(where), cosine)
        found.append([_ranks(side, truth) for side, truth in _both(scores, len(images))])
    ties = 1 - np.mean([len(np.unique(row)) / len(row) for row in (images @ captions.T).numpy()])
    assert all(map(np.array_equal, *found))
    yield f"6,000 ranks both ways equal the CPU's, {ties:.0%} of the scores of a query tie"


def _both(scores: Scores, images: int) -> list[tuple[Scores, Truth]]:
    owners = np.arange(scores.shape[1]) % images
    ids = np.arange(images)
    return [(scores, Truth.by_image(ids, owners)), (scores.transposed(), Truth.by_image(owners, ids))]


def _ranks(scores: Scores, truth: Truth) -> np.ndarray:
    joined = np.concatenate([positions(block, rows, truth, "pessimistic") for rows, block in scores.blocks()])
    return joined[truth.starts[:-1]]


VSEPP = {"image": "linear", "text": "gru", "similarity": "cosine", "loss": "max"}
LOCAL = {"image": "regions", "text": "gru", "loss": "max", "bidirectional": True}
MODELS = {
    "vsepp": VSEPP,
    "hal": {**VSEPP, "loss": "hal"},
    "gpo": {**VSEPP, "image": "pooled", "bidirectional": True, "pooling": "gpo"},
    "order": {**VSEPP, "similarity": "order"},
    "structure": {"image": "linear", "text": "gru", "similarity": "cosine", "loss": "structure"},
    "scan_t2i": {**LOCAL, "similarity": "scan_t2i"},
    "scan_i2t": {**LOCAL, "similarity": "scan_i2t"},
    "saf": {**LOCAL, "similarity": "saf"},
    "sgr": {**LOCAL, "similarity": "sgr"},
}


def _pairs(name: str, batches: int) -> Pairs:
    """Captions of 8 to 20 words, five to an image."""
    rng, count = np.random.default_rng(0), batches * BATCH
    lengths = rng.integers(8, 21, count)
    tokens = Tokens(rng.integers(4, WORDS, lengths.sum()), lengths.cumsum() - lengths, lengths)
    words = [*SPECIAL, *(f"w{number}" for number in range(WORDS - len(SPECIAL)))]
    regional = MODELS[name]["image"] in ("regions", "pooled")
    shape = (REGIONS, WIDTH) if regional else (WIDTH,)
    array = rng.standard_normal((-(-count // 5), *shape), np.float32).astype(np.float16)
    texts = Texts("tokens", np.arange(count), {}, tokens, words, None, None)
    return Pairs(array, np.arange(count) // 5, texts, np.arange(count), np.arange(count) // 5)


def _training(name: str, pairs: Pairs, device: torch.device, precision: str = "float32"):
    chosen = dict(MODELS[name])
    options = {key: chosen.pop(key) for key in ("bidirectional", "pooling") if key in chosen}

    def member(family, named: str, **told) -> Member:
        return Member(named, family.options(named)(**told))

    image, text = member(IMAGE_ENCODERS, chosen["image"]), member(TEXT_ENCODERS, chosen["text"], **options)
    similarity, loss = member(SIMILARITIES, chosen["similarity"]), member(LOSSES, chosen["loss"])
    model = build(image, text, similarity, pairs.array.shape[1:], pairs.texts.inputs, DIM, 0, loss=loss).to(device)
    params = TrainParams(batch_size=BATCH, embed_size=DIM, precision=precision)
    setting = Setting(some_run(loss, params, seed=0), model, pairs, device, lambda seed: model)
    return SCHEMES.load("plain").scheme(setting), optimizer_for(model, params)


def _epoch(
    name: str, pairs: Pairs, device: torch.device, batches: int, precision: str = "float32"
) -> tuple[Callable[[], object], Scheme]:
    """The epoch of ``train``, and its scheme."""
    scheme, optimizer = _training(name, pairs, device, precision)
    averages, places = Averages(scheme.models, None), np.arange(batches * BATCH).reshape(batches, BATCH)
    order = np.random.default_rng(1).permutation(places.ravel()).reshape(places.shape)
    return lambda: optimise.train_epoch(scheme, optimizer, averages, list(order), 0), scheme


def same_bytes(device: torch.device, steps: int) -> Iterator[str]:
    """Two trainings of four steps."""
    for name in MODELS:
        pairs, weights = _pairs(name, 4), []
        for _ in range(2):
            epoch, scheme = _epoch(name, pairs, device, 4)
            epoch()
            weights.append({key: value.cpu() for key, value in scheme.model.state_dict().items()})
        differ = [key for key, value in weights[0].items() if not torch.equal(value, weights[1][key])]
        yield f"{name}: {'the same bytes' if not differ else f'DIFFER: {differ[:3]} of {len(differ)}'}"


def captured(device: torch.device, steps: int) -> Iterator[str]:
    """Epochs of VSE++ by CUDA graphs of the encoders, and without: weights after the first, then seconds in turn."""
    for precision in ("float32", "tf32", "bfloat16"):
        if precision == "tf32" and device.type != "cuda":
            continue
        pairs = _pairs("vsepp", steps)
        (replayed, ours), (plain, other) = (_epoch("vsepp", pairs, device, steps, precision) for _ in range(2))

        def eager(plain: Callable[[], object] = plain) -> None:
            with mock.patch.object(graphs, "_KIND", "none"):
                plain()

        started = time.perf_counter()
        with mock.patch.object(graphs, "warn", print):  # why graphs are refused
            replayed()
        first = time.perf_counter() - started
        eager()
        weights = zip(ours.model.state_dict().values(), other.model.state_dict().values(), strict=True)
        off = max(float((mine - theirs).abs().max()) for mine, theirs in weights)
        count = sum("forward" in vars(one) for one in ours.graphs._passes.values())
        assert count or device.type != "cuda"
        mine, theirs = (1000 * seconds / steps for seconds in _in_turn(replayed, eager, device))
        yield (
            f"vsepp {precision}, {count} graphs: {mine:.2f} ms a step, without {theirs:.2f} ms, "
            f"first epoch {first:.1f} s, weights after it {'bit-equal' if not off else f'off by {off:.0e}'}"
        )


def rates(device: torch.device, steps: int) -> Iterator[str]:
    """Seconds of a step of ``train``, with gather and copies, against a bare step."""
    for name, few, precision in (
        ("vsepp", 1, "float32"),
        ("vsepp", 1, "tf32"),
        ("vsepp", 1, "bfloat16"),
        ("scan_t2i", 4, "float32"),
        ("saf", 10, "float32"),
        ("sgr", 10, "float32"),
    ):
        if precision == "tf32" and device.type != "cuda":
            continue
        count = max(2, steps // few)
        pairs = _pairs(name, count)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        epoch, _ = _epoch(name, pairs, device, count, precision)
        epoch()
        memory = f", {torch.cuda.max_memory_allocated(device) / 2**30:.2f} GiB" if device.type == "cuda" else ""
        bare_epoch = _bare_epoch(name, pairs, device, count, precision)
        with devices.rounded(precision):
            ours, bare = (1000 * seconds / count for seconds in _in_turn(epoch, bare_epoch, device))
        line = f"{name} {precision}: {ours:.2f} ms a step{memory}; bare {bare:.2f} ms, ratio {ours / bare:.2f}"
        yield line + (f"; 30 epochs of COCO in {COCO_STEPS * ours / 60_000:.1f} min" if name == "vsepp" else "")


def _bare_epoch(
    name: str, pairs: Pairs, device: torch.device, batches: int, precision: str = "float32"
) -> Callable[[], None]:
    """The authors' loop: batches made before and on the device, the loss read once a step as they log it."""
    scheme, _ = _training(name, pairs, device)
    model = scheme.model
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    work = np.random.default_rng(1).permutation(len(pairs)).reshape(batches, BATCH)
    made = []
    for rows in work:
        batch = pairs.batch(_longest_first(pairs, rows))
        made.append((batch.features.to(device), batch.texts[0].to(device), batch.texts[1]))
    eye = torch.eye(BATCH, dtype=torch.bool, device=device)

    def epoch() -> None:
        model.train()
        for features, tokens, lengths in made:
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
                scores = _bare_scores(name, model, features, tokens, lengths).float()
            own = scores.diagonal()
            texts = (0.2 + scores - own[:, None]).clamp(min=0).masked_fill(eye, 0).amax(dim=1)
            pictures = (0.2 + scores - own[None]).clamp(min=0).masked_fill(eye, 0).amax(dim=0)
            loss = (texts + pictures).sum()
            optimizer.zero_grad()
            loss.backward()
            clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            loss.item()

    return epoch


def _longest_first(pairs: Pairs, rows: np.ndarray) -> np.ndarray:
    """``rows`` by the length of their captions, which packing wants."""
    return rows[np.argsort(-text_lengths(pairs.texts, pairs.places[rows]))]


def _bare_scores(name: str, model, features: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
    """lengths: falling."""
    images = model.img(features)
    states, final = model.txt.rnn(pack_padded_sequence(model.txt.embed(tokens), lengths, batch_first=True))
    if name == "vsepp":
        return images @ normalize(final[-1], dim=1).T
    padded, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
    words = normalize(padded.unflatten(2, (2, -1)).mean(dim=2), dim=2)
    return BARE[name](images, words, lengths.tolist(), model.sim.network)


def bare(device: torch.device, steps: int) -> Iterator[str]:
    """Whether the bare loops score as the package does."""
    for name in BARE:
        pairs = _pairs(name, 1)
        model = _training(name, pairs, device)[0].model.eval()
        batch = pairs.batch(_longest_first(pairs, np.arange(len(pairs)))[::9])
        with torch.inference_mode():
            other = _bare_scores(name, model, batch.features.to(device), batch.texts[0].to(device), batch.texts[1])
            torch.testing.assert_close(model.score(*model.encode(batch, device)), other, rtol=1e-4, atol=1e-5)
    yield f"the same scores as those of {', '.join(BARE)}"


def _attended(images: Tensor, words: Tensor, temperature: float) -> Tensor:
    """(images, words, dim): what each word of one caption attends to (SCAN, text to image)."""
    raw = leaky_relu(torch.bmm(images, words.T.expand(len(images), -1, -1)), 0.1)
    raw = raw / (raw.norm(dim=2, keepdim=True) + 1e-8)
    return torch.bmm((raw * temperature).softmax(dim=1).transpose(1, 2), images)


def _scan(images: Tensor, words: Tensor, lengths: list[int], network: None) -> Tensor:
    columns = []
    for caption, length in zip(words, lengths, strict=True):
        query = caption[:length]
        columns.append(nn.functional.cosine_similarity(_attended(images, query, 9.0), query[None], dim=2).mean(dim=1))
    return torch.stack(columns, dim=1)


def _aligned(images: Tensor, words: Tensor, lengths: list[int], network: nn.Module) -> Iterator[Tensor]:
    """The nodes of each caption with all images."""
    whole = network.v_global_w(images)
    for caption, length in zip(words, lengths, strict=True):
        query = caption[:length]
        context = normalize(_attended(images, query, 9.0), dim=2)
        local = normalize(network.sim_tranloc_w((context - query).square()), dim=2)
        pooled = normalize(network.sim_tranglo_w((whole - network.t_global_w(query[None])).square()), dim=1)
        yield torch.cat([pooled[:, None], local], dim=1)


def _sgr(images: Tensor, words: Tensor, lengths: list[int], network) -> Tensor:
    columns = []
    for nodes in _aligned(images, words, lengths, network):
        for layer in network.SGR_module:
            query, key = layer.graph_query_w(nodes), layer.graph_key_w(nodes)
            edges = torch.bmm(query, key.transpose(1, 2)).softmax(dim=2)
            nodes = layer.sim_graph_w(torch.bmm(edges, nodes)).relu()
        columns.append(network.sim_eval_w(nodes[:, 0]).sigmoid()[:, 0])
    return torch.stack(columns, dim=1)


def _saf(images: Tensor, words: Tensor, lengths: list[int], network) -> Tensor:
    columns = []
    for nodes in _aligned(images, words, lengths, network):
        logits = network.SAF_module.attn_sim_w(nodes).transpose(1, 2)
        gates = normalize(network.SAF_module.bn(logits).sigmoid(), p=1, dim=2)
        columns.append(network.sim_eval_w(normalize(torch.bmm(gates, nodes)[:, 0], dim=1)).sigmoid()[:, 0])
    return torch.stack(columns, dim=1)


BARE: dict[str, Callable] = {"vsepp": cosine, "scan_t2i": _scan, "saf": _saf, "sgr": _sgr}


def nns(device: torch.device, steps: int) -> Iterator[str]:
    """Ranks both ways of 5,000 images and 25,000 captions of 1,024 dimensions."""
    rng = torch.Generator().manual_seed(0)
    images, captions = (normalize(torch.randn(n, DIM, generator=rng), dim=1).to(device) for n in (5000, 25_000))
    owners = torch.arange(25_000, device=device) % 5000

    def ours() -> list[np.ndarray]:
        scores = Scores.from_sides(images, captions, cosine)
        return [_ranks(side, truth) for side, truth in _both(scores, len(images))]

    def bare() -> list[np.ndarray]:
        scores = images @ captions.T
        own = scores[owners, torch.arange(25_000, device=device)]
        best = scores.new_full((5000,), -9.0).scatter_reduce(0, owners, own, "amax")
        return [(scores > best[:, None]).sum(dim=1).cpu().numpy(), (scores > own).sum(dim=0).cpu().numpy()]

    alike = np.mean(
        [rank == other for pair in zip(ours(), bare(), strict=True) for rank, other in zip(*pair, strict=True)]
    )
    assert alike > 0.99, f"only {alike:.2%} of the ranks are those of the bare product"  # which rounds otherwise
    mine, other = _in_turn(ours, bare, device)
    yield f"5,000 x 25,000 both ways: {1000 * mine:.1f} ms, bare {1000 * other:.1f} ms, ratio {mine / other:.2f}"


def extraction(device: torch.device, steps: int) -> Iterator[str]:
    """resnet152 of JPEGs of 500 x 375 with the reader, of pixels in memory, and the bare network on the device."""
    count = 2048 if device.type == "cuda" else 8
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        random, root = np.random.default_rng(0), Path(folder) / "raw"
        root.mkdir()
        names = [f"{number:05d}.jpg" for number in range(count)]
        smooth = random.integers(0, 256, (24, 24, 3), dtype=np.uint8)
        for number, name in enumerate(names):
            Image.fromarray(np.roll(smooth, number, axis=0)).resize((500, 375)).save(root / name, quality=90)
        project.prepared(root, names)
        for precision in ("float32", "bfloat16"):
            batch = 128 if device.type == "cuda" else 8
            params = project.params("resnet152", weights="random", precision=precision, batch_size=batch)
            computer = Computer(plan(params.features["small"], 1, device), device)
            numbers = list(range(computer.job.shard_count))
            with devices.inference(device, precision):
                net = computer.job.backbone.module.net
                inputs = torch.randn(batch, 3, 224, 224, device=device).contiguous(memory_format=torch.channels_last)
                work = partial(_consume, computer, numbers), partial(_repeat, net, inputs, count // batch)
                ours, bare = (count / seconds for seconds in _in_turn(*work, device))
                pixels = np.zeros((batch, 1, 224, 224, 3), np.uint8)
                memory = count / _seconds(partial(_repeat, computer.forward, pixels, count // batch), device)
            yield f"resnet152 {precision}: {ours:.0f} images/s, without the reader {memory:.0f}, bare {bare:.0f}"


_BUILT = cache(pair_project.built)


def tuned_step(
    device: torch.device, tune: str, batch: int, precision: str = "float32", chunk: int = 0, **options: object
) -> tuple[Callable[[], object], nn.Module]:
    """A step of ``train`` of ViT-B/32 of open_clip with random weights, both sides training, and its model."""
    pair = _BUILT("ViT-B-32")  # half of a minute is saved
    given, *_ = pair_project.batch_of(batch, 224, 77)
    model = pair_project.model_of(pair, tune=tune, **options).to(device)
    params = TrainParams(batch_size=batch, embed_size=512, precision=precision, chunk=chunk)
    plain = options.get("lr") == 1.0  # so that weights move by their gradients
    params = params.model_copy(update={"optimiser": "sgd", "momentum": 0.0, "grad_clip": 1e9} if plain else {})
    loss, pairs = pair_project.loss_of("infonce"), some_pairs()
    setting = Setting(some_run(loss, params, seed=0), model, pairs, device, lambda seed: model)
    scheme = SCHEMES.load("plain").scheme(setting)
    optimizer, given = optimizer_for(model, params), given.to(device)
    return lambda: step(scheme, optimizer, given), model


def tuning(device: torch.device, steps: int) -> Iterator[str]:
    """A pretrained pair: a step of SGD against the CPU's, then seconds and memory of a step."""
    for tune in ("all", "lora"):
        moves = []
        for where in (device, CPU):
            work, model = tuned_step(where, tune, 8, lr=1.0)
            before = {name: weight.detach().cpu().clone() for name, weight in model.named_parameters()}
            work()
            after = {name: weight.detach().cpu() - before[name] for name, weight in model.named_parameters()}
            moves.append(torch.cat([after[name].flatten() for name in after if not name.startswith("loss.")]))
        differs = ((moves[0] - moves[1]).norm() / moves[1].norm()).item()
        yield f"{tune}: a step differs from the CPU's by {differs:.1e} of its length"
        assert moves[1].norm() > 0
        assert differs < 1e-3
    if device.type != "cuda":
        return
    for tune, batch, precision, chunk in TUNED:
        torch.cuda.reset_peak_memory_stats(device)
        work, _ = tuned_step(device, tune, batch, precision, chunk)
        work()
        seconds = statistics.median(_seconds(work, device) for _ in range(5))
        memory = torch.cuda.max_memory_allocated(device) / 2**30
        yield f"{tune}, batch {batch}, chunk {chunk}, {precision}: {1000 * seconds:.0f} ms a step, {memory:.2f} GiB"


# What trains, pairs of a step, precision and chunk.
TUNED = [
    *(("all", batch, precision, 0) for batch in (64, 256) for precision in ("float32", "bfloat16")),
    *(("lora", batch, "bfloat16", 0) for batch in (64, 256)),
    ("all", 256, "bfloat16", 64),
]


def _consume(computer: Computer, numbers: list[int]) -> None:
    for _ in computer.shards(numbers):
        pass


def _repeat(work: Callable, inputs: object, times: int) -> None:
    for _ in range(times):
        work(inputs)


def _in_turn(ours: Callable[[], object], bare: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """Median seconds of both, after a turn that does not count."""
    turns = [(_seconds(ours, device), _seconds(bare, device)) for _ in range(4)][1:]
    mine, other = (statistics.median(side) for side in zip(*turns, strict=True))
    return mine, other


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    synchronise = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    synchronise()
    started = time.perf_counter()
    work()
    synchronise()
    return time.perf_counter() - started


CHECKS = {
    "values": values,
    "ranks": ranks,
    "same_bytes": same_bytes,
    "bare": bare,
    "captured": captured,
    "rates": rates,
    "nns": nns,
    "extraction": extraction,
    "tuning": tuning,
}

if __name__ == "__main__":
    main()
