"""What holds for every sampler."""

import numpy as np


def check_contract(member, owners: np.ndarray, lengths: np.ndarray, size: int, **options) -> list[np.ndarray]:
    """An order of the generator alone; positions within range, no pair twice in a batch, no batch of one."""
    params = member.Params(**options)
    found = member.batches(owners, lengths, size, params, np.random.default_rng(5))
    np.random.seed(0)
    again = member.batches(owners, lengths, size, params, np.random.default_rng(5))
    other = member.batches(owners, lengths, size, params, np.random.default_rng(6))
    assert [chosen.tolist() for chosen in found] == [chosen.tolist() for chosen in again]
    assert [chosen.tolist() for chosen in found] != [chosen.tolist() for chosen in other]
    for chosen in found:
        assert len(chosen) > 1
        assert len(set(chosen.tolist())) == len(chosen)
        assert chosen.min() >= 0
        assert chosen.max() < len(owners)
    return found
