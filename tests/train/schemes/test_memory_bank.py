from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.train.some import some_pairs, some_scheme
from vse_pipe.project.registry import SCHEMES
from vse_pipe.train.engine.incidence import Incidence
from vse_pipe.train.schemes.memory_bank import weights as _weights

CPU = torch.device("cpu")


def _bank(epoch: int = 1, share: float = 0.5, train=None, **options):
    pairs = some_pairs(40, each=4)
    scheme = some_scheme(pairs, "hal", "memory_bank", train=train, share=share, **options)
    scheme.start(epoch)
    return pairs, scheme


def test_the_first_epoch_has_no_bank():
    pairs, scheme = _bank(epoch=0)
    batch = pairs.batch(np.arange(6))
    assert scheme.scored(*scheme.setting.model.encode(batch, CPU), batch).weights is None


def test_the_bank_is_whole_batches_of_the_training_set_encoded_without_dropout():
    pairs, scheme = _bank(share=0.4)
    places = scheme.pairs.numpy()
    assert len(places) % 8 == 0
    assert 0 < len(places) < 40
    assert len(set(places.tolist())) == len(places)
    batch = pairs.batch(places)
    with torch.no_grad():
        images, texts = scheme.setting.model.eval().encode(batch, CPU)
    torch.testing.assert_close(scheme.images, images)
    torch.testing.assert_close(scheme.texts, texts)
    assert scheme.owners.tolist() == pairs.owners[places].tolist()


def test_a_bank_follows_from_seed_and_epoch_and_the_next_epoch_has_another():
    first, again, other = (_bank(epoch)[1].pairs.tolist() for epoch in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_share_too_small_for_one_batch_still_gives_one():
    assert len(_bank(share=1e-9)[1].pairs) == 8


def test_shares_are_met_on_average():
    module = SCHEMES.load("memory_bank")
    sizes = [len(module._kept(10_000, 50, 0.05, np.random.default_rng(seed))) for seed in range(50)]
    assert 400 < np.mean(sizes) < 600


def test_a_bank_of_everything_weighs_like_eq_6_on_all_scores():
    pairs, scheme = _bank(share=1.0, k=7)
    batch = pairs.batch(np.array([0, 9, 17, 33]))
    images, texts = scheme.setting.model.encode(batch, CPU)
    weights = scheme.scored(images, texts, batch).weights
    assert weights.shape == (4, 4)
    assert not weights.requires_grad
    outside = torch.isin(scheme.pairs, torch.from_numpy(batch.pairs), invert=True)
    expected = _weights.weights(
        (images @ texts.T).detach(),
        images.detach() @ scheme.texts[outside].T,
        scheme.images[outside] @ texts.detach().T,
        torch.zeros(4, int(outside.sum()), dtype=torch.bool),
        scheme.params,
    )
    torch.testing.assert_close(weights, expected)


def test_excluding_by_image_leaves_the_pair_s_own_image_out():
    pairs, scheme = _bank(share=1.0, exclude="image")
    batch = pairs.batch(np.array([0, 9]))
    left_out = scheme._left_out(batch)
    own = torch.from_numpy(pairs.owners[[0, 9]])[:, None] == scheme.owners[None, :]
    in_batch = torch.isin(scheme.pairs, torch.tensor([0, 9]))
    assert torch.equal(left_out, own | in_batch[None, :])
    assert int(own.sum()) == 8
    by_caption = _bank(share=1.0)[1]._left_out(batch)
    assert int(by_caption.sum()) == 4


def test_texts_that_read_alike_are_one_and_belong_to_all_their_images():
    pairs = some_pairs(40, each=4)
    said = np.arange(40) % 15
    seen = {*zip(pairs.owners.tolist(), said.tolist(), strict=True), (10, 14)}
    known = Incidence.of(pairs.owners, said, np.array([10]), np.array([14]))
    batch = np.array([0, 9])
    for exclude in ("caption", "image"):
        scheme = some_scheme(
            replace(pairs, incidence=known), "hal", "memory_bank", train=None, share=1.0, exclude=exclude
        )
        scheme.start(1)
        places = scheme.pairs.tolist()
        expected = [
            [
                said[j] in said[batch]
                or (exclude == "image" and ((pairs.owners[i], said[j]) in seen or (pairs.owners[j], said[i]) in seen))
                for j in places
            ]
            for i in batch
        ]
        assert scheme._left_out(pairs.batch(batch)).tolist() == expected


def test_the_loss_is_finite_and_reaches_both_sides():
    pairs, scheme = _bank(share=1.0)
    batch = pairs.batch(np.arange(0, 40, 5))
    images, texts = (side.detach().requires_grad_() for side in scheme.setting.model.encode(batch, CPU))
    scheme.terms(images, texts, batch).total().backward()
    for side in (images, texts):
        assert torch.isfinite(side.grad).all()
        assert side.grad.any()


def test_memory_is_said(capsys):
    _bank(share=1.0)
    assert "memory bank: 40 pairs, 0.0 MiB" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.0, 1.5, -1.0])
def test_a_share_must_be_a_share(share):
    with pytest.raises(ValueError, match="share"):
        SCHEMES.options("memory_bank").Params(share=share)


def test_a_batch_larger_than_the_data_set_is_a_batch_of_all():
    assert sorted(_bank(share=1e-9, train={"batch_size": 2**60})[1].pairs.tolist()) == list(range(40))
