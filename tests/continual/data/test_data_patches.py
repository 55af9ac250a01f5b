import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual.data import photo_patches, textures
from continual.data.patches import cut_patches, read_picture
from continual.data.photo_patches import BLOCK, MIN_CONTRAST, PHOTO_FILES, split_blocks
from continual.data.textures import TEXTURE_FILES, TRAIN_ROWS

for_textures = pytest.mark.skipif(TEXTURE_FILES[0].locate() is None, reason="scikit-image is not installed")
for_photos = pytest.mark.skipif(
    any(file.locate() is None for file in PHOTO_FILES), reason="scikit-image or scikit-learn is not installed"
)


def images_of(part):
    return {image.tobytes() for image in part.inputs}


@given(
    leading=st.sampled_from([(), (3,), (2, 3)]),
    height=st.integers(4, 11),
    width=st.integers(4, 11),
    size=st.integers(1, 4),
)
def test_a_patch_is_the_slice_at_its_place(leading, height, width, size):
    pictures = np.random.default_rng(height).integers(0, 256, (*leading, height, width)).astype(np.uint8)
    patches = cut_patches(pictures, size)
    assert patches.shape == (height // size, width // size, *leading, size, size)
    for row in range(height // size):
        for column in range(width // size):
            top, left = row * size, column * size
            np.testing.assert_array_equal(patches[row, column], pictures[..., top : top + size, left : left + size])


@pytest.mark.parametrize("size", [0, -1, 5])
def test_a_patch_larger_than_its_picture_is_refused(size):
    with pytest.raises(ValueError, match=r"side of 1\.\.4 pixels"):
        cut_patches(np.zeros((4, 6), np.uint8), size)


@for_textures
@pytest.mark.parametrize(("size", "counts"), [(28, (234, 72)), (32, (192, 64))])
def test_textures_come_from_their_regions(size, counts):
    dataset = textures(size, seed=1)
    assert dataset.num_classes == 3
    for part, count in zip(dataset.parts, counts, strict=True):
        assert part.inputs.shape == (3 * count, size, size)
        assert part.inputs.dtype == np.uint8
        assert np.bincount(part.targets).tolist() == [count] * 3
        assert (np.diff(part.targets) < 0).any(), "sorted by class"
    for label, file in enumerate(TEXTURE_FILES):
        picture = read_picture(file, grey=True)
        for part, top, bottom in zip(dataset.parts, (0, TRAIN_ROWS), (TRAIN_ROWS, 512), strict=True):
            expected = {
                picture[row : row + size, column : column + size].tobytes()
                for row in range(top, bottom - size + 1, size)
                for column in range(0, 512 - size + 1, size)
            }
            assert {image.tobytes() for image in part.inputs[part.targets == label]} == expected


@for_textures
def test_the_seed_orders_textures_and_leaves_their_cut_alone():
    one, again, other = textures(seed=1), textures(seed=1), textures(seed=2)
    assert one.checksum == again.checksum != other.checksum
    assert images_of(one.test) == images_of(other.test)
    assert not images_of(one.train) & images_of(one.test)
    carved = textures(seed=1, validation=0.1)
    assert [len(part) for part in carved.parts] == [632, 70, 216]
    np.testing.assert_array_equal(carved.test.inputs, one.test.inputs)
    assert not images_of(carved.train) & images_of(carved.validation)


@pytest.mark.parametrize("size", [7, 129])
def test_textures_refuse_a_size_that_leaves_a_region_empty(size):
    with pytest.raises(ValueError, match=r"8\.\.128"):
        textures(size)


@for_photos
@pytest.mark.parametrize(("grey", "shape"), [(True, (28, 28)), (False, (3, 32, 32))])
def test_photo_patches_are_real_pixels_of_their_photo_and_of_one_part(grey, shape):
    dataset = photo_patches(grey, seed=4)
    assert dataset.train.inputs.shape[1:] == shape
    assert dataset.num_classes == 10
    counts = [np.bincount(part.targets, minlength=10) for part in dataset.parts]
    assert counts[0].max() == 150
    assert counts[1].max() == 50
    assert counts[0].min() >= 50
    assert counts[1].min() >= 15
    assert sum(map(len, dataset.parts)) == len(images_of(dataset.train) | images_of(dataset.test)), "an image twice"
    for part in dataset.parts:
        assert part.inputs.reshape(len(part), -1).std(axis=1).min() >= MIN_CONTRAST
    side, shown = shape[-1], images_of(dataset.train) | images_of(dataset.test)
    for label in (0, 9):
        picture = read_picture(PHOTO_FILES[label], grey)
        places = {}
        for top in range(0, picture.shape[-2] - BLOCK + 1, BLOCK):
            for left in range(0, picture.shape[-1] - BLOCK + 1, BLOCK):
                for row in range(top, top + 3 * side, side):
                    for column in range(left, left + 3 * side, side):
                        image = np.ascontiguousarray(picture[..., row : row + side, column : column + side])
                        places[image.tobytes()] = (top, left)
        blocks = [{places[image.tobytes()] for image in part.inputs[part.targets == label]} for part in dataset.parts]
        assert not blocks[0] & blocks[1], "a block gives to both parts"
        assert len(shown & places.keys()) == counts[0][label] + counts[1][label], "labels do not belong to the photo"


@for_photos
def test_the_seed_decides_the_blocks_of_photographs():
    one, again, other = photo_patches(True, 1), photo_patches(True, 1), photo_patches(True, 2)
    assert one.checksum == again.checksum
    assert images_of(one.test) != images_of(other.test)
    carved = photo_patches(True, 1, validation=0.2)
    np.testing.assert_array_equal(carved.test.inputs, one.test.inputs)
    assert images_of(carved.train) | images_of(carved.validation) == images_of(one.train)


@for_photos
def test_grey_is_the_weighted_sum_of_the_colours():
    colour, grey = (read_picture(PHOTO_FILES[0], grey) for grey in (False, True))
    assert colour.shape == (3, *grey.shape)
    np.testing.assert_allclose(grey, np.tensordot([0.299, 0.587, 0.114], colour, 1), atol=1.0)


@pytest.mark.parametrize("colour", [(), (3,)])
def test_blocks_are_split_whole_and_flat_patches_left_out(colour):
    picture = np.zeros((*colour, 4 * BLOCK + 5, 2 * BLOCK + 50), np.uint8)
    for block in range(8):  # a block shows its number, with contrast, but for its first patch
        row, column = BLOCK * (block // 2), BLOCK * (block % 2)
        picture[..., row : row + BLOCK, column : column + BLOCK] = 10 * block
        picture[..., row + 1 : row + BLOCK : 2, column + 32 : column + BLOCK] += 100
        picture[..., row + 33 : row + BLOCK : 2, column : column + 32] += 100
    train, test = split_blocks(picture, 32, seed=0, index=0)
    assert train.shape == (6 * 8, *colour, 32, 32)
    assert test.shape == (2 * 8, *colour, 32, 32)
    numbers = [set(part.reshape(len(part), -1).min(axis=1) // 10) for part in (train, test)]
    assert (len(numbers[0]), len(numbers[1]), len(numbers[0] | numbers[1])) == (6, 2, 8)
