"""The two mismatch protocols written as the papers tell them, on lists, with the legacy generator's shuffle."""


def image_level(captions: list[int], n_images: int, rate: float, rng) -> list[int]:
    """Shuffle the images, let the first share exchange places; every caption follows its image."""
    order = list(range(n_images))
    rng.shuffle(order)
    chosen = order[: int(rate * n_images)]
    targets = list(chosen)
    rng.shuffle(targets)
    moved = dict(zip(chosen, targets, strict=True))
    return [moved.get(image, image) for image in captions]


def caption_level(captions: list[int], rate: float, rng) -> list[int]:
    """Shuffle the captions, let the images of the first share exchange places."""
    order = list(range(len(captions)))
    rng.shuffle(order)
    chosen = order[: int(rate * len(captions))]
    targets = [captions[place] for place in chosen]
    rng.shuffle(targets)
    shown = list(captions)
    for place, target in zip(chosen, targets, strict=True):
        shown[place] = target
    return shown
