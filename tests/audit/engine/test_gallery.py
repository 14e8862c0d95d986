import numpy as np

from vse_pipe.audit.measure import chosen


def test_most_probable_first_then_the_larger_loss_and_one_of_each_image():
    probability = np.array([0.1, 0.9, 0.9, 0.9, 0.5, 0.9])
    losses = np.array([9.0, 1.0, 3.0, 2.0, 5.0, 2.0])
    images = np.array([4, 7, 7, 8, 4, 9])
    assert chosen(probability, losses, images, 10).tolist() == [2, 3, 5, 4]
    assert chosen(probability, losses, images, 2).tolist() == [2, 3]
    assert chosen(probability, losses, images, 0).tolist() == []
