"""`vse-pipe index`, from a folder of pictures to a search, `search`, and what `serve` prepares before a visitor."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.command_line import caller, failure, json_document, output
from tests.commands.script import COMMAND, environment, succeed
from tests.prepare._data import pictures
from tests.search import project as artefacts
from vse_pipe.artifacts import images
from vse_pipe.core.files import partial_folder
from vse_pipe.project import paths
from vse_pipe.project.params.document import read_document


def _project(searched: Path, folder: Path) -> Path:
    """A copy of a small project with trained runs, a folder of pictures beside it."""
    root = folder / "project"
    shutil.copytree(searched, root)
    artefacts.params(root, runs={name: artefacts.RUNS[name] for name in ("sum", "scan", "given")}, ensembles={})
    photos(folder / "My Photos", NAMES)
    return root


@pytest.fixture
def call(searched, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(_project(searched, tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    return caller(monkeypatch, capsys)


@pytest.fixture(scope="module")
def indexed(searched, tmp_path_factory) -> tuple[Path, str]:
    """A project whose pictures are indexed, for tests that only look, and what the command said."""
    root = _project(searched, tmp_path_factory.mktemp("indexed"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        return root, succeed(patch, *INDEX)


@pytest.fixture
def look(indexed, monkeypatch, capsys):
    """The command line in the project ``indexed``."""
    monkeypatch.chdir(indexed[0])
    monkeypatch.setenv("COLUMNS", "100")
    return caller(monkeypatch, capsys)


ELSEWHERE = "run 'given' reads features 'plain' (precomp), which were computed elsewhere"
NAMES = ["a b.png", "deep/c.png", "d.png", "e'\".png", "\u00e9.png"]
INDEX, CPU = ("index", "../My Photos", "--run", "sum", "--device", "cpu"), ("--device", "cpu")


def photos(folder: Path, names: list[str]) -> None:
    """Of a day long ago."""
    pictures(folder, names)
    for name in names:
        os.utime(folder / name, (1_600_000_000, 1_600_000_000))


def contents(*folders: Path) -> dict[str, bytes]:
    found = [path for folder in folders for path in sorted(folder.rglob("*.*"))]
    return {str(path): path.read_bytes() for path in found if path.is_file()}


def _outputs() -> dict[str, bytes]:
    extracted = paths.extracted("My-Photos", "filters_My-Photos")
    return contents(paths.prepared("My-Photos"), extracted, paths.embedded("My-Photos"))


def test_one_command_makes_a_folder_searchable(indexed, look):
    told = " ".join(indexed[1].split())
    said = (
        "index: params.yaml has datasets.My-Photos, features.filters_My-Photos, transfers.My-Photos now",
        "prepare My-Photos: test 5 images; ",
        "embed My-Photos: 5 images and 0 captions",
        'index My-Photos: 5 pictures; `vse-pipe search "..." --run My-Photos` searches them',
    )
    assert [words for words in said if words not in told] == []
    document, source = read_document(Path("params.yaml")), str(Path("../My Photos").resolve())
    assert document["datasets"]["My-Photos"] == {"format": "folder", "source": source, "on_error": "skip"}
    filters = {**document["features"]["filters"], "dataset": "My-Photos", "max_errors": 0.5}
    assert document["features"]["filters_My-Photos"] == filters
    assert document["transfers"] == {
        "My-Photos": {"run": "sum", "dataset": "My-Photos", "features": "filters_My-Photos"}
    }
    found = json_document(look, "search", "a red disc", "--json", "--k", 9, *CPU)
    assert {hit["image_id"] for hit in found["hits"]} == set(NAMES)
    assert all(hit["file"] == hit["image_id"] for hit in found["hits"])
    assert (found["searched"], found["chosen"]) == (5, "the only one of pictures without captions")


def test_called_again_it_finds_its_entries_and_only_what_changed(call, tmp_path):
    call(*INDEX)
    before, params = _outputs(), Path("params.yaml").read_bytes()
    for again in (("../My Photos",), (), ("../My Photos", "--run", "sum"), ("../My Photos", "--run", "My-Photos")):
        assert (call("index", *again, *CPU)[0], _outputs(), Path("params.yaml").read_bytes()) == (0, before, params)
    photos(tmp_path / "My Photos", ["new.png"])
    (tmp_path / "My Photos/d.png").unlink()
    assert call("index", *CPU)[0] == 0
    grown = _outputs()
    assert grown != before
    assert images.read(paths.prepared("My-Photos"))["file"].to_pylist() == sorted({*NAMES, "new.png"} - {"d.png"})
    for folder in ("prepare/My-Photos", "extract/My-Photos", "embed/My-Photos"):
        shutil.rmtree(paths.DATA / folder)
    assert (call("index", *CPU)[0], _outputs()) == (0, grown)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "index what? params.yaml has no folder of pictures yet; name one: vse-pipe index FOLDER"),
        (("../My Photos", "--run", "given"), ELSEWHERE),
        (("../My Photos", "--run", "sum", "--name", "toy"), "params.yaml has 'toy' already, which is something else"),
    ],
)
def test_wrong_questions_change_nothing(call, arguments, message):
    before, err = Path("params.yaml").read_bytes(), failure(call, 2, "index", *arguments)
    assert (message in err, err.count("\n")) == (True, 1), err
    assert Path("params.yaml").read_bytes() == before


@pytest.mark.acceptance
def test_killed_it_goes_on(call, tmp_path):
    """SIGKILL at several moments, then the same command again: the bytes of one that nobody disturbed."""
    photos(tmp_path / "My Photos", [f"{number}.png" for number in range(200)])
    document = read_document(Path("params.yaml"))
    document["features"]["filters"] |= {"batch_size": 4, "shard_size": 4}
    artefacts.params(Path(), **document)
    shards = paths.extracted("My-Photos", "filters_My-Photos") / "shards"
    moments = [
        lambda: partial_folder(paths.prepared("My-Photos")).exists(),
        lambda: sum(name.startswith("0") for _, _, names in os.walk(shards) for name in names) > 10,
        lambda: paths.embedded("My-Photos").with_name("My-Photos.lock").exists() and not shards.exists(),
    ]
    command = [*COMMAND, "index", str(tmp_path / "My Photos"), "--run", "sum", *CPU]
    for moment in moments:
        process = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
        while not moment() and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    output(call, "index", *CPU)
    found = _outputs()
    for stage in ("prepare", "extract", "embed"):
        shutil.rmtree(paths.DATA / stage / "My-Photos")
    assert (call("index", *CPU)[0], _outputs()) == (0, found)


@pytest.mark.acceptance
def test_a_pretrained_pair_searches_at_once_as_open_clip_itself_does(call, tmp_path):
    pytest.importorskip("open_clip", reason="the extra open_clip is not installed")
    from tests.pair_project import named, write_model

    found, folder = named(write_model("clip")), tmp_path / "My Photos"
    pair = ("--model", found["model"], "--weights", found["weights"])
    Path("params.yaml").unlink()
    assert call("init", tmp_path / "fresh")[0] == 0
    shutil.move("models", tmp_path / "fresh")
    os.chdir(tmp_path / "fresh")
    output(call, "index", folder, *pair, *CPU)
    before = contents(paths.embedded("My-Photos"))
    hits = json_document(call, "search", "a red dog", "--json", *CPU)["hits"]
    found = {hit["image_id"]: hit["score"] for hit in hits}
    assert found == pytest.approx(_by_hand("a red dog", folder), abs=1e-4)
    for again in ((), (folder,), (folder, *pair), (folder, "--run", "My-Photos")):
        assert (call("index", *again, *CPU)[0], contents(paths.embedded("My-Photos"))) == (0, before)
    photos(folder, ["new.png"])
    assert "embed My-Photos: 6 images" in output(call, "index", *CPU)[1]
    assert json_document(call, "search", "a red dog", "--json", *CPU)["searched"] == 6
    for command in (("evaluate", *CPU), ("check",), ("report",), ("check",)):
        output(call, *command)
    assert json.loads(Path("reports/metrics.json").read_text()) == {}


def _by_hand(sentence: str, folder: Path) -> dict[str, float]:
    """Cosines of open_clip's own vectors."""
    import open_clip
    import torch
    from PIL import Image
    from safetensors.torch import load_file

    from tests.pair_project import MODELS
    from vse_pipe.extract.pair import folder as opened

    with opened(MODELS["clip"]) as place:
        model, _, transform = open_clip.create_model_and_transforms(place, load_weights=False)
        tokens = open_clip.get_tokenizer(place)([sentence])
    model.load_state_dict(load_file("models/clip/open_clip_model.safetensors"))
    with torch.inference_mode():
        said = model.eval().encode_text(tokens, normalize=True)[0]
        pictures_ = {name: transform(Image.open(folder / name).convert("RGB"))[None] for name in NAMES}
        return {name: float(model.encode_image(one, normalize=True)[0] @ said) for name, one in pictures_.items()}


