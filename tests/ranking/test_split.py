"""Splits and the embeddings of a run."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.evaluate.embedded import ABOUT, sides, write
from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import InputError
from vse_pipe.project import paths
from vse_pipe.ranking.recall import Relevance
from vse_pipe.ranking.vectors import Vectors

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return paths.embedded("sum")


def read(folder, images, captions) -> Vectors:
    write(images, captions)
    return Vectors.of_folder(folder)


def test_a_split_keeps_the_order_of_the_files_and_a_fold_is_consecutive_images_with_all_their_captions(folder):
    images, captions = sides({"train": 5, "test": 9, "val": 3})
    split = read(folder, images, captions).split("test", CPU)
    inside = captions.splits == "test"
    assert split.image_ids.tolist() == images.ids[5:14].tolist()
    assert split.caption_ids.tolist() == captions.ids[inside].tolist()
    np.testing.assert_array_equal(split.images.numpy(), images.vectors[5:14])
    np.testing.assert_array_equal(split.captions.numpy(), captions.vectors[inside])
    assert split.ids("text_to_image")[0].tolist() == split.caption_ids.tolist()
    fold = split.fold(slice(3, 6))
    assert fold.image_ids.tolist() == split.image_ids[3:6].tolist()
    mine = [row for row, image in enumerate(split.caption_images) if image in fold.image_ids]
    assert fold.caption_ids.tolist() == split.caption_ids[mine].tolist()
    assert torch.equal(fold.captions, split.captions[mine])
    assert len(fold.truth("image_to_text")) == 3
    assert len(fold.truth("text_to_image")) == len(mine)


def _but(sides: tuple[Side, Side], **about: str) -> tuple[Side, Side]:
    return tuple(replace(side, about=side.about | about) for side in sides)


def _wider(side: Side) -> Side:
    return replace(side, vectors=np.pad(side.vectors, ((0, 0), (0, 1))))


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (
            lambda both: (both[0], _but(both, model_sha256="1" * 64)[1]),
            "captions.parquet: model_sha256 is '111.*images.parquet is '000",
        ),
        (lambda both: (both[0], _wider(both[1])), "captions.parquet: width is 9, that of .*images.parquet is 8"),
    ],
    ids=["other model", "widths"],
)
def test_embeddings_that_do_not_belong_together_are_refused(folder, spoilt, message):
    def use():
        read(folder, *spoilt(sides({"test": 9, "val": 3})))

    with pytest.raises(InputError, match=message):
        use()


def test_what_is_not_there_names_the_command_or_the_option(folder):
    with pytest.raises(InputError, match="vse-pipe embed --run sum"):
        Vectors.of_folder(folder)
    embedded = read(folder, *sides({"train": 4}))
    with pytest.raises(InputError, match=r"no image of split 'test', it holds train; name 'test' in embed\.splits"):
        embedded.split("test", CPU)


def test_relevance_takes_the_place_of_the_captions_image(folder):
    split = read(folder, *sides({"test": 9})).split("test", CPU)
    image, caption = split.image_ids[4], split.caption_ids[-1]
    judged = replace(split, relevance=Relevance.both_ways(np.array([image]), np.array([caption])))
    assert [ids.tolist() for ids in judged.ids("image_to_text")] == [[image], split.caption_ids.tolist()]
    assert [ids.tolist() for ids in judged.ids("text_to_image")] == [[caption], split.image_ids.tolist()]
    assert judged.clusters("text_to_image").tolist() == [split.caption_images[-1]]
    assert judged.truth("image_to_text").judged().tolist() == [4]
    assert judged.fold(slice(4, 5)).truth("image_to_text").judged().tolist() in ([], [0])
    assert not len(judged.fold(slice(0, 4)).ids("image_to_text")[0])


SCAN = {**ABOUT, "similarity": "scan_t2i", "dim": "8"}


def _write(folder, about: dict[str, str], regions: list[int]) -> None:
    captions = (embeddings.CAPTIONS, [0, 1, 2], [7, 9, 9], [2, 1, 4])
    for name, ids, owners, lengths in ((embeddings.IMAGES, [7, 9], [7, 9], regions), captions):
        vectors = np.random.default_rng(0).standard_normal((sum(lengths), 8)).astype(np.float32)
        block = Side(np.array(ids), np.array(owners), np.array(["test"] * len(ids)), vectors, {}, np.array(lengths))
        full = embeddings.fragment_schema(name.partition(".")[0], 8)
        embeddings.write_each(folder / name, full, [block], about)


def test_regions_and_words_come_as_they_were_written_and_are_no_bank_of_another_folder(tmp_path):
    _write(tmp_path, {**SCAN, "regions": "3"}, [3, 3])
    split = Vectors.of_folder(tmp_path).split("test", CPU)
    assert split.images.shape == (2, 3, 8)
    assert split.captions.lengths.tolist() == [2, 1, 4]
    with pytest.raises(InputError, match="a bank of another folder must be one of vectors, not of fragments"):
        Vectors.of_folder(tmp_path).all_splits(CPU)


def test_a_bank_of_another_folder_holds_no_proposed_boxes(tmp_path):
    images, captions = sides({"test": 4, "proposal": 2})
    embeddings.write(tmp_path / embeddings.IMAGES, images)
    embeddings.write(tmp_path / embeddings.CAPTIONS, captions.split("test"))
    whole = Vectors.of_folder(tmp_path).all_splits(CPU)
    assert whole.image_ids.tolist() == images.split("test").ids.tolist()
    assert np.array_equal(whole.images, images.split("test").vectors)
    assert len(whole.caption_ids) == len(captions.split("test").ids)
