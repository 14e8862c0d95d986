"""What a viewer shows of an image, pixel by pixel in plain loops."""

import numpy as np


def on_white(colours: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """uint8 (h, w, 3): colours laid on white paper; alpha: (h, w), 0 clear, 255 opaque."""
    shown = np.zeros(colours.shape, np.uint8)
    for y in range(colours.shape[0]):
        for x in range(colours.shape[1]):
            for c in range(3):
                a = int(alpha[y, x])
                shown[y, x, c] = round((int(colours[y, x, c]) * a + 255 * (255 - a)) / 255)
    return shown


def turned(stored: np.ndarray, orientation: int) -> np.ndarray:
    """The picture that EXIF orientation 1 to 8 asks for: where the stored rows and columns begin (TIFF 6.0, page 36)."""
    height, width = stored.shape[:2]
    swapped = orientation > 4
    shown = np.zeros((width, height, 3) if swapped else (height, width, 3), np.uint8)
    for row in range(height):
        for column in range(width):
            bottom, right = height - 1 - row, width - 1 - column
            y, x = {
                1: (row, column),
                2: (row, right),
                3: (bottom, right),
                4: (bottom, column),
                5: (column, row),
                6: (column, bottom),
                7: (right, bottom),
                8: (right, row),
            }[orientation]
            shown[y, x] = stored[row, column]
    return shown
