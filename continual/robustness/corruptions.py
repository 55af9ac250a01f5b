"""Common corruptions in the style of CIFAR-C (Hendrycks and Dietterich 2019), five severities, seeded.

Strengths are those published for 32x32 images. The published arrays remain the reference: what is made here has the
same kinds and strengths but other draws and other libraries (SciPy, scikit-image, Pillow), so results are to be called
"CIFAR-C-like". Every image has its own stream, so that its corruption does not depend on its batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from continual.optional import optional_package
from continual.robustness.checks import require_images, require_labels
from continual.robustness.corruption import Corruption, Picture, Strength
from continual.robustness.distortions import DISTORTIONS
from continual.robustness.scoring import predict
from continual.robustness.streams import SampleStreams
from continual.robustness.target import Model, Target
from continual.robustness.threat import linf
from continual.robustness.weather import WEATHER


def gaussian_noise(image: Picture, deviation: Strength, draws: np.random.Generator) -> Picture:
    """Add N(0, deviation²)."""
    return image + draws.normal(0, deviation, image.shape)


def shot_noise(image: Picture, photons: Strength, draws: np.random.Generator) -> Picture:
    """Count photons: Poisson of the pixel times the photons of white."""
    return draws.poisson(image * photons) / photons


def impulse_noise(image: Picture, amount: Strength, draws: np.random.Generator) -> Picture:
    """Set a share of the values to black or white."""
    return _images().random_noise(image, mode="s&p", rng=draws, amount=amount)


def speckle_noise(image: Picture, deviation: Strength, draws: np.random.Generator) -> Picture:
    """Add N(0, deviation²) times the pixel."""
    return image + image * draws.normal(0, deviation, image.shape)


def gaussian_blur(image: Picture, deviation: Strength, draws: np.random.Generator) -> Picture:
    """Blur with a Gaussian of this deviation in pixels."""
    return ndimage.gaussian_filter(image, (deviation, deviation, 0), mode="nearest")


def defocus_blur(image: Picture, disk: Strength, draws: np.random.Generator) -> Picture:
    """Blur with a disk of a radius in pixels whose edge is softened by a Gaussian over one pixel."""
    radius, softness = disk
    reach = np.arange(-3, 4)
    kernel = (reach[:, None] ** 2 + reach[None] ** 2 <= radius**2).astype(np.float64)
    kernel = ndimage.gaussian_filter(kernel / kernel.sum(), softness, radius=1, mode="constant")
    return ndimage.convolve(image, kernel[..., None], mode="nearest")


def zoom_blur(image: Picture, most: Strength, draws: np.random.Generator) -> Picture:
    """Average the image with itself zoomed in by one per cent after the other."""
    zooms = np.arange(1, most, 0.01)
    return np.mean([image, *(_zoomed(image, zoom) for zoom in zooms)], axis=0)


def brightness(image: Picture, added: Strength, draws: np.random.Generator) -> Picture:
    """Add to the value of hue, saturation and value; to the grey itself where there is no colour."""
    if image.shape[2] != 3:
        return image + added
    hsv = _colours().rgb2hsv(image)
    hsv[..., 2] = np.clip(hsv[..., 2] + added, 0, 1)
    return _colours().hsv2rgb(hsv)


def contrast(image: Picture, share: Strength, draws: np.random.Generator) -> Picture:
    """Shrink the distance to each channel's mean."""
    mean = image.mean(axis=(0, 1), keepdims=True)
    return (image - mean) * share + mean


def pixelate(image: Picture, share: Strength, draws: np.random.Generator) -> Picture:
    """Resize to a share of the side and back, by averages over boxes."""
    height, width = image.shape[:2]
    small = (max(1, int(width * share)), max(1, int(height * share)))
    return np.stack([_boxed(_boxed(channel, small), (width, height)) for channel in np.moveaxis(image, 2, 0)], axis=2)


def jpeg(image: Picture, quality: Strength, draws: np.random.Generator) -> Picture:
    """Compress to JPEG and back, each channel by itself unless there are three."""
    if image.shape[2] == 3:
        return _compressed(image, quality)
    return np.stack([_compressed(channel, quality) for channel in np.moveaxis(image, 2, 0)], axis=2)


