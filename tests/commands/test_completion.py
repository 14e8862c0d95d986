"""Shell completion, through the protocol that the installed bash script speaks."""

import resource

import pytest

from tests.command_line import caller
from tests.commands.script import run
from tests.toy_project import PARAMS, write_params
from vse_pipe.commands import _help
from vse_pipe.project.registry import INFERENCES
from vse_pipe.tools.export import TARGETS


@pytest.fixture
def complete(tmp_path, monkeypatch, capsys):
    """A function of the words typed so far, the last of them incomplete, that gives what the shell would offer."""
    monkeypatch.chdir(tmp_path)
    runs = {"sum": PARAMS["runs"]["sum"], "hal": {**PARAMS["runs"]["sum"], "loss": "hal"}}
    both = {"both": {"first": "sum", "second": "hal"}}
    write_params(tmp_path, runs=runs, ensembles=both, grid={"inferences": ["nns", "is+rgm"]})
    call = caller(monkeypatch, capsys)

    def completed(*words: str) -> list[str]:
        monkeypatch.setenv("_VSE_PIPE_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["vse-pipe", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        status, out, err = call()
        assert (status, err) == (0, "")
        return out.split()

    return completed


OFFERED = [
    (("doc",), ["doctor"]),
    (("train", "--run", ""), ["hal", "sum"]),
    (("train", "--run", "h"), ["hal"]),
    (("evaluate", "--run", ""), ["both", "hal", "sum"]),
    (("compare", ""), ["both", "hal", "sum"]),
    (("train", "--loss", ""), ["hal", "sum"]),
    (("prepare", "--dataset", ""), ["toy"]),
    (("extract", "--features", "p"), ["plain"]),
    (("extract", "--texts", ""), ["words"]),
    (("extract", "--backbone", "res"), ["resnet152"]),
    (("inject", "--noise", ""), ["clean", "half"]),
    (("evaluate", "--inference", "is"), ["is", "is+rgm"]),
    (("evaluate", "--inference", "nns,cs"), ["nns,csls"]),
    (("export", "--to", ""), ["clip-retrieval", "faiss", "npy", "parquet", "trec"]),
    (("export", "--inference", "n"), ["nnn", "nns"]),
    (("apply", "flickr8k_n"), ["flickr8k_noise"]),
    (("papers", "hal"), ["hal-aaai2020", "hal-rgm-emnlp"]),
    (("train", "--device", "c"), ["cpu", "cuda"]),
    (("-S", "train.epochs=2", "train", "--run", "s"), ["sum"]),
    (("train", "--dev"), ["--device"]),
]


@pytest.mark.parametrize(("words", "offered"), OFFERED, ids=[" ".join(words) for words, _ in OFFERED])
def test_what_is_offered(complete, words, offered):
    assert complete(*words) == offered


def test_a_project_that_cannot_be_read_offers_nothing(complete, tmp_path):
    (tmp_path / "params.yaml").write_text("runs: [", encoding="utf-8")
    assert complete("train", "--run", "") == []
    (tmp_path / "params.yaml").write_text("runs: 3\n", encoding="utf-8")
    assert complete("train", "--run", "") == []
    (tmp_path / "params.yaml").unlink()
    assert complete("train", "--run", "") == []


def test_an_overlay_may_be_a_file_of_the_folder(complete, tmp_path):
    (tmp_path / "flow.yaml").write_text("", encoding="utf-8")
    assert complete("apply", "flow") == ["flow.yaml"]


def test_what_export_offers_is_what_it_can_fold():
    able = [name for name in INFERENCES.names() if INFERENCES.traits(name).item_bias]
    assert _help.exportable("") == sorted(able)
    assert _help.targets("") == [name.replace("_", "-") for name in sorted(TARGETS)]


def test_it_is_quick_and_the_script_can_be_had(tmp_path):
    """Of a process of its own; pydantic and torch would each take longer than a person waits for a tab."""
    write_params(tmp_path)
    words = {"_VSE_PIPE_COMPLETE": "complete_bash", "COMP_WORDS": "vse-pipe train --run ", "COMP_CWORD": "3"}
    spent = []
    for _ in range(3):
        before = _children_s()
        assert run(cwd=tmp_path, **words) == (0, b"sum\n", b"")
        spent.append(_children_s() - before)
    # 0.25 s of processor time, which does not grow with what else the machine does as seconds on the wall would.
    assert min(spent) < 0.8, spent
    status, out, _ = run(cwd=tmp_path, _VSE_PIPE_COMPLETE="source_bash")
    assert status == 0
    assert b"_VSE_PIPE_COMPLETE=complete_bash" in out


def _children_s() -> float:
    """Processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_completing_imports_nothing_heavy(tmp_path):
    import subprocess
    import sys

    from tests.commands.script import environment

    write_params(tmp_path)
    code = (
        "import sys; from vse_pipe.commands import _help as c; c.section('runs')(''); c.inferences('');"
        "c.overlays(''); c.papers(''); c.targets(''); print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    assert "ruamel" in done.stdout
    assert not {"torch", "pydantic", "pandas", "numpy", "pyarrow", "dvc"} & set(done.stdout.split())
