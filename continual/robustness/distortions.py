"""Corruptions that move pixels or colours: motion, glass, elastic, saturation; lengths are pixels of 32x32 images.

Published strengths of these four are kinds rather than grades (saturation is first taken away and then added); ours are
chosen so that each severity is further from the image than the one before.
"""

import numpy as np
from scipy import ndimage

from continual.optional import optional_package
from continual.robustness.corruption import Corruption, Picture, Strength


def moved(image: Picture, length: int, deviation: float, degrees: float) -> Picture:
    """Blur along a direction: weights fall as a half Gaussian over `length` pixels behind each pixel."""
    weights = np.exp(-(np.arange(length + 1) ** 2) / (2 * deviation**2))
    direction = np.array([np.sin(np.radians(degrees)), np.cos(np.radians(degrees)), 0.0])
    steps = (
        weight * ndimage.shift(image, number * direction, order=1, mode="nearest")
        for number, weight in enumerate(weights)
    )
    return np.sum(list(steps), axis=0) / weights.sum()


def motion_blur(image: Picture, blur: Strength, draws: np.random.Generator) -> Picture:
    """Blur along a direction within 45 degrees of the horizontal."""
    radius, deviation = blur
    return moved(image, 2 * radius, deviation, draws.uniform(-45, 45))


def glass_blur(image: Picture, glass: Strength, draws: np.random.Generator) -> Picture:
    """Blur, exchange every pixel with a neighbour again and again, and blur."""
    deviation, reach, rounds = glass
    seen = ndimage.gaussian_filter(image, (deviation, deviation, 0), mode="nearest")
    height, width = image.shape[:2]
    for _ in range(rounds):
        for row in range(height - 1 - reach, reach, -1):
            for column in range(width - 1 - reach, reach, -1):
                down, right = draws.integers(-reach, reach + 1, size=2)
                other = row + down, column + right
                seen[row, column], seen[other] = seen[other].copy(), seen[row, column].copy()
    return ndimage.gaussian_filter(seen, (deviation, deviation, 0), mode="nearest")


def elastic(image: Picture, stretch: Strength, draws: np.random.Generator) -> Picture:
    """Map three corners of the middle to places nearby, then move every pixel along smooth random fields."""
    push, smoothness, corner = (part * image.shape[0] / 32 for part in stretch)
    bent = _affine(image, corner, draws)
    if push == 0:
        return bent
    fields = [ndimage.gaussian_filter(draws.uniform(-1, 1, image.shape[:2]), smoothness) * push for _ in range(2)]
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    places = [rows + fields[0], columns + fields[1]]
    planes = [ndimage.map_coordinates(plane, places, order=1, mode="reflect") for plane in np.moveaxis(bent, 2, 0)]
    return np.stack(planes, axis=2)


def saturate(image: Picture, colour: Strength, draws: np.random.Generator) -> Picture:
    """Scale and shift the saturation; a grey picture, which has none, stays as it is."""
    if image.shape[2] != 3:
        return image
    colours, (factor, added) = optional_package("skimage.color", "images"), colour
    hsv = colours.rgb2hsv(image)
    hsv[..., 1] = np.clip(hsv[..., 1] * factor + added, 0, 1)
    return colours.hsv2rgb(hsv)


def _affine(image: Picture, corner: float, draws: np.random.Generator) -> Picture:
    size = np.array(image.shape[:2])
    middle, third = size / 2, size / 3
    before = np.array([middle + third, middle + third * [1, -1], middle - third])
    after = before + draws.uniform(-corner, corner, before.shape)
    homogeneous = np.column_stack([after, np.ones(3)])
    solved = np.linalg.solve(homogeneous, before)  # output places to input places
    planes = [
        ndimage.affine_transform(plane, solved[:2].T, solved[2], order=1, mode="reflect")
        for plane in np.moveaxis(image, 2, 0)
    ]
    return np.stack(planes, axis=2)


DISTORTIONS: dict[str, Corruption] = {
    "elastic": Corruption(elastic, ((0, 1, 0.64), (0, 1, 1.28), (1.6, 1.92, 1.6), (3.2, 1.92, 2.24), (4.8, 1.6, 2.88))),
    "glass_blur": Corruption(glass_blur, ((0.4, 1, 1), (0.4, 1, 2), (0.4, 1, 3), (0.4, 2, 2), (0.4, 2, 4))),
    "motion_blur": Corruption(motion_blur, ((6, 1), (6, 1.5), (6, 2), (8, 2.5), (9, 3))),
    "saturate": Corruption(saturate, ((1.3, 0), (1.6, 0), (2, 0.1), (2.5, 0.2), (3, 0.3))),
}
