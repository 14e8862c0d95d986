"""An overlay after another: what it leaves in params.yaml is said, and what it does not speak of is left."""

import os
from pathlib import Path

import pytest

from tests.command_line import caller
from vse_pipe.tools.plots import plots_page


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """The command line in a new project; the page with Vega, which takes seconds, is a line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plots_page, "render", lambda: "{plot_divs}")
    called = caller(monkeypatch, capsys)
    assert called("init", "mine")[0] == 0
    os.chdir("mine")
    return called


def test_options_of_the_overlay_before_are_named_unless_the_next_or_the_command_has_them(call):
    status, _, said = call("apply", "flickr8k_strong")
    assert (status, "kept" in said) == (0, False)
    status, _, said = call("-S", "evaluate={bank: test}", "apply", "flickr8k_losses")
    assert status == 0
    kept = said.splitlines()[0]
    assert kept.startswith("kept from before, unlike a new project: ")
    assert "train.average: 0.998" in kept
    assert "text.two_branch.drop: 0.4" in kept
    assert "train.lr:" not in kept  # which both have
    assert "evaluate" not in kept
    assert "runs" not in kept


def test_of_a_new_project_nothing_is_kept(call):
    assert "kept" not in call("apply", "flickr8k_losses")[2]


def test_pictures_that_are_not_rendered_keep_their_source(call):
    Path("own.yaml").write_text("datasets: {mine: {format: csv, source: pipeline/captions.csv}}")
    assert call("apply", "own.yaml")[0] == 0
    assert "source: pipeline/captions.csv" in Path("params.yaml").read_text()


def test_data_sets_that_are_no_mapping_are_one_line(call):
    Path("own.yaml").write_text("datasets: [1]")
    status, _, said = call("apply", "own.yaml")
    assert status == 2
    assert "params.yaml datasets: input should be a valid dictionary" in said
