"""docs/search.md with the real engine: the commands it shows are run against a small trained run, in their order."""

import contextlib
import json
import re
import shlex
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest
from PIL import Image

from tests.docs.pages import section
from tests.rules.sources import ROOT
from tests.search.serve.standin import started
from tests.toy_project import PARAMS, load_params
from vse_pipe.embed import stage as embed
from vse_pipe.extract import stage as extract
from vse_pipe.extract import text_stage
from vse_pipe.inject import stage as inject
from vse_pipe.prepare import stage as prepare
from vse_pipe.train import stage as train

pytestmark = pytest.mark.acceptance

PAGE = section((ROOT / "docs/search.md").read_text(encoding="utf-8"), "In the browser")
SHOWN = [line for block in re.findall(r"^```bash\n(.*?)^```$", PAGE, re.M | re.S) for line in block.splitlines()]
VSE_PIPE = "from vse_pipe.cli import main; main()"
SECTIONS = {
    "datasets": {"toy": {"format": "shapes", "source": "unused", "train": 40, "val": 10, "test": 12}},
    "features": {"plain": {"dataset": "toy", "backbone": "random_filters"}},
    "runs": {"hal": {**PARAMS["runs"]["sum"], "loss": "hal"}},
    "train": {**PARAMS["train"], "epochs": 1},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    params = load_params(root, **SECTIONS)
    with contextlib.chdir(root):
        prepare.prepare(params, "toy")
        extract.extract(params, "plain", "cpu")
        text_stage.extract_texts(params, "words")
        inject.inject(params, "clean")
        train.train(params, "hal", "cpu")
        embed.embed(params, "hal", "cpu")
    Image.new("RGB", (300, 200), "teal").save(root / "photo.jpg")
    return root


@pytest.fixture(scope="module")
def url(project):
    (command,) = [line for line in SHOWN if line.startswith("vse-pipe serve ")]
    with started(project, "-c", VSE_PIPE, *shlex.split(command)[1:]) as (address, process):
        said = process.said.splitlines()[-2]
        assert re.fullmatch(r"run hal under nns, csls, split test: 12 images, \d+ captions", said)
        yield address


@pytest.fixture(scope="module")
def health(url) -> dict:
    with urllib.request.urlopen(f"{url}health") as answer:
        return json.load(answer)


def curl(command: str, url: str, project, image_id: int = 0) -> dict:
    here = command.replace("http://127.0.0.1:8000/", url).replace("image_id=17", f"image_id={image_id}")
    done = subprocess.run([*shlex.split(here), "-sS"], cwd=project, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl installed")
def test_every_request_shown_is_answered(url, project, health):
    by_text, by_image, by_photo, served = [line for line in SHOWN if line.startswith("curl ")]
    assert curl(served, url, project) == health
    found = curl(by_text, url, project)
    hits = found["hits"]
    assert (found["query"], found["inference"], len(hits)) == ("a red circle", "csls", 3)
    assert all(hit["caption_id"] is None for hit in hits)
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    for answer in (curl(by_image, url, project, found["hits"][0]["image_id"]), curl(by_photo, url, project, 0)):
        assert (answer["inference"], len(answer["hits"])) == ("nns", 3)
        assert all(hit["caption_id"] is not None and hit["text"] for hit in answer["hits"])
    names = ("query", "run", "inference", "seconds", "unknown", "notes", "hits", *hits[0])
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_page_finds_pictures_of_the_data_set(url, health):
    with urllib.request.urlopen(f"{url}?text=a+circle+and+a+zyzzyva&k=100") as answer:
        html = answer.read().decode()
    pictures = re.findall(r'src="(/picture/\d+)"', html)
    assert len(pictures) == health["images"] == 12
    assert '<q dir="auto">zyzzyva</q>' in html
    with urllib.request.urlopen(url.rstrip("/") + pictures[0]) as answer:
        assert answer.read(12)[8:] == b"WEBP"
