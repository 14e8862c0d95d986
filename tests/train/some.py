"""Small pairs and small models for tests of a step and an epoch, and trainings that are killed."""

import shutil
from itertools import pairwise
from pathlib import Path
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.regions_project import run_of
from tests.toy_project import write_prepared
from vse_pipe.artifacts import model_files
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.files import partial_folder
from vse_pipe.core.text import SPECIAL, Tokens
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Member, Params, Run
from vse_pipe.project.registry import IMAGE_ENCODERS, LOSSES, SAMPLERS, SCHEMES, SIMILARITIES, TEXT_ENCODERS
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import checkpoint, optimise
from vse_pipe.train.checkpoint import Checkpoint
from vse_pipe.train.data import Batch, Pairs
from vse_pipe.train.model import DualEncoder, build
from vse_pipe.train.optimise import optimizer_for
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.stage import train

CPU = torch.device("cpu")
# A run that mines hard negatives among regions.
MEMBERS = {"loss": "structure", "image": "two_branch", "scheme": "hard_negatives"}
MINED = run_of(
    **MEMBERS,
    options={
        "loss": {"lambda2": 0.1, "lambda3": 0.1, "reduction": "mean"},
        "scheme": {"after": 2, "most": 4, "each": 2},
        "sampler": {"extra_positives": 1, "extra_images": 1},
        "image": {"hidden": 8},
        "text": {"hidden": 8},
    },
    train={"epochs": 5, "batch_size": 10},
)


def some_tokens(count: int, longest: int = 5, words: int = 12, seed: int = 0) -> Texts:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, count)
    ids = rng.integers(4, words, lengths.sum())
    starts = lengths.cumsum() - lengths
    vocabulary = [*SPECIAL, *(f"w{i}" for i in range(words - 4))]
    return Texts("tokens", np.arange(count), {}, Tokens(ids, starts, lengths), vocabulary, None, None)


def some_pairs(count: int = 24, each: int = 3, dim: int = 6, seed: int = 0) -> Pairs:
    """``count`` captions, ``each`` to an image with id 10, 20, ...; feature rows in reverse order of images."""
    rng = np.random.default_rng(seed)
    owner = np.arange(count) // each
    images = owner.max() + 1
    array = rng.standard_normal((images, dim)).astype(np.float16)
    return Pairs(array, images - 1 - owner, some_tokens(count, seed=seed), np.arange(count), 10 * (owner + 1))


def member(family, name: str, **options) -> Member:
    return Member(name, family.options(name)(**options))


def some_model(pairs: Pairs, image: Member | None = None, text: Member | None = None, size=8, seed=0) -> DualEncoder:
    image = image or member(IMAGE_ENCODERS, "linear")
    text = text or member(TEXT_ENCODERS, "gru", word_dim=5)
    cosine = member(SIMILARITIES, "cosine")
    return build(image, text, cosine, pairs.array.shape[1:], pairs.texts.inputs, size, seed=seed)


def some_scheme(
    pairs: Pairs, loss: str = "sum", name: str = "plain", model: DualEncoder | None = None, train=None, **options
) -> Scheme:
    model, chosen = model or some_model(pairs), member(LOSSES, loss)
    if LOSSES.traits(loss).learns:
        learned = LOSSES.load(loss).network(chosen.params)
        model.loss = learned and learned.to(next(model.parameters()).dtype)
    params = TrainParams(**{"batch_size": 8, "embed_size": 8, **(train or {})})
    run = some_run(chosen, params, name, **options)
    return SCHEMES.load(name).scheme(Setting(run, model, pairs, CPU, lambda seed: some_model(pairs, seed=seed)))


def some_run(loss: Member, train: TrainParams, scheme: str = "plain", seed: int = 3, **options) -> Run:
    """A run of linear images and words under cosine, of a project that has no files. options: of the scheme."""
    members = {
        "similarity": (SIMILARITIES, "cosine"),
        "text": (TEXT_ENCODERS, "gru"),
        "image": (IMAGE_ENCODERS, "linear"),
    }
    further = {key: member(*named) for key, named in members.items()} | {"sampler": member(SAMPLERS, "captions")}
    names = ("toy", "plain", "words", "clean")
    return Run(*names, loss=loss, scheme=member(SCHEMES, scheme, **options), train=train, seed=seed, **further)


