"""Weather, simulated: fog, snow and frost.

Fog is a field of clouds with detail at every scale; snow a sparse layer of flakes, blurred as they fall, and once more
from the other side. The published frost blends in photographs of ice, which cannot be had here: ours blends in bright
ridges of the cloud field and is named `frost_simulated`.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from continual.robustness.corruption import Corruption, Picture, Strength
from continual.robustness.distortions import moved


def clouds(size: tuple[int, int], decay: float, draws: np.random.Generator) -> NDArray[np.float64]:
    """Add noise of halving grain, each finer one `decay` times weaker; scaled to [0, 1]."""
    side = 2 ** int(np.ceil(np.log2(max(size))))
    field, amplitude, cells = np.zeros((side, side)), 1.0, 2
    while cells <= side:
        grain = draws.uniform(-amplitude, amplitude, (cells, cells))
        field += np.asarray(ndimage.zoom(grain, side / cells, order=1, mode="grid-wrap", grid_mode=True))
        amplitude, cells = amplitude / decay, cells * 2
    field = field[: size[0], : size[1]]
    return (field - field.min()) / max(np.ptp(field), 1e-12)


def fog(image: Picture, veil: Strength, draws: np.random.Generator) -> Picture:
    """Add clouds, and darken all so that white stays white."""
    weight, decay = veil
    brightest = image.max()
    veiled = image + weight * clouds(image.shape[:2], decay, draws)[..., None]
    return veiled * brightest / (brightest + weight)


def snow(image: Picture, flakes: Strength, draws: np.random.Generator) -> Picture:
    """Whiten, and let flakes fall from above and, turned around, from below."""
    mean, deviation, zoom, threshold, length, blur, share = flakes
    layer = draws.normal(mean, deviation, image.shape[:2])
    layer = np.asarray(ndimage.zoom(layer, zoom, order=1))[: image.shape[0], : image.shape[1]]
    layer[layer < threshold] = 0
    falling = moved(np.clip(layer, 0, 1)[..., None], length, blur, draws.uniform(-135, -45))
    grey = image.mean(axis=2, keepdims=True)
    whiter = share * image + (1 - share) * np.maximum(image, grey * 1.5 + 0.5)
    return whiter + falling + falling[::-1, ::-1]


def frost_simulated(image: Picture, ice: Strength, draws: np.random.Generator) -> Picture:
    """Blend in bright ridges."""
    weight, added = ice
    ridges = 1 - np.abs(2 * clouds(image.shape[:2], 1.6, draws) - 1)
    return weight * image + added * ridges[..., None]


WEATHER: dict[str, Corruption] = {
    "fog": Corruption(fog, ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))),
    "frost_simulated": Corruption(frost_simulated, ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.5), (0.75, 0.6))),
    "snow": Corruption(
        snow,
        (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
    ),
}
