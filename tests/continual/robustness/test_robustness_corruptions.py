"""Corruptions and the patch probe."""

import numpy as np
import pytest
import torch
from contracts.attack import answers, generator
from torch import nn

from continual.robustness import (
    CORRUPTIONS,
    Target,
    corrupt,
    corruption_accuracy,
    patch_shuffle,
    patch_shuffle_accuracy,
    predict,
)
from continual.robustness.distortions import elastic, glass_blur, moved
from continual.robustness.weather import clouds, fog, snow


def photographs(number=6, channels=3, size=32, dtype=torch.float32):
    """Smooth pictures with edges, in [0, 1]."""
    axis = torch.linspace(0, 1, size, dtype=torch.float64)
    waves = torch.rand(number, channels, 1, 1, 3, generator=generator(), dtype=torch.float64) * 9
    field = torch.sin(waves[..., 0] * axis[:, None] + waves[..., 1] * axis[None] + waves[..., 2])
    edges = torch.rand(2, number, 1, 1, 1, generator=generator(7), dtype=torch.float64)
    step = ((axis[:, None] > edges[0]) ^ (axis[None] > edges[1])).double()
    return (0.45 + 0.3 * field + 0.2 * step).clamp(0, 1).to(dtype)


OF_SCIKIT_IMAGE = ("brightness", "impulse_noise", "saturate")


def needs_scikit_image(name):
    if name in OF_SCIKIT_IMAGE:
        pytest.importorskip("skimage", reason="scikit-image comes with the extra `images`")


@pytest.mark.parametrize("name", sorted(CORRUPTIONS))
@pytest.mark.parametrize("channels", [1, 3])
def test_a_corruption_stays_in_the_box_grows_and_leaves_its_input_alone(name, channels):
    needs_scikit_image(name)
    images = photographs(24, channels)
    before, distances = images.clone(), []
    for severity in range(6):
        changed = corrupt(images, name, severity, generator())
        assert changed.shape == images.shape
        assert changed.dtype == images.dtype
        assert 0 <= float(changed.min()) <= float(changed.max()) <= 1
        distances.append(float((changed - images).flatten(1).norm(dim=1).mean()))
    assert torch.equal(images, before)
    assert distances[0] == 0
    if name == "saturate" and channels == 1:
        assert distances == [0] * 6, "a grey picture has no colour to saturate"
        return
    assert distances == sorted(distances)
    assert len(set(distances)) == 6, "no two severities are the same"


@pytest.mark.parametrize("name", sorted(CORRUPTIONS))
def test_a_corruption_is_seeded_and_does_not_depend_on_the_batch(name):
    needs_scikit_image(name)
    images = photographs(3)
    whole = corrupt(images, name, 3, generator(4))
    assert torch.equal(whole, corrupt(images, name, 3, generator(4)))
    own = generator(4)
    assert torch.equal(whole, torch.cat([corrupt(image[None], name, 3, own) for image in images]))
    if name.endswith("noise"):
        assert not torch.equal(whole, corrupt(images, name, 3, generator(5)))


def test_noises_have_the_deviations_they_state():
    needs_scikit_image("impulse_noise")
    grey = torch.full((8, 1, 64, 64), 0.5, dtype=torch.float64)
    assert float((corrupt(grey, "gaussian_noise", 2, generator()) - grey).std()) == pytest.approx(0.06, rel=0.03)
    assert float((corrupt(grey, "speckle_noise", 2, generator()) - grey).std()) == pytest.approx(0.05, rel=0.03)
    assert float((corrupt(grey, "shot_noise", 5, generator()) - grey).std()) == pytest.approx(0.1, rel=0.03)
    flipped = corrupt(grey, "impulse_noise", 5, generator())
    assert float((flipped != 0.5).double().mean()) == pytest.approx(0.07, rel=0.1)
    assert set(flipped.unique().tolist()) == {0.0, 0.5, 1.0}


def test_brightness_contrast_and_blurs_have_closed_forms():
    needs_scikit_image("brightness")
    images = photographs(2, 1, dtype=torch.float64)
    mean = images.mean((2, 3), keepdim=True)
    torch.testing.assert_close(corrupt(images, "contrast", 2, generator()), (images - mean) * 0.5 + mean)
    torch.testing.assert_close(corrupt(images, "brightness", 2, generator()), (images + 0.1).clamp(0, 1))
    flat = torch.full((1, 3, 16, 16), 0.3, dtype=torch.float64)
    for name in ("gaussian_blur", "defocus_blur", "zoom_blur", "pixelate"):
        torch.testing.assert_close(corrupt(flat, name, 5, generator()), flat, rtol=0, atol=1e-6)
    point = torch.zeros(1, 1, 15, 15, dtype=torch.float64)
    point[0, 0, 7, 7] = 1
    for name in ("gaussian_blur", "defocus_blur"):
        blurred = corrupt(point, name, 5, generator())
        assert float(blurred.sum()) == pytest.approx(1, abs=1e-6)
        torch.testing.assert_close(blurred, blurred.flip(2).transpose(2, 3))
    hsv_value = corrupt(photographs(2), "brightness", 1, generator()).amax(1)
    torch.testing.assert_close(hsv_value, (photographs(2).amax(1) + 0.05).clamp(max=1), rtol=0, atol=1e-6)


