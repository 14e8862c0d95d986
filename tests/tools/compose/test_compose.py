"""Compositional sets against loops; what is equal is no preference."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.evaluate.embedded import sides
from tests.evaluate.embedded import write as write_run
from tests.evaluate.files import Sample, sample, write
from tests.toy_project import write_params
from vse_pipe.core.errors import InputError
from vse_pipe.evaluate.files import InputFiles
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.tools.compose import compose_files


def two_by_two(score, rows) -> dict[str, float]:
    """Winoground's three scores by loops; score: of an image's and a caption's id."""
    found = {"text": 0, "image": 0, "group": 0}
    for i0, c0, i1, c1 in rows:
        text = score(i0, c0) > score(i0, c1) and score(i1, c1) > score(i1, c0)
        image = score(i0, c0) > score(i1, c0) and score(i1, c1) > score(i0, c1)
        found["text"] += text
        found["image"] += image
        found["group"] += text and image
    return {name: 100 * count / len(rows) for name, count in found.items()}


def scorer(one: Sample):
    cosines = one.cosines()
    images, captions = one.image_ids.tolist(), one.caption_ids.tolist()
    return lambda image, caption: cosines[images.index(image), captions.index(caption)]


def rows_of(one: Sample, count: int = 60) -> list[tuple[int, int, int, int]]:
    rng = np.random.default_rng(2)
    chosen = rng.integers(0, len(one.caption_ids), (count, 2))
    return [
        (*(int(one.owners[a]), int(one.caption_ids[a])), *(int(one.owners[b]), int(one.caption_ids[b])))
        for a, b in chosen
    ]


def test_winograd_sets_against_loops(tmp_path):
    one = sample()
    rows = rows_of(one)
    kinds = ["noun", "verb", "noun"] * 20
    names = ("image_0", "caption_0", "image_1", "caption_1")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table({**columns, "category": kinds}), tmp_path / "sets.parquet")
    found = compose_files(write(one, tmp_path), EvaluateParams(), tmp_path / "sets.parquet", "cpu")
    for name, value in two_by_two(scorer(one), rows).items():
        assert found[name] == pytest.approx(value, abs=1e-5), name
        low, high = found["intervals"][name]
        assert low < found[name] < high
    assert (found["sets"], found["chance"]["group"]) == (60, 16.666667)
    for kind, of_kind in found["categories"].items():
        wanted = two_by_two(scorer(one), [row for row, own in zip(rows, kinds, strict=True) if own == kind])
        assert of_kind["group"] == pytest.approx(wanted["group"], abs=1e-5)
        assert of_kind["sets"] == kinds.count(kind)


