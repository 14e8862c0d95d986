import hashlib
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageFilter

from vse_pipe.artifacts.images import UNREAD
from vse_pipe.audit import defects, duplicates
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.prepare.formats.shapes import draw
from vse_pipe.prepare.scene import sample_scene

DUPLICATES = ("duplicate", "leak")


def photograph(seed: int, size: tuple[int, int] = (320, 240)) -> Image.Image:
    """Blotches and grain of all sizes, as photographs have."""
    rng = np.random.default_rng(seed)
    layers = []
    for cells in (3, 6, 12, 40, 120):
        noise = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), np.uint8))
        layers.append(np.asarray(noise.resize(size, Image.Resampling.BICUBIC), float) - 128)
    return Image.fromarray((128 + 0.7 * sum(layers)).clip(0, 255).astype(np.uint8))


def tables(
    root: Path, pictures: list, splits: list[str], texts: list[list[str]] | None = None
) -> tuple[pa.Table, pa.Table]:
    """images and captions of pictures, or of the bytes of files, that are written below ``root``; None: no file."""
    rows = []
    for place, (picture, split) in enumerate(zip(pictures, splits, strict=True)):
        content, size = picture, (0, 0)
        if isinstance(picture, Image.Image):
            buffer, size = io.BytesIO(), picture.size
            picture.save(buffer, "PNG")
            content = buffer.getvalue()
        elif content is not None:
            size = Image.open(io.BytesIO(content)).size
        digest = UNREAD if content is None else hashlib.sha256(content).hexdigest()
        if content is not None:
            (root / f"{place}.png").write_bytes(content)
        rows.append((10 * place, f"{place}.png", split, *size, digest))
    names = ("image_id", "file", "split", "width", "height", "sha256")
    images = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    lists = texts or [[f"a photograph with number {place}"] for place in range(len(pictures))]
    flat = [(10 * place, text, splits[place]) for place, captions in enumerate(lists) for text in captions]
    image_ids, words, of_split = map(list, zip(*flat, strict=True))
    return images, pa.table({"caption_id": range(len(flat)), "image_id": image_ids, "text": words, "split": of_split})


def as_jpeg(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.resize((200, 150)).save(buffer, "JPEG", quality=60)
    return buffer.getvalue()


def test_planted_defects_are_found_and_nothing_else(tmp_path):
    plain = [photograph(seed) for seed in range(40)]
    dark = ImageEnhance.Brightness(plain[3]).enhance(0.05)
    planted = [
        plain[0], as_jpeg(plain[1]), plain[2], dark, plain[4].filter(ImageFilter.GaussianBlur(8)), photograph(99),
        photograph(98), plain[7].resize((20, 15)), plain[8].resize((900, 60)), Image.new("RGB", (99, 99), "white"),
        None,
    ]  # fmt: skip
    splits = ["train"] * 40 + ["train", "train", "test"] + ["train"] * 8
    images, captions = tables(tmp_path, plain + planted, splits)
    rows = defects.findings(images, captions, tmp_path)
    assert not rows.duplicated(["kind", "id"]).any()
    copies = rows[rows["kind"].isin(DUPLICATES) & (rows["doubt"] > 0.5)].set_index("id")
    # A dark or blurred picture and a scaled one are copies too, if they look the same.
    assert copies.loc[400, ["kind", "doubt", "proposal", "other"]].tolist() == ["duplicate", 1.0, "merge", 0]
    assert copies.loc[410, ["kind", "proposal", "other"]].tolist() == ["duplicate", "merge", 10]
    assert copies.loc[20, ["kind", "proposal", "other"]].tolist() == ["leak", "drop", 420]
    assert copies.loc[20, "why"] == "the same file as a picture of test"
    assert copies.loc[410, "doubt"] > 0.8
    assert set(copies.index) <= {400, 410, 20, *range(430, 510, 10)}
    found = rows[rows["kind"] == "picture"].set_index("id")
    assert set(found.index[found["doubt"] > 0.5]) == {430, 440, 470, 480, 490, 500}
    reasons = ["dark:", "blurred:", "tiny:", "odd shape:", "over-bright:", "cannot"]
    places = (430, 440, *range(470, 510, 10))
    assert all(found.loc[id_, "why"].startswith(why) for id_, why in zip(places, reasons, strict=True))
    assert 450 not in found.index
    assert found.loc[500, ["doubt", "file", "caption"]].tolist() == [1.0, "50.png", "a photograph with number 50"]


def test_drawings_have_no_defects(tmp_path):
    rng = np.random.default_rng(0)
    pictures = [draw(sample_scene(rng), 64) for _ in range(200)]
    images, captions = tables(tmp_path, pictures, ["train"] * 150 + ["test"] * 50)
    rows = defects.findings(images, captions, tmp_path)
    assert rows[rows["doubt"] > 0.5].empty


def test_a_picture_that_changed_is_refused_and_one_that_is_gone_is_broken(tmp_path):
    images, captions = tables(tmp_path, [photograph(0), photograph(1)], ["train", "train"])
    (tmp_path / "0.png").unlink()
    rows = defects.findings(images, captions, tmp_path)
    assert rows[["kind", "id", "why"]].to_numpy().tolist() == [["picture", 0, "cannot be read"]]
    (tmp_path / "1.png").write_bytes(as_jpeg(photograph(2)))
    with pytest.raises(IntegrityError, match="changed after prepare"):
        defects.findings(images, captions, tmp_path)


def test_a_name_that_leaves_the_root_is_refused(tmp_path):
    images, captions = tables(tmp_path, [photograph(0)], ["train"])
    images = images.set_column(1, "file", pa.array(["../0.png"]))
    with pytest.raises(InputError, match=r"0\.png"):
        defects.findings(images, captions, tmp_path)


def test_precomputed_features_have_copies_and_no_pictures(tmp_path):
    digests = [hashlib.sha256(str(place % 7).encode()).hexdigest() for place in range(9)]
    columns = {
        "image_id": range(9),
        "file": [f"train_ims.npy#{row}" for row in range(9)],
        "split": ["train"] * 8 + ["test"],
        "width": np.zeros(9, np.int32),
        "height": np.zeros(9, np.int32),
        "sha256": digests,
    }
    captions = pa.table({"caption_id": [5], "image_id": [0], "text": ["a dog in the snow"], "split": ["train"]})
    rows = defects.findings(pa.table(columns), captions, tmp_path).set_index("id")
    assert rows.loc[7, ["kind", "other", "other_caption"]].tolist() == ["duplicate", 0, "a dog in the snow"]
    assert rows.loc[1, ["kind", "other", "proposal"]].tolist() == ["leak", 8, "drop"]
    assert not (rows["kind"] == "picture").any()


PAIRS = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.sampled_from([0.2, 0.4, 0.6, 0.7, 0.9])), max_size=14
)