CORRUPTIONS: dict[str, Corruption] = {
    "brightness": Corruption(brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": Corruption(contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "defocus_blur": Corruption(defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))),
    "gaussian_blur": Corruption(gaussian_blur, (0.4, 0.6, 0.7, 0.8, 1.0)),
    "gaussian_noise": Corruption(gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "impulse_noise": Corruption(impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "jpeg": Corruption(jpeg, (80, 65, 58, 50, 40)),
    "pixelate": Corruption(pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
    "shot_noise": Corruption(shot_noise, (500, 250, 100, 75, 50)),
    "speckle_noise": Corruption(speckle_noise, (0.06, 0.1, 0.12, 0.16, 0.2)),
    "zoom_blur": Corruption(zoom_blur, (1.06, 1.11, 1.16, 1.21, 1.26)),
    **DISTORTIONS,
    **WEATHER,
}


def corrupt(images: Tensor, name: str, severity: int, generator: torch.Generator) -> Tensor:
    """Corrupt images.

    Args:
        images: [B, H, W] or [B, C, H, W] in [0, 1]; not written to.
        name: of `CORRUPTIONS`.
        severity: 1 to 5; 0 gives a copy.
        generator: on the CPU; gives one seed an image, in order.

    Returns:
        Images of the same shape and dtype in [0, 1].

    Raises:
        TypeError: for integer images.
        ValueError: for an unknown name, a severity outside 0 to 5, or images of another shape or range.
    """
    images = require_images(images, linf(0.0))
    if name not in CORRUPTIONS:
        raise ValueError(f"There is no corruption {name!r}; choose from {', '.join(sorted(CORRUPTIONS))}.")
    if severity not in range(6):
        raise ValueError(f"severity must be 0 (none) to 5, got {severity!r}.")
    if images.ndim not in (3, 4):
        raise ValueError(f"Corruptions need images [B, H, W] or [B, C, H, W], got the shape {list(images.shape)}.")
    seeds = SampleStreams.drawn(generator, len(images), torch.device("cpu")).seeds.tolist()
    if severity == 0:
        return images.clone()
    apply, strengths = CORRUPTIONS[name]
    pictures = images.cpu().double().view(len(images), -1, *images.shape[-2:]).permute(0, 2, 3, 1).numpy()
    made = [
        apply(picture.copy(), strengths[severity - 1], np.random.default_rng(seed))
        for picture, seed in zip(pictures, seeds, strict=True)
    ]
    changed = torch.from_numpy(np.stack(made)).permute(0, 3, 1, 2).reshape(images.shape)
    return changed.clamp(0, 1).to(images)


@dataclass(frozen=True)
class CorruptionReport:
    """Accuracy under corruptions.

    Attributes:
        clean: accuracy on the images as they are.
        accuracies: by name, one a severity.
        severities: in order.
    """

    clean: float
    accuracies: dict[str, tuple[float, ...]]
    severities: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Plain mean over corruptions and severities; there is no reference network to divide by."""
        return float(np.mean(list(self.accuracies.values())))

    def table(self) -> str:
        """Give the report as text of fixed width."""
        lines = [f"{'CIFAR-C-like':16}" + "".join(f"{severity:>8}" for severity in self.severities)]
        lines += [f"{name:16}" + "".join(f"{a:8.3f}" for a in row) for name, row in self.accuracies.items()]
        return "\n".join([*lines, f"clean {self.clean:.3f}, mean over corruptions {self.mean:.3f}"])


def corruption_accuracy(
    model: Model | Target,
    images: Tensor,
    labels: Tensor,
    names: Sequence[str] = tuple(CORRUPTIONS),
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    seed: int = 0,
) -> CorruptionReport:
    """Score a network on corrupted images.

    Args:
        model: any callable from images to logits, or a `Target`; left as it was found.
        images: [N, H, W] or [N, C, H, W] in [0, 1].
        labels: [N].
        names: of `CORRUPTIONS`.
        severities: 1 to 5.
        seed: of all draws; each corruption and severity begins with it.

    Raises:
        TypeError: for images or labels of the wrong type.
        ValueError: as `corrupt` does.
    """
    require_images(images, linf(0.0))
    require_labels(labels, images)

    def score(name: str, severity: int) -> float:
        changed = corrupt(images, name, severity, torch.Generator().manual_seed(seed))
        return float((predict(model, changed, seed=seed) == labels).double().mean())

    clean = float((predict(model, images, seed=seed) == labels).double().mean())
    accuracies = {name: tuple(score(name, severity) for severity in severities) for name in names}
    return CorruptionReport(clean, accuracies, tuple(severities))


def _zoomed(image: Picture, zoom: float) -> Picture:
    """Zoom into the middle, keeping the size."""
    height, width = image.shape[:2]
    offset = [(length - 1) / 2 * (1 - 1 / zoom) for length in (height, width)]
    planes = [
        ndimage.affine_transform(plane, np.full(2, 1 / zoom), offset, order=1, mode="nearest")  # pyright: ignore[reportArgumentType]  # a sequence is taken
        for plane in np.moveaxis(image, 2, 0)
    ]
    return np.stack(planes, axis=2)


def _boxed(channel: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float64]:
    pillow = _pillow()
    resized = pillow.fromarray(channel.astype(np.float32), mode=None).resize(size, resample=4)  # 4: box
    return np.asarray(resized, dtype=np.float64)


def _compressed(image: NDArray[np.float64], quality: int) -> NDArray[np.float64]:
    import io

    file, pillow = io.BytesIO(), _pillow()
    pillow.fromarray(np.round(image * 255).astype(np.uint8)).save(file, "JPEG", quality=quality)
    return np.asarray(pillow.open(file), dtype=np.float64) / 255


def _pillow() -> Any:
    return optional_package("PIL.Image", "images")


def _images() -> Any:
    return optional_package("skimage.util", "images")


def _colours() -> Any:
    return optional_package("skimage.color", "images")
