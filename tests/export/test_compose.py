"""`vse-pipe compose`: compositional sets against loops; equal scores are no preference."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command_line import caller, json_document, output
from tests.evaluate.embedded import sides
from tests.evaluate.embedded import write as write_run
from tests.evaluate.files import Files, Sample, sample, write
from tests.toy_project import write_params
from vse_pipe.artifacts import captions, images
from vse_pipe.core.errors import InputError
from vse_pipe.export.compose import compose_vectors
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams


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
    known = list(zip(one.owners.tolist(), one.caption_ids.tolist(), strict=True))
    return [(*known[a], *known[b]) for a, b in np.random.default_rng(2).integers(0, len(known), (count, 2))]


def composed(one: Sample | Files, folder, sets: str, text: str | None = None) -> dict:
    if text is not None:
        (folder / sets).write_text(text)
    files = write(one, folder) if isinstance(one, Sample) else one
    return compose_vectors(files.sources(), EvaluateParams(), folder / sets, "cpu")


WINOGRAD, PAIRED = ("image_0", "caption_0", "image_1", "caption_1"), "image_id caption_id negative_id\n"


def test_winograd_sets_against_loops(tmp_path):
    one = sample()
    rows, kinds = rows_of(one), ["noun", "verb", "noun"] * 20
    columns = dict(zip(WINOGRAD, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table({**columns, "category": kinds}), tmp_path / "sets.parquet")
    found = composed(one, tmp_path, "sets.parquet")
    for name, value in two_by_two(scorer(one), rows).items():
        assert found[name] == pytest.approx(value, abs=1e-5), name
        low, high = found["intervals"][name]
        assert low < found[name] < high
    assert (found["sets"], found["chance"]["group"]) == (60, 16.666667)
    for kind, of_kind in found["categories"].items():
        wanted = two_by_two(scorer(one), [row for row, own in zip(rows, kinds, strict=True) if own == kind])
        assert (of_kind["group"], of_kind["sets"]) == (pytest.approx(wanted["group"], abs=1e-5), kinds.count(kind))


def test_true_and_false_captions_of_the_same_vector_are_no_preference(tmp_path):
    """What a model that does not see the order of words makes of `a dog bites a man` and `a man bites a dog`."""
    one = sample()
    same = one.captions.copy()
    same[1] = same[0]
    one = one.but(captions=same)
    ids, owners, score = one.caption_ids.tolist(), one.owners.tolist(), scorer(one)
    rows = [(image, ids[0], ids[1], "order") for image in one.image_ids.tolist()]
    others = [(owners[a], ids[a], ids[b], "other") for a, b in np.random.default_rng(0).integers(2, 60, (40, 2))]
    header = ("image_id", "caption_id", "negative_id", "category")
    text = "".join(",".join(map(str, row)) + "\n" for row in (header, *rows, *others))
    found = composed(one, tmp_path, "sets.csv", text)["categories"]
    assert found["order"]["accuracy"] == 0.0
    wanted = 100 * np.mean([score(image, right) > score(image, wrong) for image, right, wrong, _ in others])
    assert found["other"]["accuracy"] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image_id caption_id\n1 2\n", f"expected a header with {', '.join(WINOGRAD)}, or with image_id"),
        (f"{PAIRED}77777 2 3\n", "row 1: image_id 77777 is not among the 24 images"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        composed(sample(), tmp_path, "sets.txt", text)


def test_a_run_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.chdir(tmp_path)
    call = caller(monkeypatch, capsys)
    write_params(tmp_path)
    seen, read = sides({"test": 24})
    write_run(seen, read)
    folder = paths.prepared("toy")
    files, size = [f"{image}.jpg" for image in seen.ids], pa.array(np.ones(24, np.int32))
    table = {"image_id": seen.ids, "file": files, "split": seen.splits, "width": size, "height": size, "sha256": files}
    images.write(folder, pa.table(table), "pictures")
    texts = {"caption_id": read.ids, "image_id": read.image_ids, "text": ["a"] * len(read.ids), "split": read.splits}
    captions.write(folder, pa.table(texts))
    wrong = np.roll(np.arange(len(read.ids)), -9)
    rows = zip(read.image_ids.tolist(), read.ids.tolist(), read.ids[wrong].tolist(), strict=True)
    (tmp_path / "sets.txt").write_text(PAIRED + "".join(f"{one}.jpg {right} {other}\n" for one, right, other in rows))
    document = json_document(call, "compose", "sets.txt", "--run", "sum", "--json", "--device", "cpu")
    seen_vectors = seen.vectors[[seen.ids.tolist().index(image) for image in read.image_ids]]
    right = (seen_vectors * read.vectors).sum(1) > (seen_vectors * read.vectors[wrong]).sum(1)
    assert (document["accuracy"], document["run"]) == (pytest.approx(100 * np.mean(right), abs=1e-4), "sum")
    out, _ = output(call, "compose", "sets.txt", "--run", "sum")
    assert (f"{document['accuracy']:.1f}" in out, "chance" in out) == (True, True)
