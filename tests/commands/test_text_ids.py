"""Ids that are text: the figures of numbers, and the text wherever an id is printed."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.command_line import caller, failure, json_document, output
from tests.commands.script import arguments
from tests.evaluate.files import sample, write
from vse_pipe.artifacts import captions, evaluation, images, names
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import tables
from vse_pipe.core.files import read_json
from vse_pipe.project import paths


def _image(number: int) -> str:
    return f"beach/{number}.jpg"


def _caption(number: int) -> str:
    return f"uuid:{number:x}"


@pytest.fixture
def project(made, monkeypatch, capsys):
    """A project whose data set turns out to have text for ids; embedded and ranked again."""
    prepared, columns = paths.prepared("toy"), {}
    for key, table, name in (("image_id", images, _image), ("caption_id", captions, _caption)):
        ids = table.read(prepared)[key].to_numpy()
        columns[key] = ids, pa.array([name(number) for number in ids.tolist()])
    folder = paths.evaluated("sum", "csls")
    before = read_json(folder / evaluation.METRICS), evaluation.read_ranks(folder)
    names.write(prepared, TextIds.from_columns(**columns))
    call = caller(monkeypatch, capsys, "--set", "evaluate.resamples=10")
    for command in ("embed", "evaluate"):
        output(call, command, "--run", "sum", "--device", "cpu")
    return call, *before


def test_figures_stay_and_ranks_tell_the_text(project):
    _, metrics, before = project
    folder = paths.evaluated("sum", "csls")
    assert read_json(folder / evaluation.METRICS) == metrics
    ranks = evaluation.read_ranks(folder)
    assert ranks.select(before.column_names).equals(before)
    for row in ranks.to_pylist():
        asking, asked = (_image, _caption) if row["direction"] == "image_to_text" else (_caption, _image)
        assert (row["query_name"], row["image_name"]) == (asking(row["query_id"]), _image(row["image_id"]))
        assert row["top_names"] == [asked(item) for item in row["top"]]
    for row in evaluation.read_occurrence(folder).to_pylist():
        assert row["item_name"] == (_caption if row["direction"] == "image_to_text" else _image)(row["item_id"])


def test_search_shows_and_takes_the_text(project):
    call = project[0]
    told = json_document(call, "search", "red dog", "--run", "sum", "--json", "--k", "3")
    found = [hit["image_id"] for hit in told["hits"]]
    assert all(one.startswith("beach/") for one in found)
    told = json_document(call, "search", f"image:{found[0]}", "--run", "sum", "--json", "--k", "2")
    assert told["query"] == f"image {found[0]}"
    assert all(hit["caption_id"].startswith("uuid:") for hit in told["hits"])
    assert found[0] in call("search", "red dog", "--run", "sum")[1]
    err = failure(call, 3, "search", "image:beach/none.jpg", "--run", "sum")
    assert "data set 'toy' has no image 'beach/none.jpg'" in " ".join(err.split())


def test_ids_that_are_numbers_and_lines_that_are_split_at_any_space(made, monkeypatch, capsys, tmp_path):
    """Readers do so: one that cannot be broken is a space to Python."""
    call, path = caller(monkeypatch, capsys), paths.embedded("sum")
    err = failure(call, 2, "search", "image:cat.jpg", "--run", "sum")
    assert "image_id must be a whole number, got 'cat.jpg'" in err
    ids = pq.read_table(path / "images.parquet")["image_id"].to_numpy()
    told = TextIds.from_columns(image_id=(ids, pa.array([f"a\u00a0{number}" for number in ids.tolist()])))
    for folder in (path, paths.prepared("toy")):
        names.write(folder, told)
    err = failure(call, 3, *EXPORT, "trec", "--out", tmp_path / "out")
    assert "holds a space, at which lines are split" in " ".join(err.split())


EXPORT = ("export", "--run", "sum", "--inference", "csls", "--to")


@pytest.mark.parametrize("to", ["parquet", "npy", "trec"])
def test_exports_hold_the_text(project, tmp_path, to):
    out = tmp_path / "out"
    output(project[0], *EXPORT, to, "--out", out)
    test = images.read(paths.prepared("toy"))
    expected = [_image(number) for number in test.filter(pc.equal(test["split"], "test"))["image_id"].to_pylist()]
    if to == "npy":
        assert np.load(out / "items_ids.npy", allow_pickle=False).tolist() == expected
    elif to == "trec":
        queries, _, items, *_ = zip(*(line.split() for line in (out / "run.txt").read_text().splitlines()), strict=True)
        assert {*items} == {*expected}
        assert all(one.startswith("uuid:") for one in queries)
    else:
        assert pq.read_table(out / "items.parquet")["id"].to_pylist() == expected


def test_files_with_text_have_the_figures_of_the_same_files_with_numbers(call, tmp_path):
    """Intervals too where the numbers come in the order of the rows, as running numbers do."""
    one = sample()
    place = {number: at for at, number in enumerate(one.image_ids.tolist())}
    running = {name: np.arange(len(getattr(one, name))) for name in ("image_ids", "caption_ids")}
    running["owners"] = np.array([place[number] for number in one.owners.tolist()])
    (tmp_path / "numbers").mkdir()
    both = ("--json", "--inference", "nns,csls")
    plain = json_document(call, "rank", *arguments(write(one.but(**running), tmp_path / "numbers")), *both)
    called = {
        key: np.array([_image(number) for number in getattr(one, key)], object) for key in ("image_ids", "owners")
    }
    called["caption_ids"] = np.array([_caption(number) for number in one.caption_ids], object)
    files = write(replace(one, **called), tmp_path)
    out, nowhere = tmp_path / "found", {"images": 0, "captions": 0}
    told = json_document(call, "rank", *arguments(files), *both, "--out", out)
    assert {name: found | nowhere for name, found in told.items()} == {key: one | nowhere for key, one in plain.items()}
    row = next(row for row in evaluation.read_ranks(out / "nns").to_pylist() if row["direction"] == "image_to_text")
    place = int(np.flatnonzero(called["image_ids"] == row["query_name"])[0])
    assert row["top_names"][0] == called["caption_ids"][int(one.cosines()[place].argmax())]
    pairs = [f"{image},{caption},1" for image, caption in zip(called["owners"], called["caption_ids"], strict=True)]
    (tmp_path / "judged.csv").write_text("\n".join(["image_id,caption_id,grade", *pairs]) + "\n")
    judged = "--set", f"evaluate.judgements={tmp_path / 'judged.csv'}"
    told, _ = output(call, *judged, "rank", *arguments(files), "--json", "--inference", "nns")
    assert json.loads(told)["judged"]["text_to_image"]["kendall"]["judgements"] == len(pairs)


def test_judged_queries_and_a_bank_go_by_their_names(project, tmp_path):
    """Running numbers of another folder mean other pictures; the same name with the same vector is the same picture."""
    call, *_ = project
    test = captions.read(paths.prepared("toy")).filter(pc.field("split") == "test").to_pylist()
    rows = [f"{_image(row['image_id'])},{_caption(row['caption_id'])},1" for row in test]
    (tmp_path / "judged.csv").write_text("\n".join(["image_id,caption_id,grade", *rows]) + "\n")
    output(call, "--set", f"evaluate.judgements={tmp_path / 'judged.csv'}", "evaluate", "--run", "sum")
    metrics = read_json(paths.evaluated("sum", "csls") / evaluation.METRICS)
    assert metrics["judged"]["image_to_text"]["kendall"]["judgements"] == len(rows)
    found = tables.read(paths.evaluated("sum", "csls") / evaluation.JUDGED, evaluation.JUDGED_SCHEMA).to_pylist()
    asked = {row["query_name"] for row in found if row["direction"] == "image_to_text"}
    assert asked <= {_image(row["image_id"]) for row in test}
    bank = tmp_path / "bank"
    shutil.copytree(paths.embedded("sum"), bank)
    known, texts = names.read(bank), {}
    for key in names.KEYS:
        part = known.table.filter(pc.field("key") == key)
        texts[key] = part["id"].to_numpy() + 100_000, part["name"].combine_chunks()
    names.write(bank, TextIds.from_columns(**texts))
    for name in ("images.parquet", "captions.parquet"):
        table = pq.read_table(bank / name)
        for key in {*names.KEYS} & {*table.column_names}:
            at = table.schema.get_field_index(key)
            table = table.set_column(at, table.schema.field(key), pc.add(table[key], 100_000))
        pq.write_table(table, bank / name, write_page_checksum=True)
    err = failure(call, 3, "--set", f"evaluate.bank={bank}", "evaluate", "--run", "sum")
    assert "images that are ranked are in the bank" in " ".join(err.split())
