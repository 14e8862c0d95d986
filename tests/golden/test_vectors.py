"""The authors' outputs that are small enough to lie here, under ``python -m tests.golden``."""

from pathlib import Path

import numpy as np
import pytest

from tests.golden import Vectors, encoders
from tests.golden.__main__ import KINDS, check, kind_of, line, main

VECTORS = sorted((Path(__file__).parent / "vectors").glob("*.npz"))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_ours_is_theirs(path):
    text, passed = line(path)
    assert passed, text


def test_every_kind_has_a_vector_or_is_too_large_for_one():
    assert set(KINDS) - {kind_of(path.stem) for path in VECTORS} == {"metrics_1k", "metrics_5fold"}


@pytest.mark.parametrize("name", ["csls_muse_k3", "metrics_ties", "contrastive_max_cosine_m0.2"])
def test_another_output_fails(name, tmp_path, capsys):
    """The check itself can fail: one stored output of each file is moved."""
    source = next(path for path in VECTORS if path.stem == name)
    output, content = check(source)[0][0], Vectors(source)
    content[output] = content[output] + 1
    np.savez(tmp_path / source.name, **content)
    assert main([str(tmp_path / source.name)]) == 1
    assert f"{name}: {output} differs by" in capsys.readouterr().err


def test_an_unknown_kind_is_not_passed_over(tmp_path, capsys):
    np.savez(tmp_path / "unknown_kind.npz", x=np.zeros(1))
    assert main([str(tmp_path / "unknown_kind.npz")]) == 1
    assert capsys.readouterr().out == "unsupported unknown_kind - -\n"


@pytest.mark.parametrize(
    "path", [path for path in VECTORS if path.stem.startswith("train3")], ids=lambda path: path.stem
)
def test_steps_in_bfloat16_stay_near_theirs(path):
    """``train.precision: bfloat16``, docs/training.md: losses to 0.5 %, and the weights move the authors' way."""
    arrays = Vectors(path)
    losses, ours = encoders.steps(arrays, "bfloat16")
    np.testing.assert_allclose(losses, arrays["losses"], rtol=5e-3)
    start, theirs = (encoders.step_weights(arrays, number) for number in (0, len(losses)))
    our_move, their_move = (
        np.concatenate([(weights[name] - before).numpy().ravel() for name, before in start.items()])
        for weights in (ours, theirs)
    )
    assert our_move @ their_move > 0.95 * np.linalg.norm(our_move) * np.linalg.norm(their_move)
    assert not np.array_equal(our_move, their_move)
