"""The same pictures from a folder, from tar shards and from Parquet: the same features, and the same reasons for those without."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.extract import project, test_corpus
from tests.prepare.formats.test_webdataset import shard
from vse_pipe.artifacts import features, images
from vse_pipe.core.errors import IntegrityError
from vse_pipe.extract.stage import extract
from vse_pipe.prepare.stage import prepare
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Dataset, FeatureSet, Member, Params
from vse_pipe.project.registry import BACKBONES, FORMATS

CASES = [*test_corpus.good(), *test_corpus.bad()]
ALL_TRAIN = {"val": 0.0, "test": 0.0}


def _written(folder: Path) -> dict[str, tuple[str, dict]]:
    """The corpus in three layouts: source and options by format."""
    (folder / "photos").mkdir()
    for case in CASES:
        (folder / "photos" / case.name).write_bytes(case.content)
    with (folder / "photos.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("image", "caption"), *((case.name, "x") for case in CASES)])
    members = [
        (f"{number}.{ending}", content)
        for number, case in enumerate(CASES)
        for ending, content in (("jpg", case.content), ("txt", b"x"))
    ]
    shard(folder / "photos.tar", members)
    columns = {"image": [case.content for case in CASES], "caption": ["x"] * len(CASES)}
    pq.write_table(pa.table(columns), folder / "photos.parquet", row_group_size=7)
    return {
        "csv": ("photos.csv", {"images": "photos", **ALL_TRAIN}),
        "webdataset": ("photos.tar", ALL_TRAIN),
        "parquet": ("photos.parquet", ALL_TRAIN),
    }


def _params(kind: str, source: str, options: dict) -> Params:
    given = project.params("random_filters", batch_size=8, filters=8)
    dataset = Dataset(Member(kind, FORMATS.options(kind)(**options)), source, "skip")
    backbone = Member("random_filters", BACKBONES.options("random_filters")(batch_size=8, filters=8))
    return replace(given, datasets={kind: dataset}, features={"small": FeatureSet(kind, backbone, "skip", 0.9)})


@pytest.fixture(scope="module")
def extracted(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("sources")
        patch.chdir(root)
        made = {kind: _params(kind, *given) for kind, given in _written(root).items()}
        for kind, params in made.items():
            prepare(params, kind)
            extract(params, "small", "cpu")
        yield made


def test_features_and_reasons_do_not_depend_on_the_layout(extracted) -> None:
    folders = [paths.extracted(kind, "small") for kind in extracted]
    first, *others = [features.read(folder) for folder in folders]
    reasons = [images.read_unreadable(folder).select(["image_id", "reason"]).to_pydict() for folder in folders]
    assert first.array.shape == (len(test_corpus.good()), 16)
    assert first.failed.tolist() == list(range(len(test_corpus.good()), len(CASES)))
    for other, said in zip(others, reasons[1:], strict=True):
        assert np.array_equal(other.array, first.array)
        assert np.array_equal(other.failed, first.failed)
        assert said == reasons[0]
    for case, reason in zip(test_corpus.bad(), reasons[0]["reason"], strict=True):
        assert case.reason in reason


def test_prepare_kept_their_rows_without_a_size(extracted) -> None:
    for kind in extracted:
        table = images.read(paths.prepared(kind))
        broken = np.array(table["width"]) == 0
        assert np.flatnonzero(broken).tolist() == list(range(len(test_corpus.good()), len(CASES)))
        assert images.UNREAD not in table["sha256"].to_pylist()


@pytest.mark.parametrize("kind", ["webdataset", "parquet"])
def test_a_shard_that_changed_is_noticed(extracted, kind: str) -> None:
    name = {"webdataset": "photos.tar", "parquet": "photos.parquet"}[kind]
    whole = Path(name).read_bytes()
    content = bytearray(whole)
    place = content.index(test_corpus.RGB.tobytes()[:30]) + 5 if kind == "webdataset" else None
    try:
        if place is not None:
            content[place] ^= 1
            Path(name).write_bytes(content)
        else:
            table = pq.read_table(name)
            pq.write_table(table.take(list(reversed(range(len(table))))), name)
        (paths.extracted(kind, "small") / "meta.json").unlink()
        with pytest.raises(IntegrityError, match=r"the file changed after prepare read it"):
            extract(extracted[kind], "small", "cpu")
    finally:
        Path(name).write_bytes(whole)
