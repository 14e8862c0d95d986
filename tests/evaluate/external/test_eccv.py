import importlib.util
import sys
import warnings

import numpy as np
import pytest

from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.evaluate.external import readers
from vse_pipe.ranking.metrics.recall import Truth

installed = pytest.mark.skipif(
    importlib.util.find_spec("eccv_caption") is None, reason="needs the package eccv_caption (extra: eccv)"
)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of that name with four judgements, whose code must not run."""
    data = tmp_path / "eccv_caption" / "data"
    data.mkdir(parents=True)
    (tmp_path / "eccv_caption" / "__init__.py").write_text("raise RuntimeError('imported')")
    (data / "eccv_image_to_caption.json").write_text('{"7": [70, 71], "8": [71]}')
    (data / "eccv_caption_to_image.json").write_text('{"70": [7]}')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "eccv_caption", raising=False)
    return data


def test_each_direction_has_its_own_judgements(package):
    found = readers.read_qrels("eccv_caption").pairs
    assert [ids.tolist() for ids in found["image_to_text"]] == [[7, 7, 8], [70, 71, 71]]
    assert [ids.tolist() for ids in found["text_to_image"]] == [[70], [7]]


def test_a_damaged_package_is_named(package):
    (package / "eccv_caption_to_image.json").write_text("{")
    with pytest.raises(InputError, match=r"eccv_caption_to_image.json: not a JSON document"):
        readers.read_eccv("eccv_caption")


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingResource, match=r"--qrels cxc takes .* eccv_caption.*pip install 'vse-pipe\[eccv\]'"):
        readers.read_eccv("cxc")


@installed
@pytest.mark.parametrize(("name", "queries"), [("eccv_caption", (1261, 1332)), ("cxc", (5000, 24972))])
def test_the_collections_have_the_published_number_of_queries(name, queries):
    found = readers.read_eccv(name).pairs
    assert (len(set(found["image_to_text"][0])), len(set(found["text_to_image"][0]))) == queries


@installed
@pytest.mark.parametrize(("name", "short"), [("eccv_caption", "eccv"), ("cxc", "cxc")])
@pytest.mark.parametrize(("way", "direction"), [("i2t", "image_to_text"), ("t2i", "text_to_image")])
def test_recall_is_that_of_the_package(name, short, way, direction):
    """One item retrieved for each COCO test query, a correct one in about half of the cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for two packages that it can do without
        from eccv_caption import Metrics
    metrics = Metrics()
    rng = np.random.default_rng(0)
    queries, items = (np.array(sorted(metrics.coco_gts[side])) for side in (way, way[::-1]))
    correct = getattr(metrics, f"{short}_gts")[way]
    best = rng.choice(items, len(queries))
    best = [
        rng.choice(correct[query]) if query in correct and rng.random() < 0.5 else one
        for query, one in zip(queries.tolist(), best, strict=True)
    ]
    ranked = {way: {query: [one] for query, one in zip(queries.tolist(), best, strict=True)}}
    expected = getattr(metrics, f"{short}_recalls")(ranked, way, K=1)[way]
    assert 0.4 < expected < 0.6
    truth = Truth.by_pairs(queries, items, *readers.read_eccv(name).pairs[direction])
    hits = truth.holds(np.arange(len(queries)), np.searchsorted(items, best))
    assert hits[truth.judged()].mean() == pytest.approx(expected, abs=1e-12)