def test_true_and_false_captions_of_the_same_vector_are_no_preference(tmp_path):
    """What a model that does not see the order of words makes of `a dog bites a man` and `a man bites a dog`."""
    one = sample()
    same = one.captions.copy()
    same[1] = same[0]
    one = one.but(captions=same)
    rows = [(image, int(one.caption_ids[0]), int(one.caption_ids[1])) for image in one.image_ids.tolist()]
    score = scorer(one)
    rng = np.random.default_rng(0)
    others = [
        (int(one.owners[a]), int(one.caption_ids[a]), int(one.caption_ids[b])) for a, b in rng.integers(2, 60, (40, 2))
    ]
    text = "".join(
        f"{image},{right},{wrong},{kind}\n"
        for kind, own in (("order", rows), ("other", others))
        for image, right, wrong in own
    )
    (tmp_path / "sets.csv").write_text("image_id,caption_id,negative_id,category\n" + text)
    found = compose_files(write(one, tmp_path), EvaluateParams(), tmp_path / "sets.csv", "cpu")["categories"]
    assert found["order"]["accuracy"] == 0.0
    wanted = 100 * np.mean([score(image, right) > score(image, wrong) for image, right, wrong in others])
    assert found["other"]["accuracy"] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "image_id caption_id\n1 2\n",
            "expected a header with image_0, caption_0, image_1, caption_1, or with image_id",
        ),
        ("image_id caption_id negative_id\n1 2\n", "row 2 has fewer than 3 fields"),
        ("image_id caption_id negative_id\n77777 2 3\n", "row 1: image_id 77777 is not among the 24 images"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, text, message):
    (tmp_path / "sets.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        compose_files(write(sample(), tmp_path), EvaluateParams(), tmp_path / "sets.txt", "cpu")


def test_a_run_on_the_command_line(tmp_path, monkeypatch, capsys):
    from tests.command_line import caller
    from vse_pipe.artifacts import captions, images
    from vse_pipe.project import paths

    monkeypatch.chdir(tmp_path)
    call = caller(monkeypatch, capsys)
    write_params(tmp_path)
    seen, read = sides({"test": 24})
    write_run(seen, read)
    folder = paths.prepared("toy")
    folder.mkdir(parents=True)
    files, size = [f"{image}.jpg" for image in seen.ids], pa.array(np.ones(24, np.int32))
    table = {"image_id": seen.ids, "file": files, "split": seen.splits, "width": size, "height": size, "sha256": files}
    images.write(folder, pa.table(table), "pictures")
    texts = {"caption_id": read.ids, "image_id": read.image_ids, "text": ["a"] * len(read.ids), "split": read.splits}
    captions.write(folder, pa.table(texts))
    rows = [
        f"{image}.jpg {caption} {read.ids[(place + 9) % len(read.ids)]}\n"
        for place, (image, caption) in enumerate(zip(read.image_ids, read.ids, strict=True))
    ]
    (tmp_path / "sets.txt").write_text("image_id caption_id negative_id\n" + "".join(rows))
    status, out, err = call("compose", "sets.txt", "--run", "sum", "--json", "--device", "cpu")
    assert status == 0, err
    document = json.loads(out)
    vectors = dict(zip(seen.ids.tolist(), seen.vectors, strict=True))
    right = [
        vectors[image] @ read.vectors[place] > vectors[image] @ read.vectors[(place + 9) % len(read.ids)]
        for place, image in enumerate(read.image_ids.tolist())
    ]
    assert document["accuracy"] == pytest.approx(100 * np.mean(right), abs=1e-4)
    assert document["run"] == "sum"
    status, out, err = call("compose", "sets.txt", "--run", "sum")
    assert f"{document['accuracy']:.1f}" in out
    assert "chance" in out


def test_no_image_id_is_needed(tmp_path):
    one = sample()
    files = write(one, tmp_path)
    table = pq.read_table(files.captions).drop_columns(["image_id"])
    pq.write_table(table, files.captions)
    (tmp_path / "sets.txt").write_text(
        f"image_id caption_id negative_id\n{one.image_ids[0]} {one.caption_ids[0]} {one.caption_ids[1]}\n"
    )
    assert (
        compose_files(InputFiles(files.images, files.captions), EvaluateParams(), tmp_path / "sets.txt", "cpu")["sets"]
        == 1
    )


def test_sets_name_images_and_captions_by_their_text(tmp_path):
    one = sample()
    text = {
        key: np.array([f"{key}:{number}" for number in getattr(one, key)], object)
        for key in ("image_ids", "caption_ids")
    }
    owners = np.array([f"image_ids:{number}" for number in one.owners], object)
    named = write(replace(one, owners=owners, **text), tmp_path)
    (tmp_path / "plain").mkdir()
    plain = write(one, tmp_path / "plain")
    header = "image_0 caption_0 image_1 caption_1\n"
    keys = ("image_ids", "caption_ids") * 2
    rows = rows_of(one)
    (tmp_path / "sets.txt").write_text(header + "".join(f"{' '.join(map(str, row))}\n" for row in rows))
    told = [" ".join(f"{key}:{number}" for key, number in zip(keys, row, strict=True)) for row in rows]
    (tmp_path / "named.txt").write_text(header + "\n".join(told) + "\n")
    expected, found = (
        compose_files(InputFiles(files.images, files.captions), EvaluateParams(), tmp_path / sets, "cpu")
        for files, sets in ((plain, "sets.txt"), (named, "named.txt"))
    )
    where = dict.fromkeys(("file", "images", "captions"))
    assert found | where == expected | where
    assert found["sets"] == len(rows)
