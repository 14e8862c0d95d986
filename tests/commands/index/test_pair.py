"""vse-pipe index by a pretrained pair, against open_clip itself."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.commands.index.photos import NAMES, contents, photos
from vse_pipe.project import paths


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
    status, _, err = call("index", tmp_path / "My Photos", *pair, "--device", "cpu")
    assert status == 0, err
    before = contents(paths.embedded("My-Photos"))
    status, out, err = call("search", "a red dog", "--json", "--device", "cpu")
    assert status == 0, err
    hits = {hit["image_id"]: hit["score"] for hit in json.loads(out)["hits"]}
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
    status, _, err = call("check")
    assert status == 0, err
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