def adam(model: torch.nn.Module, lr: float) -> torch.optim.Optimizer:
    return optimizer_for(model, TrainParams(lr=lr))


class FragmentModel(DualEncoder):
    """Two regions an image and a vector a word; the score is the mean over words of the best region, times a learned scale."""

    trains_on_pixels = tests_on_pixels = False
    loss = None

    def __init__(self, features: int, words: int, dim: int = 6) -> None:
        nn.Module.__init__(self)
        self.img, self.txt, self.sim = nn.Linear(features, 2 * dim), nn.Embedding(words, dim), nn.Linear(1, 1)
        generator = torch.Generator().manual_seed(0)
        for weight in self.parameters():
            nn.init.normal_(weight, generator=generator)

    def start(self, epoch: int) -> None:
        pass

    def encode(self, batch: Batch, device: torch.device, precision: str = "float32") -> tuple[Tensor, Words]:
        regions = self.img(batch.features).unflatten(1, (2, -1))
        tokens, lengths = batch.texts
        words = Words.from_padded(self.txt(tokens), lengths)
        unit = nn.functional.normalize
        return unit(regions, dim=2), Words(unit(words.vectors, dim=1), words.lengths)

    def score(self, images: Tensor, texts: Words) -> Tensor:
        best = torch.einsum("ird,wd->iwr", images, texts.vectors).amax(dim=2)
        means = [part.mean(dim=1) for part in best.split(texts.lengths.tolist(), dim=1)]
        return self.sim(torch.stack(means, dim=1)[..., None])[..., 0]


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, no clean-up runs but what the stack holds."""


def killed_after(epochs: int, params, run: str) -> None:
    """Train ``run`` until the state after ``epochs`` of its epochs is written, and no further."""
    saved, real = iter(range(1, 10**6)), Checkpoint.save

    def save(*arguments):
        real(*arguments)
        if next(saved) == epochs:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "save", save)
        with pytest.raises(Killed):
            train(params, run, "cpu")


def last_state(params: Params, run: str = "sum") -> dict:
    """The state after the last epoch of a training of ``run``, which is not finished."""
    shutil.rmtree(paths.trained(run), ignore_errors=True)
    killed_after(params.runs[run].train.epochs, params, run)
    return checkpoint.read(state_file(run))


def state_file(run: str = "sum") -> Path:
    """The state of an unfinished training of ``run``."""
    return next((partial_folder(paths.trained(run)) / "last").glob("*.pt"))


def files_of(run: str) -> dict[str, bytes]:
    """Everything in data/train/<run>/."""
    folder = paths.trained(run)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def weights_file(run: str = "sum") -> bytes:
    return (paths.trained(run) / model_files.MODEL).read_bytes()


def history(run: str = "sum"):
    return model_files.read_history(paths.trained(run))


def never(*arguments: object) -> None:
    pytest.fail("nothing was left to do")


def check_resumes(params: Params, run: str, *epochs: int, step: int = 0) -> None:
    """A training of ``run`` that is killed after each of ``epochs`` ends in the same bytes as an uninterrupted one, and so does
    one that is killed after ``step`` of its steps."""
    train(params, run, "cpu")
    whole = files_of(run)
    shutil.rmtree(paths.trained(run))
    for before, after in pairwise((0, *epochs)):
        killed_after(after - before, params, run)
    if step:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            patch.setattr(optimise, "step", Mock(wraps=optimise.step, side_effect=[DEFAULT] * step + [Killed]))
            train(params, run, "cpu")
    assert not (paths.trained(run) / model_files.MODEL).exists(), "a killed run must not look finished"
    train(params, run, "cpu")
    assert files_of(run) == whole


def ready(params: Params, *noises: str, **splits: int) -> Params:
    """The toy data set with everything before ``train``, in the working directory. splits: images of each."""
    if not paths.prepared("toy").exists():
        write_prepared(**splits)
        for noise in noises or ("clean",):
            inject(params, noise)
        extract_texts(params, "words")
    return params
