import torch

from vse_pipe.project.registry import SIMILARITIES

member = SIMILARITIES.load("cosine")


def test_rows_are_images_and_columns_texts():
    images = torch.nn.functional.normalize(torch.randn(3, 5), dim=1)
    texts = torch.nn.functional.normalize(torch.randn(4, 5), dim=1)
    scores = member.score(images, texts, member.Params())
    for i in range(3):
        for t in range(4):
            expected = torch.nn.functional.cosine_similarity(images[i], texts[t], dim=0)
            torch.testing.assert_close(scores[i, t], expected)