RED = ("search", "a red disc", "--run", "sum")


def test_html_replaces_nothing_but_its_own_pages_and_no_results_are_no_search(call):
    before, err = Path("params.yaml").read_bytes(), failure(call, 2, *RED, "--html", "params.yaml")
    assert err.startswith("error: --html: ")
    assert err.endswith("params.yaml exists and is not a page of `vse-pipe search`; choose another name\n")
    assert Path("params.yaml").read_bytes() == before
    for _ in range(2):
        assert call(*RED, "--html", "found.html")[0] == 0
    assert "--k" in failure(call, 2, "search", "a red disc", "--k", 0)
    told = json_document(call, *RED, "--inference", "csls", "--json", "--k", 4)
    assert [hit["rank"] for hit in told["hits"]] == [1, 2, 3, 4]
    said = {"run": "sum", "inference": "csls", "split": "test", "direction": "text_to_image", "searched": 10}
    assert {key: told[key] for key in (*said, "unknown")} == {**said, "unknown": []}
    assert told["correction"]["bank"] == "test"


def test_a_photo_and_an_image_of_the_data_set_give_captions(call, tmp_path):
    out, _ = output(call, "search", "pictures/5.png", "--run", "sum", "--html", "out.html")
    assert "caption_id" in out
    assert "The image asked with: 5.png" in (tmp_path / "project/out.html").read_text()
    told = json_document(call, "search", "image:5", "--run", "sum", "--json")
    assert (told["query"], told["hits"][0]["caption_id"] is None) == ("image 5", False)
    # A picture alone is the file, and in quotes it is words.
    out, err = output(call, "search", "pictures/5.png", "--run", "sum", "--json")
    assert "pictures/5.png: searched with the picture in this file; to search for these words, write" in err
    assert json.loads(out)["query"] == "5.png"
    told = json_document(call, "search", '"a red disc.png"', "--run", "sum", "--json")
    assert told["direction"] == "text_to_image"


def test_a_condition_narrows_the_answer_until_nothing_fits(call):
    given = (*RED, "--split", "all", "--where", "split=val")
    _, err = output(call, *given)
    assert "8 of 38 images fit split=val" in err
    told = json_document(call, *given, "--json")
    assert told["narrowed"] == {"left": 8, "where": ["split=val"]}
    out, err = output(call, *RED, "--where", "width=5000")
    assert (out, err.endswith("0 of 10 images fit width=5000\nnothing fits\n")) == ("", True)


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        (("a red disc",), 2, "search which run? give --run: sum"),
        (
            ("disc + pictures/5.png", "--run", "given"),
            2,
            "data/train/given: features 'precomp' were computed elsewhere",
        ),
        (("a box + gone.jpg", "--run", "sum"), 4, "gone.jpg: no such file"),
    ],
)
def test_what_cannot_be_answered_is_one_line_and_its_status(call, given, status, message):
    found, out, err = call("search", *given)
    assert (found, out, err.count("\n")) == (status, "", 1)
    assert err.startswith(f"error: {message}")
