"""`vse-pipe papers`: the list of papers, the rows of a paper, and a row written into params.yaml."""

import json
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from tests.command_line import caller, failure, output
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
    out, _ = output(call, "papers")
    for word in ("hal-aaai2020", "vsepp", "CVPR 2024", "runs"):
        assert word in out
    found = {one["paper"]: one for one in json.loads(call("papers", "--json")[1])}
    assert (found["hal-aaai2020"]["rows"], found["hal-aaai2020"]["own"]) == (34, 24)
    assert 0 < found["hal-aaai2020"]["runs"] <= 24


def test_the_rows_of_a_paper(call):
    out, _ = output(call, "papers", "hal-aaai2020")
    line = next(line for line in out.splitlines() if line.split()[:1] == ["2.12"])
    assert "466.7" in line
    assert "runs, :code" in line
    assert "quoted" in next(line for line in out.splitlines() if line.split()[:1] == ["2.15"])
    assert "mean over five folds of 1,000 test images" in out
    found = {one["row"]: one for one in json.loads(call("papers", "hal-rgm-emnlp", "--json")[1])}
    assert found["4.12"]["published"]["rsum"] == 427.6
    assert found["4.12"]["inference"] == "csls"
    assert found["4.12"]["tables"] == ["4", "3"]
    assert found["2.14"]["quoted"] is True
    assert found["2.14"]["settings"] is None
    assert found["2.1"]["settings"]["options"]["loss"] == {"margin": 0.2}


def test_the_parameters_of_a_row_and_that_apply_needs_a_project(call):
    status, out, err = call("papers", "hal-aaai2020", "2.12")
    assert (status, err) == (0, "")
    assert "# published i2t: R@1 64.0, R@5 89.9, R@10 95.7, Med r 1.0, Mean r 2.8\n" in out
    assert "# published: rsum 466.7\n" in out
    assert YAML(typ="safe").load(out)["runs"]["hal-aaai2020_2_12"]["scheme"] == "memory_bank"
    err = failure(call, 2, "papers", "hal-aaai2020", "2.12", "--apply")
    assert "no params.yaml" in err


def test_values_of_set_are_in_the_parameters_shown(call):
    out = call("-S", "datasets.coco.source=/data/coco", "papers", "hal-aaai2020", "2.12")[1]
    assert YAML(typ="safe").load(out)["datasets"]["coco"]["source"] == "/data/coco"
    status, _, err = call("-S", "train=5", "papers", "hal-aaai2020", "2.12")
    assert (status, err) == (2, "error: --set: train: expected a mapping of values, got 5\n")


@pytest.mark.parametrize("text", ["runs.a=5", "report.sweeps={}", "runs.hal-aaai2020_2_12.options=5", "seed=4"])
def test_odd_values_of_set_are_printed_as_they_are(call, text):
    status, out, err = call("-S", text, "papers", "hal-aaai2020", "2.12")
    assert (status, err) == (0, "")
    section, _, value = text.partition("=")
    found = YAML(typ="safe").load(out)
    for key in section.split("."):
        found = found[key]
    assert found == YAML(typ="safe").load(value)


def test_a_broken_params_file_is_status_2_and_one_line(project, tmp_path):
    (tmp_path / "params.yaml").write_bytes(b"")
    err = failure(project, 2, "papers", "hal-aaai2020", "2.12", "--apply")
    assert err == "error: params.yaml: expected a mapping of sections, got NoneType\n"


def test_apply_writes_the_row_and_the_values_of_set(project, tmp_path):
    (tmp_path / "below" / "row.yaml").write_text(project("papers", "vsepp", "4.4")[1])
    assert project("apply", "row.yaml")[0] == 0
    assert list(load(tmp_path / "params.yaml").runs) == ["vsepp_4_4"]
    status, out, err = project("-S", "datasets.coco.source=/data/coco", "papers", "hal-aaai2020", "2.12", "--apply")
    assert (status, out) == (0, "")
    assert "params.yaml now describes hal-aaai2020 2.12 as run hal-aaai2020_2_12" in " ".join(err.split())
    params = load(tmp_path / "params.yaml")
    assert params.runs["hal-aaai2020_2_12"].row == "hal-aaai2020 2.12"
    assert params.datasets["coco"].source == "/data/coco"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["hal-aai2020"], "unknown paper 'hal-aai2020'; did you mean 'hal-aaai2020'?"),
        (["hal-aaai2020", "2.122"], "hal-aaai2020 has no row '2.122'; did you mean '2.22'?"),
        (["hal-aaai2020", "2.14"], "quotes Vendrov et al. 2016"),
        (["--apply"], "--apply needs a paper and a row"),
        (["hal-aaai2020", "--apply"], "--apply needs a paper and a row"),
        (["hal-aaai2020", "2.12", "--apply", "--json"], "exclude each other"),
    ],
)
def test_wrong_usage(project, tmp_path, arguments, message):
    before = (tmp_path / "params.yaml").read_bytes()
    status, out, err = project("papers", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert (tmp_path / "params.yaml").read_bytes() == before


def test_listing_imports_nothing_heavy():
    code = "from vse_pipe.papers import listing; import sys; listing.papers(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert "vse_pipe.papers.catalogue" in loaded
    assert not {"torch", "pandas", "pyarrow", "numba"} & set(loaded)
