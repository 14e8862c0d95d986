"""vse-pipe index: a folder of pictures without captions, from nothing to a search."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import caller, failure, json_document, output
from tests.commands.script import COMMAND, environment, succeed
from tests.prepare._data import picture, pictures
from tests.report import project
from tests.tools.search import project as artefacts
from vse_pipe.artifacts import embeddings, evaluation, features, images
from vse_pipe.core.errors import UsageError
from vse_pipe.core.files import partial
from vse_pipe.project import paths
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Dataset, Member
from vse_pipe.tools import index
from vse_pipe.tools.search.engine import Engine
from vse_pipe.tools.search.query import TO_IMAGES


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
        return root, succeed(patch, "index", "../My Photos", "--run", "sum", "--device", "cpu")


@pytest.fixture
def look(indexed, monkeypatch, capsys):
    """The command line in the project ``indexed``."""
    monkeypatch.chdir(indexed[0])
    monkeypatch.setenv("COLUMNS", "100")
    return caller(monkeypatch, capsys)


NAMES = ["a b.png", "deep/c.png", "d.png", "e'\".png", "\u00e9.png"]
LONG_AGO = 1_600_000_000


def photos(folder: Path, names: list[str]) -> None:
    pictures(folder, names)
    for name in names:
        os.utime(folder / name, (LONG_AGO, LONG_AGO))


def contents(*folders: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.*")) if path.is_file()
    }


def _side(run: str) -> embeddings.Side:
    return embeddings.read(paths.embedded(run) / embeddings.IMAGES)


def _outputs() -> dict[str, bytes]:
    return contents(
        paths.prepared("My-Photos"), paths.extracted("My-Photos", "filters_My-Photos"), paths.embedded("My-Photos")
    )


def test_one_command_makes_a_folder_searchable(indexed, look):
    told = " ".join(indexed[1].split())
    assert "index: params.yaml has datasets.My-Photos, features.filters_My-Photos, transfers.My-Photos now" in told
    assert "prepare My-Photos: test 5 images; repeated: 0 images; " in told
    assert "embed My-Photos: 5 images, " in told
    assert "0 captions" not in told
    assert 'index My-Photos: 5 pictures; `vse-pipe search "..." --run My-Photos` searches them' in told
    document = read_document(Path("params.yaml"))
    source = str(Path("../My Photos").resolve())
    assert document["datasets"]["My-Photos"] == {"format": "folder", "source": source, "on_error": "skip"}
    assert document["features"]["filters_My-Photos"] == {
        **document["features"]["filters"],
        "dataset": "My-Photos",
        "max_errors": 0.5,
    }
    assert document["transfers"] == {"My-Photos": {"run": "sum", "dataset": "My-Photos"}}
    found = json_document(look, "search", "a red disc", "--json", "--k", 9, "--device", "cpu")
    assert {hit["image_id"] for hit in found["hits"]} == set(NAMES)
    assert [hit["file"] for hit in found["hits"]] == [hit["image_id"] for hit in found["hits"]]
    assert (found["searched"], found["chosen"]) == (5, "the only one of pictures without captions")


def test_scores_are_those_of_each_picture_seen_alone(look):
    hits = json.loads(look("search", "a red disc", "--json", "--device", "cpu")[1])["hits"]
    assert [hit["score"] for hit in hits] == sorted((hit["score"] for hit in hits), reverse=True)
    engine = Engine.open(load(paths.PARAMS), "sum", device="cpu")
    asked = engine._network.sentence("a red disc").side
    for hit in hits:
        seen = engine._network.photo((Path("../My Photos") / hit["file"]).read_bytes(), "it").side
        assert hit["score"] == pytest.approx(float((seen * asked).sum()), abs=1e-5)


def test_the_table_has_no_column_of_captions_and_hubs_are_corrected_by_those_of_the_run(look):
    out, _ = output(look, "search", "a red disc", "--html", "found.html", "--device", "cpu")
    assert "caption" not in out
    assert "image_id" not in out
    assert "deep/c.png" in out
    assert "deep/c.png" in Path("found.html").read_text()
    status, out, err = look("search", "--image-id", "deep/c.png", "--device", "cpu")
    assert (status, "d.png" in out) == (0, True), err
    given = ("-S", "evaluate.bank=data/embed/sum", "search", "a red disc", "--inference", "csls")
    assert json_document(look, *given, "--json", "--device", "cpu")["correction"]["bank"] == "data/embed/sum"


def test_how_probable_a_match_is_was_learnt_on_val_of_the_run(call):
    call("index", "../My Photos", "--run", "sum", "--device", "cpu")
    found = json_document(call, "search", "a red disc", "--probability", "--json", "--device", "cpu")
    own = json.loads(call("search", "a red disc", "--probability", "--json", "--run", "sum", "--device", "cpu")[1])
    assert found["calibration"]["run"] == "sum"
    keys = ("run", "split", "queries", "pairs", "base_rate")
    assert [found["calibration"][key] for key in keys] == [own["calibration"][key] for key in keys]
    engine = Engine.open(load(paths.PARAMS), "sum", device="cpu")
    for hit in found["hits"]:
        assert hit["probability"] == pytest.approx(
            float(engine.calibration(TO_IMAGES)(np.array([hit["score"]]))[0]), abs=1e-6
        )
    assert "queries of val of run sum" in call("search", "a red disc", "--probability", "--device", "cpu")[2]
    shutil.rmtree(paths.embedded("sum"))
    status, _, err = call("search", "a red disc", "--min-probability", 0.5, "--device", "cpu")
    assert (status, "a probability of a match is learnt from val, of 'sum' where 'My-Photos' has none" in err) == (
        4,
        True,
    )


@pytest.mark.parametrize("run", ["sum", "scan"])
def test_all_commands_go_through_without_captions(call, run):
    assert call("index", "../My Photos", "--run", run, "--name", "mine", "--device", "cpu")[0] == 0
    for command in (
        ("evaluate", "--run", run, "--inference", "nns"),
        ("evaluate", "--run", "mine"),
        ("prepare", "--dataset", "mine"),
        ("embed", "--run", "mine", "--device", "cpu"),
        ("search", "a red disc", "--run", "mine", "--split", "all"),
    ):
        output(call, *command)
    assert json.loads((paths.evaluations("mine") / evaluation.UNMEASURED).read_text())["why"] == "no captions"
    status, _, err = call("export", "--run", "mine", "--inference", "nns", "--to", "npy", "--out", "vectors")
    assert (status, "compares by" in err) == ((0, False) if run == "sum" else (2, True)), err
    assert "mine" not in " ".join(call("check")[1].split("data/prepare/toy")[0].split())


def test_what_needs_captions_says_so_in_a_line(call):
    call("index", "../My Photos", "--run", "sum", "--name", "mine", "--device", "cpu")
    document = read_document(Path("params.yaml"))
    document["texts"]["of_mine"] = {"dataset": "mine", "method": "words"}
    document["noises"]["of_mine"] = {"dataset": "mine", "protocol": "as_is"}
    artefacts.params(Path(), **document)
    status, _, err = call("extract", "--texts", "of_mine")
    assert (status, len(err.splitlines())) == (3, 1)
    assert err.startswith("error: extract of_mine: data set 'mine' has no captions; ")
    status, _, err = call("inject", "--noise", "of_mine")
    assert (status, err) == (0, "inject of_mine: data set 'mine' has no captions, so there are no pairs\n")
    status, _, err = call("search", "a red disc", "--run", "mine", "--inference", "csls", "--device", "cpu")
    assert (status, len(err.splitlines())) == (3, 1), err


def test_called_again_it_finds_its_entries_and_only_what_changed(call, tmp_path):
    call("index", "../My Photos", "--run", "sum", "--device", "cpu")
    before, params = _outputs(), Path("params.yaml").read_bytes()
    for again in (("../My Photos",), (), ("../My Photos", "--run", "sum"), ("../My Photos", "--run", "My-Photos")):
        assert call("index", *again, "--device", "cpu")[0] == 0
        assert (_outputs(), Path("params.yaml").read_bytes()) == (before, params)
    photos(tmp_path / "My Photos", ["new.png"])
    (tmp_path / "My Photos/d.png").unlink()
    assert call("index", "--device", "cpu")[0] == 0
    grown = _outputs()
    assert grown != before
    files = images.read(paths.prepared("My-Photos"))["file"].to_pylist()
    assert files == sorted([*(name for name in NAMES if name != "d.png"), "new.png"])
    for folder in ("prepare/My-Photos", "extract/My-Photos", "embed/My-Photos", "seen"):
        shutil.rmtree(paths.DATA / folder)
    assert call("index", "--device", "cpu")[0] == 0
    assert _outputs() == grown


def test_broken_pictures_are_left_out_and_named(call, tmp_path):
    (tmp_path / "My Photos/broken.png").write_bytes(picture(3)[:60])
    _, err = output(call, "index", "../My Photos", "--run", "sum", "--device", "cpu")
    told = " ".join(err.split())
    assert "1 of 6 images below" in told
    assert "broken.png does not decode" in told
    table = images.read_unreadable(paths.extracted("My-Photos", "filters_My-Photos"))
    assert table["file"].to_pylist() == ["broken.png"]
    assert len(_side("My-Photos").ids) == 5
    err = call("search", "a red disc", "--device", "cpu")[2]
    assert "1 images that could not be read are not searched\n" in err


def test_a_second_run_on_the_same_folder_has_a_name_of_its_own(call):
    call("index", "../My Photos", "--run", "sum", "--device", "cpu")
    assert call("index", "../My Photos", "--run", "scan", "--device", "cpu")[0] == 0
    assert [*read_document(Path("params.yaml"))["transfers"]] == ["My-Photos", "My-Photos_scan"]
    status, _, err = call("search", "a red disc")
    assert (status, err) == (2, "error: search which pictures? give --run: My-Photos, My-Photos_scan\n")
    assert call("search", "a red disc", "--run", "My-Photos_scan", "--device", "cpu")[0] == 0


def test_an_index_file_for_another_program(call):
    pytest.importorskip("faiss")
    arguments = ("../My Photos", "--run", "sum", "--to", "faiss", "--out", "index", "--device", "cpu", "--json")
    assert json_document(call, "index", *arguments)["outputs"] == ["data/embed/My-Photos", str(Path("index").resolve())]
    assert json.loads(Path("index/manifest.json").read_text())["items"] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "index what? params.yaml has no folder of pictures yet; name one: vse-pipe index FOLDER"),
        (("nowhere",), "is no folder"),
        (("../My Photos", "--run", "sun"), "unknown run 'sun'; did you mean 'sum'?"),
        (
            ("../My Photos", "--run", "given"),
            "run 'given' reads features 'plain' (precomp), which were computed elsewhere",
        ),
        (("../My Photos", "--run", "sum", "--name", "toy"), "params.yaml has 'toy' already, which is something else"),
        (("../My Photos", "--run", "sum", "--name", "a/b"), "--name 'a/b': expected letters, digits"),
        (("..", "--run", "sum"), "name a folder of pictures, or move the project"),
        (("../My Photos", "--to", "faiss"), "--to and --out go together"),
    ],
)
def test_wrong_questions_change_nothing(call, arguments, message):
    before = Path("params.yaml").read_bytes()
    status, _, err = call("index", *arguments)
    assert (status, len(err.splitlines())) == (2, 1), err
    assert message in err
    assert Path("params.yaml").read_bytes() == before


def test_a_model_or_features_that_are_others_now_are_refused(call):
    call("index", "../My Photos", "--run", "sum", "--device", "cpu")
    meta = paths.extracted("toy", "filters") / features.META
    meta.write_text(meta.read_text().replace('"size": 5', '"size": 7'))
    err = failure(call, 5, "index", "--device", "cpu")
    assert "made with other params" in " ".join(err.split())


@pytest.mark.acceptance
def test_killed_it_goes_on(call, tmp_path):
    """SIGKILL at several moments, then the same command again: the bytes of one that nobody disturbed."""
    photos(tmp_path / "My Photos", [f"{number}.png" for number in range(200)])
    document = read_document(Path("params.yaml"))
    document["features"]["filters"] |= {"batch_size": 4, "shard_size": 4}
    artefacts.params(Path(), **document)
    shards = paths.extracted("My-Photos", "filters_My-Photos") / "shards"
    moments = [
        lambda: partial(paths.prepared("My-Photos")).exists(),
        lambda: sum(name.startswith("0") for _, _, names in os.walk(shards) for name in names) > 10,
        lambda: paths.embedded("My-Photos").with_name("My-Photos.lock").exists() and not shards.exists(),
    ]
    command = [*COMMAND, "index", str(tmp_path / "My Photos"), "--run", "sum", "--device", "cpu"]
    for moment in moments:
        process = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
        while not moment() and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    output(call, "index", "--device", "cpu")
    found = _outputs()
    shutil.rmtree(paths.DATA / "prepare/My-Photos")
    shutil.rmtree(paths.DATA / "extract/My-Photos")
    shutil.rmtree(paths.DATA / "embed/My-Photos")
    assert call("index", "--device", "cpu")[0] == 0
    assert _outputs() == found


@pytest.fixture
def pair(call):
    """The options of a tiny pretrained pair."""
    pytest.importorskip("open_clip", reason="the extra open_clip is not installed")
    from tests.pair_project import named, write_model

    found = named(write_model("clip"))
    return "--model", found["model"], "--weights", found["weights"]


@pytest.mark.acceptance
def test_a_pretrained_pair_searches_at_once_as_open_clip_itself_does(call, pair, tmp_path):
    Path("params.yaml").unlink()
    assert call("init", tmp_path / "fresh")[0] == 0
    shutil.move("models", tmp_path / "fresh")
    os.chdir(tmp_path / "fresh")
    output(call, "index", tmp_path / "My Photos", *pair, "--device", "cpu")
    before = contents(paths.embedded("My-Photos"))
    hits = {
        hit["image_id"]: hit["score"]
        for hit in json_document(call, "search", "a red dog", "--json", "--device", "cpu")["hits"]
    }
    assert hits == pytest.approx(_by_hand("a red dog", tmp_path / "My Photos"), abs=1e-4)
    folder = tmp_path / "My Photos"
    for again in ((), (folder,), (folder, *pair), (folder, "--run", "My-Photos")):
        assert call("index", *again, "--device", "cpu")[0] == 0
        assert contents(paths.embedded("My-Photos")) == before
    photos(tmp_path / "My Photos", ["new.png"])
    status, _, err = call("index", "--device", "cpu")
    assert (status, "embed My-Photos: 6 of 6 pictures computed before" in err) == (0, True), err
    assert json.loads(call("search", "a red dog", "--json", "--device", "cpu")[1])["searched"] == 6
    assert call("evaluate", "--device", "cpu")[0] == 0
    output(call, "check")
    status, _, err = call("report")
    assert (status, json.loads(Path("reports/metrics.json").read_text())) == (0, {}), err
    assert call("check")[0] == 0


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


@pytest.fixture
def params(tmp_path, monkeypatch):
    """Two collections of one folder, whose source is written in three ways."""
    (tmp_path / "project").mkdir()
    (tmp_path / "photos").mkdir()
    (tmp_path / "link").symlink_to("photos")
    monkeypatch.chdir(tmp_path / "project")
    folder = Member(index.FORMAT, project.Nothing())
    sources = {"mine": "../photos", "again": "../link/."}
    return dataclasses.replace(project.params(), datasets={key: Dataset(folder, at) for key, at in sources.items()})


def test_a_name_has_no_dot(params):
    names = {"v1.2": "v1-2", "a b..c": "a-b-c", ".hidden": "hidden", "...": "pictures", "x_y+z-": "x_y+z"}
    assert {folder: index.dataset_of(params, f"../{folder}", None) for folder in names} == names
    with pytest.raises(UsageError, match=r"--name 'v1\.2': expected letters, digits and _ \+ -"):
        index.dataset_of(params, "../other", "v1.2")


def test_a_folder_is_told_by_where_it_lies(params, tmp_path):
    for source in (str(tmp_path / "photos"), "../photos", "../link"):
        assert index.dataset_of(params, source, None) == "again"
        assert index.dataset_of(params, source, "mine") == "mine"
        assert index.dataset_of(params, source, "third") == "third"
    assert index.dataset_of(params, str(Path("../else").resolve()), None) == "else"
