"""The Python door against other libraries: figures, CSLS and losses; and its losses in other training loops."""

import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import open_clip
import pandas as pd
import pytest
import torch
from torch import Tensor
from torchmetrics import retrieval as torchmetrics

import vse_pipe as vp
from tests.naive.evaluate import csls

# pytorch-metric-learning imports faiss.contrib.torch_utils, after which indexes of the whole process give tensors.
FAISS = sys.modules.get("faiss")
sys.modules["faiss"] = None  # type: ignore[assignment]
from pytorch_metric_learning.distances import CosineSimilarity  # noqa: E402
from pytorch_metric_learning.losses import NTXentLoss, TripletMarginLoss  # noqa: E402
from pytorch_metric_learning.miners import BatchHardMiner  # noqa: E402
from pytorch_metric_learning.reducers import SumReducer  # noqa: E402
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator  # noqa: E402
from pytorch_metric_learning.utils.inference import CustomKNN  # noqa: E402

if FAISS is None:
    del sys.modules["faiss"]
else:
    sys.modules["faiss"] = FAISS

DIRECTIONS = ("image_to_text", "text_to_image")
TIES = ("pessimistic", "optimistic")
FIGURES = ("r@1", "r@5", "r@10", "mrr", "map", "ndcg@10", "r_precision")
QUERY = ["problem", "direction"]
BATCHES = range(20)


def problem(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores above 0 without ties, exact in float32, and owners. An image has five captions, or one to eight if odd."""
    rng = np.random.default_rng(seed)
    images = int(rng.integers(3, 9)) if seed % 10 else 20
    counts = rng.integers(1, 9, images) if seed % 2 else np.full(images, 5)
    owners = rng.permutation(np.repeat(np.arange(images), counts))
    strength = rng.normal(size=(images, len(owners))) + 1.5 * (owners == np.arange(images)[:, None])
    return (1.0 + strength.ravel().argsort().argsort().reshape(strength.shape)) / strength.size, owners


@pytest.fixture(scope="module")
def rankings() -> list[vp.Ranking]:
    return [vp.rank_scores(*problem(seed)) for seed in range(100)]


@pytest.fixture(scope="module")
def queries(rankings) -> pd.DataFrame:
    """The queries of 100 problems, with scores and relevance of their items and the rank by ``vp.rank_scores``."""
    rows = []
    for seed, ranking in enumerate(rankings):
        scores, owners = problem(seed)
        relevant = owners == np.arange(len(scores))[:, None]
        for direction, sides in zip(DIRECTIONS, ((scores, relevant), (scores.T, relevant.T)), strict=True):
            rows += [(seed, direction, *row) for row in zip(*sides, ranking.ranks(direction), strict=True)]
    return pd.DataFrame(rows, columns=[*QUERY, "scores", "relevant", "rank"])


def assert_figures(rankings: list[vp.Ranking], queries: pd.DataFrame, theirs: dict[str, np.ndarray], tolerance: float):
    """The ranks of all queries and the figures of all problems. theirs: by name, of each query, from 0 to 1."""
    assert (np.rint(1 / theirs["mrr"]) == queries["rank"]).all()
    means = 100 * queries[QUERY].assign(**theirs).groupby(QUERY).mean()
    ours = pd.DataFrame([rankings[seed].metrics()[direction] for seed, direction in means.index], means.index)
    assert (ours[list(theirs)] - means).abs().to_numpy().max() < tolerance


def each_query(metric: torchmetrics.base.RetrievalMetric, queries: pd.DataFrame) -> np.ndarray:
    """The metric of each query, float64."""
    lengths = torch.tensor([len(scores) for scores in queries["scores"]])
    columns = (torch.from_numpy(np.concatenate(queries[name].tolist())) for name in ("scores", "relevant"))
    metric.aggregation = lambda values, dim: values
    metric.update(*columns, indexes=torch.arange(len(lengths)).repeat_interleave(lengths))
    return metric.compute().double().numpy()


def test_figures_and_ranks_equal_those_of_torchmetrics(rankings, queries):
    metrics = {f"r@{k}": torchmetrics.RetrievalHitRate(top_k=k) for k in (1, 5, 10)}
    metrics |= {"mrr": torchmetrics.RetrievalMRR(), "map": torchmetrics.RetrievalMAP()}
    metrics |= {"ndcg@10": torchmetrics.RetrievalNormalizedDCG(top_k=10)}
    metrics |= {"r_precision": torchmetrics.RetrievalRPrecision()}
    figures = {name: each_query(metric, queries) for name, metric in metrics.items()}
    assert_figures(rankings, queries, figures, 1e-5)  # torchmetrics computes in float32


@pytest.mark.parametrize("seed", range(10))
def test_figures_of_vectors_equal_those_of_pytorch_metric_learning(seed):
    """Its authors defined MAP@R: Musgrave et al., A metric learning reality check, ECCV 2020."""
    rng = np.random.default_rng(seed)
    owners = rng.permutation(np.repeat(np.arange(30), rng.integers(1, 9, 30)))
    images = rng.normal(size=(30, 8)).astype(np.float32)
    captions = (images[owners] + rng.normal(size=(len(owners), 8))).astype(np.float32)
    ours = vp.rank(images, captions, owners).metrics()
    names = {"precision_at_1": "r@1", "mean_reciprocal_rank": "mrr", "mean_average_precision": "map"}
    names |= {"mean_average_precision_at_r": "map@r", "r_precision": "r_precision"}
    calculator = AccuracyCalculator(tuple(names), device=torch.device("cpu"), knn_func=CustomKNN(CosineSimilarity()))
    sides = [(torch.from_numpy(images), torch.arange(30)), (torch.from_numpy(captions), torch.from_numpy(owners))]
    for direction, (queries, items) in zip(DIRECTIONS, (sides, sides[::-1]), strict=True):
        theirs = calculator.get_accuracy(*queries, *items)
        for name, value in theirs.items():
            assert ours[direction][names[name]] == pytest.approx(100 * value, abs=1e-5), name


NAMES_OF_RANX = {**{f"r@{k}": f"hit_rate@{k}" for k in (1, 5, 10)}, "r_precision": "r-precision"}


def ranx_figures(queries: pd.DataFrame, home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """The figures of each query. numba compiles ranx for a minute and a half, and loads it in 15 seconds after that."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(home))  # ranx imports ir_datasets, which makes folders at home
    run, qrels = {}, {}
    for place, (scores, relevant) in enumerate(zip(queries["scores"], queries["relevant"], strict=True)):
        items = [f"i{item:05}" for item in range(len(scores))]
        run[f"q{place:05}"] = dict(zip(items, scores.tolist(), strict=True))
        qrels[f"q{place:05}"] = {items[item]: 1 for item in np.flatnonzero(relevant)}
    names = [NAMES_OF_RANX.get(name, name) for name in FIGURES]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "invalid escape sequence")
        warnings.filterwarnings("ignore", ".*unsafe cast from uint64")
        from ranx import Qrels, Run, evaluate

        return dict(zip(FIGURES, evaluate(Qrels(qrels), Run(run), names, return_mean=False).values(), strict=True))