@given(PAIRS, st.lists(st.sampled_from(["train", "val", "test"]), min_size=9, max_size=9), st.permutations(range(9)))
def test_groups_are_those_of_loops(edges, splits, ids):
    edges = [edge for edge in edges if edge[0] != edge[1]]
    left, right, doubt = (
        map(np.array, zip(*edges, strict=True)) if edges else (np.zeros(0, int), np.zeros(0, int), np.zeros(0))
    )
    pairs = duplicates.pairs_of(left, right, doubt, "alike")
    table = duplicates.grouped(pairs, np.array(ids), np.array(splits, object))
    # Whether a way of pairs that chain leads from one to another.
    chain = [edge for edge in edges if edge[2] >= duplicates.LEAST]
    way = np.eye(9, dtype=bool)
    for i, j, _ in chain * 9:
        way[way[:, i] | way[:, j]] |= way[i] | way[j]
    rank = {"train": 0, "val": 1, "test": 2}
    stays = [min(np.flatnonzero(way[i]), key=lambda j: (-rank[splits[j]], ids[j])) for i in range(9)]
    surest = [max((value for a, b, value in chain if i in (a, b)), default=0) for i in range(9)]
    expected = {ids[i]: (ids[stays[i]], surest[i]) for i in range(9) if stays[i] != i}
    assert {row.id: (row.other, row.doubt) for row in table.itertuples()} == expected
    assert table["id"].is_unique
    place = {id_: i for i, id_ in enumerate(ids)}
    for row in table.itertuples():
        gone, kept = rank[splits[place[row.id]]], rank[splits[place[row.other]]]
        assert (row.kind, row.proposal) == (("leak", "drop") if gone < kept else ("duplicate", "merge"))
        assert gone < kept or (gone == kept and row.other < row.id)


def test_many_equal_pictures_are_one_group_with_few_pairs():
    alike = np.ones((900, 256), np.float32), np.zeros((900, 64, 3), np.uint8), np.arange(900)
    pairs = duplicates.near_hashes(*alike)
    assert len(pairs) <= 8 * 900
    table = duplicates.grouped(pairs, np.arange(900), np.full(900, "train", object))
    assert (len(table), set(table["other"])) == (899, {0})


