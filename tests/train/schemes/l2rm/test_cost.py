import pytest
import torch

from vse_pipe.ranking.engine.words import Words
from vse_pipe.train.schemes.l2rm.cost import CostNetwork, cosine_distance, supervised_cost


def _scores(rows: int, columns: int) -> torch.Tensor:
    return torch.rand(rows, columns, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_the_start_is_the_cosine_distance_of_models_that_compare_vectors():
    images, texts = (torch.nn.functional.normalize(_scores(rows, 6), dim=1) for rows in (5, 7))
    torch.testing.assert_close(CostNetwork(7)(images @ texts.T), cosine_distance(3 * images, texts))
    assert cosine_distance(torch.eye(2), torch.tensor([[2.0, 0.0], [-1.0, 0.0]])).tolist() == [[0.0, 2.0], [1.0, 1.0]]


def test_the_distance_of_fragments_is_that_of_their_means():
    regions, lengths = _scores(5 * 4, 6).view(5, 4, 6), [1, 3, 2]
    words = Words(_scores(6, 6) + 0.3, torch.tensor(lengths))
    found = cosine_distance(regions, words)
    assert found.shape == (5, 3)
    for image in range(5):
        first = 0
        for caption, length in enumerate(lengths):
            seen, read = regions[image].mean(dim=0), words.vectors[first : first + length].mean(dim=0)
            expected = 1 - torch.nn.functional.cosine_similarity(seen, read, dim=0)
            assert found[image, caption].item() == pytest.approx(expected.item(), abs=1e-6)
            first += length


def test_the_layer_runs_over_the_captions_of_an_image():
    network = CostNetwork(3)
    with torch.no_grad():
        network.fc.weight[0, 2] = 5.0
    cost = network(torch.tensor([[0.1, 0.2, 0.3], [0.0, 0.0, 0.0]]))
    torch.testing.assert_close(cost, torch.tensor([[0.9 + 1.5, 0.8, 0.7], [1.0, 1.0, 1.0]]))


def test_missing_captions_count_as_similarities_of_0():
    network = CostNetwork(6)
    with torch.no_grad():
        network.fc.weight.normal_(generator=torch.Generator().manual_seed(1))
    scores = _scores(4, 4)
    filled = torch.cat([scores, torch.zeros(4, 2)], dim=1)
    torch.testing.assert_close(network(scores), network(filled)[:, :4])


def test_supervision_counts_matching_cells_only_and_lowers_their_cost():
    network = CostNetwork(4)
    scores, matching = _scores(4, 4), torch.zeros(4, 4)
    matching[1, 2] = matching[3, 0] = 1
    before = network(scores)
    loss = supervised_cost(before, matching)
    assert loss.item() == pytest.approx((before[1, 2] + before[3, 0]).item())
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    loss.backward()
    optimizer.step()
    after = network(scores)
    assert after[1, 2] < before[1, 2]
    assert after[3, 0] < before[3, 0]