@pytest.mark.acceptance
def test_figures_and_ranks_equal_those_of_ranx(rankings, queries, tmp_path, monkeypatch):
    assert_figures(
        rankings, queries, ranx_figures(queries, tmp_path, monkeypatch), 1e-6
    )  # ``metrics`` rounds to 6 digits


def test_ties_have_a_policy_here_wherever_the_correct_item_stands():
    places = {ties: vp.rank_scores(np.full((4, 4), 0.5), ties=ties).ranks("image_to_text") for ties in TIES}
    assert {ties: set(ranks) for ties, ranks in places.items()} == dict(zip(TIES, ({4.0}, {1.0}), strict=True))


def cosines(images: np.ndarray, captions: np.ndarray) -> np.ndarray:
    sides = (
        side / np.linalg.norm(side, axis=1, keepdims=True) for side in (images.astype(float), captions.astype(float))
    )
    return np.matmul(next(sides), next(sides).T)


def table(ranking: vp.Ranking, direction: str) -> np.ndarray:
    """The scores of all items, (queries, items)."""
    scores, items = ranking.top(10_000, direction)
    return np.take_along_axis(scores, items.argsort(axis=1), axis=1)


@pytest.mark.parametrize("k", [1, 3, 10, 50])
def test_csls_is_that_of_muse(k):
    """``2 cos(x, y) - r_T(x) - r_S(y)`` with the means of the k nearest of the other side: Lample, Conneau et al., Word
    translation without parallel data, ICLR 2018, section 2.3. Of fewer than k neighbours all count."""
    rng = np.random.default_rng(k)
    images, captions = (rng.normal(size=(count, 8)).astype(np.float32) for count in (20, 45))
    owners, scores = rng.permutation(np.arange(45) % 20), cosines(images, captions)
    rankings = {
        1e-12: vp.rank_scores(scores, owners, criterion=vp.criteria.CSLS(k=k)),
        1e-6: vp.rank(images, captions, owners, criterion=vp.criteria.CSLS(k=k)),  # in float32
    }
    for direction, rows in zip(DIRECTIONS, (scores, scores.T), strict=True):
        oracle = np.array(csls(rows.tolist(), k, two_sided=True))
        for tolerance, ranking in rankings.items():
            assert np.abs(table(ranking, direction) - oracle).max() < tolerance


def test_csls_is_that_of_kiez():
    """kiez ranks the k nearest items alone and gives distances. Its file is written by ``kiez_csls.py``."""
    with np.load(Path(__file__).with_name("kiez_csls.npz")) as kiez:
        k, owners, scores = int(kiez["k"]), np.arange(40) // 2, cosines(kiez["images"], kiez["captions"])
        exact = vp.rank_scores(scores, owners, criterion=vp.criteria.CSLS(k=k))
        single = vp.rank(kiez["images"], kiez["captions"], owners, criterion=vp.criteria.CSLS(k=k))
        for direction in DIRECTIONS:
            items, distances = kiez[f"{direction}_items"].astype(int), kiez[f"{direction}_distances"]
            for ranking, tolerance in ((exact, 1e-12), (single, 1e-6)):
                ours = np.take_along_axis(table(ranking, direction), items, axis=1)
                assert np.abs(ours + distances).max() < tolerance