def test_perceptual_hashes_are_signs_of_the_lowest_frequencies():
    grey = np.random.default_rng(0).random((2, 64, 64)).cumsum(axis=1).cumsum(axis=2).astype(np.float32)
    wave = np.cos(np.pi * np.outer(np.arange(64), 2 * np.arange(64) + 1) / 128)
    low = wave @ grey[1].astype(float) @ wave.T
    low[0] /= np.sqrt(2)
    low[:, 0] /= np.sqrt(2)
    values = low[:16, :16].ravel()
    expected = np.where(values > np.median(values[1:]), 1, -1).tolist()
    assert duplicates.perceptual_hashes(grey)[1].tolist() == expected
    assert duplicates.perceptual_hashes(grey * 0.5 + 20)[1].tolist() == expected


def test_near_hashes_are_those_of_loops():
    rng = np.random.default_rng(0)
    bits = rng.random((25, 256)) < 0.5
    for copy in range(1, 25, 2):
        bits[copy] = bits[copy - 1] ^ (rng.random(256) < copy / 80)
    colours = np.zeros((25, 64, 3), np.uint8)
    colours[5, 9] = 230
    found = duplicates.near_hashes(np.where(bits, 1, -1).astype(np.float32), colours, np.arange(25))
    expected = {}
    for i in range(25):
        for j in range(i + 1, 25):
            differ = (bits[i] != bits[j]).sum()
            doubt = 0.97 * (1 - differ / 64) * (0 if 5 in (i, j) else 1)
            if differ < 64:
                expected[i, j] = pytest.approx(doubt)
    assert 5 < len(expected) < 16
    assert dict(zip(zip(found["left"], found["right"], strict=True), found["doubt"], strict=True)) == expected


def captions_of(texts: list[str], images: list[int] | None = None) -> pa.Table:
    ids = pa.array(range(len(texts)), pa.int64())
    return pa.table({"caption_id": ids, "image_id": images or ids, "text": pa.array(texts, pa.string())})


NOUNS = ["dog", "man", "woman", "child", "horse", "girl", "boat", "bird", "car", "bicycle"]
ENGLISH = [
    f"A {noun} is standing near the {place} number {n}"
    for n, noun in enumerate(NOUNS)
    for place in ("water", "road", "house")
]


def test_captions_that_say_nothing(tmp_path):
    odd = [
        "IMG_1234.jpg", "dsc 00123", "https://example.org/a b"[:21], "...", "2014", "A photo of the", "it is in there",
        "Собака бежит по снегу", "a white dog in the snow", "Skiiers on snow cappedhills", "a photo of a dog", "a man named Zbigniew Brzezinski waves",
    ]  # fmt: skip
    rows = defects.caption_findings(captions_of(ENGLISH + odd))
    assert set(rows["kind"]) == {"caption"}
    found = {odd[row.id - len(ENGLISH)]: (row.doubt > 0.5, row.why) for row in rows.itertuples()}
    assert found == {
        "IMG_1234.jpg": (True, "a file name"),
        "dsc 00123": (True, "a file name"),
        "https://example.org/a": (True, "an address and no words"),
        "...": (True, "no words"),
        "2014": (True, "only digits"),
        "A photo of the": (True, "says nothing of the picture"),
        "it is in there": (True, "says nothing of the picture"),
        odd[7]: (True, "in other letters than the rest"),
    }


def test_the_style_of_a_data_set_is_no_defect():
    assert defects.caption_findings(captions_of(["dog", "cat", "tree", "house"] * 5 + ENGLISH))["doubt"].max() <= 0.5
    assert defects.caption_findings(captions_of(["一只狗在雪地里奔跑", "两个孩子在公园里玩"])).empty
    assert defects.caption_findings(captions_of([])).empty


def test_a_caption_of_many_pictures():
    texts = ["Two dogs play.", "two dogs play", "Two  dogs play!", "TWO DOGS PLAY", "two dogs, play", *ENGLISH]
    rows = defects.caption_findings(captions_of(texts))
    assert rows["id"].tolist() == [0, 1, 2, 3, 4]
    assert set(rows["why"]) == {"5 pictures have this caption"}
    assert rows["doubt"].between(0.2, 0.5).all()


def test_captions_that_a_picture_has_twice():
    texts = [
        "A dog runs in the snow.", "a dog runs in the snow", "In the snow a dog runs", "A brown dog runs in the snow",
        "a dog runs in the snow",
    ]  # fmt: skip
    rows = defects.caption_findings(captions_of(texts, [1, 1, 1, 1, 2])).set_index("id")
    assert (rows["kind"] == "duplicate_caption").all()
    assert rows["other"].to_dict() == {1: 0, 2: 0}
    assert rows["why"].to_dict() == {
        1: "caption 0 of this picture says the same",
        2: "caption 0 of this picture says the same in another order",
    }
    assert rows["doubt"].tolist() == [1.0, 0.85]