def test_grey_images_without_a_channel_axis_are_taken():
    images = photographs(2, 1)[:, 0]
    assert corrupt(images, "jpeg", 1, generator()).shape == images.shape


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((photographs(1), "rain", 1), ValueError, "no corruption 'rain'; choose from brightness, contrast"),
        ((photographs(1), "jpeg", 6), ValueError, r"severity must be 0 \(none\) to 5, got 6"),
        ((torch.zeros(2, 4), "jpeg", 1), ValueError, r"\[B, C, H, W\], got the shape \[2, 4\]"),
        ((torch.zeros(1, 3, 4, 4, dtype=torch.uint8), "jpeg", 1), TypeError, "255 for bytes"),
        ((photographs(1) + 1, "jpeg", 1), ValueError, "box"),
    ],
)
def test_what_cannot_be_corrupted_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        corrupt(*arguments, generator())


def linear_reader(size=32):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(3 * size * size, 4)).train()


def test_a_network_is_scored_under_each_corruption_and_left_as_it_was():
    model, images = linear_reader(), photographs(20)
    labels = predict(model, images)
    report = corruption_accuracy(model, images, labels, ["jpeg", "contrast"], [1, 5], seed=2)
    assert model[1].training
    assert report.clean == 1
    assert set(report.accuracies) == {"jpeg", "contrast"}
    assert report.mean == pytest.approx(np.mean([*report.accuracies["jpeg"], *report.accuracies["contrast"]]))
    again = float((predict(model, corrupt(images, "jpeg", 5, generator(2))) == labels).double().mean())
    assert report.accuracies["jpeg"][1] == again
    assert "CIFAR-C-like" in report.table()


def test_predictions_of_a_sliced_head_keep_its_numbering():
    model, images = linear_reader(), photographs(20)
    rows = [1, 3]
    found = predict(Target(model, classes=rows), images, batch_size=7)
    model.eval()
    assert torch.equal(found, torch.tensor(rows)[answers(lambda x: model(x)[:, rows], images)])


def test_shuffled_patches_are_the_same_pieces_in_other_places():
    images = torch.arange(2 * 3 * 8 * 12, dtype=torch.float32).view(2, 3, 8, 12)
    moved = patch_shuffle(images, 4, generator())
    assert not torch.equal(moved, images)

    def pieces(image):
        return {
            tuple(image[:, r : r + 2, c : c + 3].flatten().tolist()) for r in range(0, 8, 2) for c in range(0, 12, 3)
        }

    for before, after in zip(images, moved, strict=True):
        assert pieces(before) == pieces(after)
    assert torch.equal(patch_shuffle(images, 1, generator()), images)
    assert torch.equal(moved, patch_shuffle(images, 4, generator()))
    own = generator()
    assert torch.equal(moved, torch.cat([patch_shuffle(image[None], 4, own) for image in images]))
    assert patch_shuffle(images[:, 0], 2, generator()).shape == (2, 8, 12)


def test_patches_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"must divide 8 and 12, got 3; choose from \[1, 2, 4\]"):
        patch_shuffle(torch.zeros(1, 1, 8, 12), 3, generator())
    with pytest.raises(ValueError, match=r"got the shape \[4, 9\]"):
        patch_shuffle(torch.zeros(4, 9), 3, generator())


def test_a_reader_of_colour_survives_shuffling_and_a_reader_of_shape_does_not():
    images = torch.rand(40, 3, 8, 8, generator=generator())
    images[:, 0] *= torch.linspace(0, 2, 40).clamp(max=1)[:, None, None]

    def by_colour(x):
        return torch.stack([x[:, 0].mean((1, 2)), 0.35 + 0 * x[:, 0, 0, 0]], 1)

    def by_shape(x):
        return torch.stack([x[:, 1, 0, 0], 0.5 + 0 * x[:, 0, 0, 0]], 1)

    colour = patch_shuffle_accuracy(by_colour, images, answers(by_colour, images))
    shape = patch_shuffle_accuracy(by_shape, images, answers(by_shape, images))
    assert list(colour.values()) == [1, 1, 1]
    assert shape[1] == 1
    assert shape[4] < 0.8


def test_motion_has_a_closed_form_on_a_point_of_light():
    image = np.zeros((33, 33, 1))
    image[16, 16] = 1
    blurred = moved(image, 4, 1.5, 0.0)[16, :, 0]
    weights = np.exp(-(np.arange(5) ** 2) / (2 * 1.5**2))
    np.testing.assert_allclose(blurred[16:21], weights / weights.sum(), atol=1e-12)
    np.testing.assert_allclose(np.delete(blurred, range(16, 21)), 0, atol=1e-12)


def test_glass_only_moves_what_is_there_but_for_its_blur():
    image = np.random.default_rng(0).random((16, 16, 3))
    through = glass_blur(image, (1e-6, 1, 1), np.random.default_rng(1))
    assert not np.array_equal(through, image)
    np.testing.assert_allclose(np.sort(through.reshape(-1, 3), axis=0), np.sort(image.reshape(-1, 3), axis=0))


def test_an_elastic_map_without_reach_is_the_identity_and_fog_keeps_white_white():
    image = np.random.default_rng(0).random((16, 16, 3))
    np.testing.assert_allclose(elastic(image, (0, 1, 0.0), np.random.default_rng(1)), image, atol=1e-9)
    image[0, 0] = 1.0
    veiled = fog(image, (0.75, 2.0), np.random.default_rng(1))
    assert veiled.max() <= 1 + 1e-12
    field = clouds((20, 31), 2.0, np.random.default_rng(0))
    assert (field.shape, field.min(), field.max()) == ((20, 31), 0, 1)


def test_snow_whitens_and_is_as_frequent_below_as_above():
    dark = np.zeros((32, 32, 1))
    fallen = snow(dark, (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85), np.random.default_rng(3))
    flakes = fallen - fallen.min()
    np.testing.assert_allclose(flakes, flakes[::-1, ::-1], atol=1e-12)
    assert fallen.max() > fallen.min() + 0.1