def batch(seed: int, has_owners: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Vectors of 24 pairs in float64; with owners of ten images."""
    generator = torch.Generator().manual_seed(seed)
    images, texts = torch.randn(2, 24, 8, dtype=torch.float64, generator=generator)
    owners = torch.randint(10, (24,), generator=generator) if has_owners else None
    return images.requires_grad_(), (images.detach() + texts).requires_grad_(), owners


def assert_equal(ours: Tensor, theirs: Tensor, *inputs: Tensor) -> None:
    """Values and gradients."""
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-10, rel=1e-12)
    gradients = (torch.autograd.grad(loss, inputs, retain_graph=True) for loss in (ours, theirs))
    for left, right in zip(*gradients, strict=True):
        assert (left - right).abs().max() < 1e-10


def metric_learning(loss, images: Tensor, texts: Tensor, owners: Tensor | None) -> Tensor:
    """A loss of pytorch-metric-learning in both directions. Pairs of the same image are left out, as by ``owners``."""
    pairs = torch.arange(len(images))
    if owners is None:
        # Equal labels, but another tensor: of the same one it leaves out the pairs (i, i).
        return loss(images, pairs, None, texts, pairs.clone()) + loss(texts, pairs, None, images, pairs.clone())
    anchors, negatives = torch.where(owners[:, None] != owners)
    triplets = isinstance(loss, TripletMarginLoss)
    indices = (anchors, anchors, negatives) if triplets else (pairs, pairs, anchors, negatives)
    return loss(images, None, indices, texts) + loss(texts, None, indices, images)


@pytest.mark.parametrize("has_owners", [False, True])
@pytest.mark.parametrize("seed", BATCHES)
def test_losses_equal_those_of_pytorch_metric_learning(seed, has_owners):
    images, texts, owners = batch(seed, has_owners)
    equal = partial(assert_equal, vp.losses.InfoNCE(tau=0.07)(images, texts, owners))
    equal(metric_learning(NTXentLoss(temperature=0.07), images, texts, owners), images, texts)
    hinge = TripletMarginLoss(margin=0.2, distance=CosineSimilarity(), reducer=SumReducer())
    equal = partial(assert_equal, vp.losses.SUM(margin=0.2)(images, texts, owners))
    equal(metric_learning(hinge, images, texts, owners), images, texts)


@pytest.mark.parametrize("seed", BATCHES)
def test_max_is_the_hinge_of_the_batch_hard_miner(seed):
    images, texts, _ = batch(seed, False)
    labels, miner = torch.arange(24), BatchHardMiner(distance=CosineSimilarity())
    hinge = TripletMarginLoss(margin=0.2, distance=CosineSimilarity(), reducer=SumReducer())
    theirs = [
        hinge(anchors, labels, miner(anchors, labels, others, labels.clone()), others, labels.clone())
        for anchors, others in ((images, texts), (texts, images))
    ]
    assert_equal(vp.losses.MAX(margin=0.2)(images, texts), sum(theirs), images, texts)


@pytest.mark.parametrize("seed", BATCHES)
def test_losses_equal_those_of_open_clip(seed):
    """InfoNCE adds the directions and ClipLoss takes their mean. Temperature, scale and bias have equal gradients."""
    images, texts, _ = batch(seed, False)
    unit = [torch.nn.functional.normalize(side, dim=1) for side in (images, texts)]
    contrast = vp.losses.InfoNCE(tau=0.05, learn=True).double()
    theirs = 2 * open_clip.ClipLoss()(*unit, 1 / contrast.learned())
    assert_equal(contrast(images, texts), theirs, images, texts, *contrast.parameters())
    sigmoid = vp.losses.Sigmoid().double()
    theirs = open_clip.loss.SigLipLoss()(*unit, sigmoid.learned.log_scale.exp(), sigmoid.learned.bias)
    assert_equal(sigmoid(images, texts), theirs, images, texts, *sigmoid.parameters())


CAPTIONS = ["a red dog", "two cats on a bed", "a tree", "a boat at sea"]


def sentence_model():
    """A model of sentence-transformers with random vectors of words."""
    package = pytest.importorskip("sentence_transformers", reason="needs the extra sentences")
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = sorted({word for caption in CAPTIONS for word in caption.split()})
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return package.SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu")


def test_infonce_is_the_ranking_loss_of_sentence_transformers_in_both_directions():
    """It takes the mean of the directions; scale is 1 / tau."""
    model = sentence_model()
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    images, texts, _ = batch(0, False)
    directions = ("query_to_doc", "doc_to_query")
    loss = MultipleNegativesRankingLoss(model, scale=20.0, directions=directions, partition_mode="per_direction")
    theirs = 2 * loss.compute_loss_from_embeddings([images, texts], None)
    assert_equal(vp.losses.InfoNCE(tau=0.05)(images, texts), theirs, images, texts)
