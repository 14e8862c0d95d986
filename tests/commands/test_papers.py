"""`vse-pipe papers`: the list of papers, the rows of a paper, and a row written into params.yaml."""

import pytest
from ruamel.yaml import YAML

from tests.command_line import caller, failure, json_document, output
from tests.rules.sources import ROOT
from vse_pipe.project.params.load import load


@pytest.fixture
def project(tmp_path, monkeypatch, capsys):
    """The command line below a project with the demo's params.yaml."""
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return caller(monkeypatch, capsys)


def test_the_papers_are_listed_outside_a_project(call):
    out = output(call, "papers")[0]
    assert [word for word in ("hal-aaai2020", "vsepp", "CVPR 2024", "runs") if word not in out] == []
    found = {one["paper"]: one for one in json_document(call, "papers", "--json")}["hal-aaai2020"]
    assert (found["rows"], found["own"], 0 < found["runs"] <= 24) == (34, 24, True)


def test_the_rows_of_a_paper(call):
    out, _ = output(call, "papers", "hal-aaai2020")
    lines = {words[0]: line for line in out.splitlines() if (words := line.split())}
    assert "466.7" in lines["2.12"]
    assert "runs, :code" in lines["2.12"]
    assert "quoted" in lines["2.15"]
    assert "mean over five folds of 1,000 test images" in out
    found = {one["row"]: one for one in json_document(call, "papers", "hal-rgm-emnlp", "--json")}
    assert found["4.12"] == found["4.12"] | {"inference": "csls", "tables": ["4", "3"]}
    assert found["4.12"]["published"]["rsum"] == 427.6
    assert found["2.14"] == found["2.14"] | {"quoted": True, "settings": None}
    assert found["2.1"]["settings"]["options"]["loss"] == {"margin": 0.2}


ROW = ("papers", "hal-aaai2020", "2.12")


def test_the_parameters_of_a_row_and_that_apply_needs_a_project(call):
    out, err = output(call, *ROW)
    assert err == ""
    assert "# published i2t: R@1 64.0, R@5 89.9, R@10 95.7, Med r 1.0, Mean r 2.8\n" in out
    assert "# published: rsum 466.7\n" in out
    assert YAML(typ="safe").load(out)["runs"]["hal-aaai2020_2_12"]["scheme"] == "memory_bank"
    assert "no params.yaml" in failure(call, 2, *ROW, "--apply")


def test_apply_writes_the_row_and_the_values_of_set(project, tmp_path):
    (tmp_path / "below" / "row.yaml").write_text(project("papers", "vsepp", "4.4")[1])
    assert (project("apply", "row.yaml")[0], list(load(tmp_path / "params.yaml").runs)) == (0, ["vsepp_4_4"])
    out, err = output(project, "-S", "datasets.coco.source=/data/coco", *ROW, "--apply")
    assert out == ""
    assert "params.yaml now describes hal-aaai2020 2.12 as run hal-aaai2020_2_12" in " ".join(err.split())
    params = load(tmp_path / "params.yaml")
    assert (params.runs["hal-aaai2020_2_12"].row, params.datasets["coco"].source) == ("hal-aaai2020 2.12", "/data/coco")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hal-aaai2020", "2.122"], "hal-aaai2020 has no row '2.122'; did you mean '2.22'?"),
        (["hal-aaai2020", "2.12", "--apply", "--json"], "exclude each other"),
    ],
)
def test_wrong_usage(project, tmp_path, arguments, message):
    before = (tmp_path / "params.yaml").read_bytes()
    status, out, err = project("papers", *arguments)
    assert (status, out, message in err) == (2, "", True), err
    assert (tmp_path / "params.yaml").read_bytes() == before
