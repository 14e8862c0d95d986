"""A pretrained pair as it is: open_clip's own figures, and everything that a run goes through."""

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline.artifacts import captions, embeddings, evaluation, images
from pipeline.embed.stage import embed
from pipeline.evaluate.stage import evaluate
from pipeline.extract.stage import extract
from pipeline.extract.text_stage import extract_texts
from pipeline.prepare.stage import prepare
from pipeline.project import paths
from tests import pair_project as pairs
from tests.naive import evaluate as naive

open_clip = pytest.importorskip("open_clip", reason="needs the extra open_clip")


@pytest.fixture
def photographs(tmp_path, monkeypatch):
    """A folder with photographs and captions, the working directory."""
    monkeypatch.chdir(tmp_path)
    pairs.write_photos()


def run_through(params, name: str = "zero") -> None:
    from pipeline.train.stage import train

    prepare(params, "photos")
    extract(params, "seen", "cpu")
    extract_texts(params, "said")
    train(params, name, "cpu")
    embed(params, name, "cpu")
    evaluate(params, name, ["nns"])


def own_vectors(model, split: str) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """What open_clip makes of a split's pictures and captions by itself, and the picture of each caption."""
    network, preprocess = open_clip.create_model_from_pretrained(f"local-dir:{model.absolute()}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{model.absolute()}")
    prepared = paths.prepared("photos")
    seen, said = (
        [row for row in table.to_pylist() if row["split"] == split]
        for table in (images.read(prepared), captions.read(prepared))
    )
    with torch.inference_mode():
        pixels = torch.stack([preprocess(Image.open(f"raw/{row['file']}")) for row in seen])
        first = network.eval().encode_image(pixels, normalize=True).numpy()
        second = network.encode_text(tokenizer([row["text"] for row in said]), normalize=True).numpy()
    place = {row["image_id"]: number for number, row in enumerate(seen)}
    return first, second, [place[row["image_id"]] for row in said]


@pytest.mark.parametrize("kind", ["clip", "siglip", "coca"])
def test_it_has_the_recalls_of_open_clips_own_encode_and_a_plain_product(photographs, kind):
    model = pairs.write_model(kind)
    run_through(pairs.loaded(model))
    first, second, owners = own_vectors(model, "test")
    scores = (first @ second.T).tolist()
    found = evaluation.read_metrics(paths.evaluated("zero", "nns"))
    for k in (1, 5, 10):
        to_text = [
            naive.best_rank(row, {j for j, owner in enumerate(owners) if owner == i}, "pessimistic")
            for i, row in enumerate(scores)
        ]
        to_image = [
            naive.best_rank([row[j] for row in scores], {owner}, "pessimistic") for j, owner in enumerate(owners)
        ]
        assert found["image_to_text"][f"r@{k}"] == pytest.approx(naive.recall(to_text, k))
        assert found["text_to_image"][f"r@{k}"] == pytest.approx(naive.recall(to_image, k))
    vectors = embeddings.read(paths.embedded("zero") / embeddings.IMAGES)
    np.testing.assert_allclose(vectors.vectors[vectors.splits == "test"], first, atol=2e-6)
