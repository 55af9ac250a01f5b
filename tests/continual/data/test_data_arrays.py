import hashlib

import numpy as np
import pytest
import torch

from continual.data import Dataset, Test, Train, Validation, carve_validation, from_arrays

IMAGES = np.arange(20 * 4, dtype=np.uint8).reshape(20, 2, 2)
LABELS = np.arange(20) % 2


def test_takes_bytes_floats_and_tensors_and_keeps_their_values():
    as_bytes = from_arrays((IMAGES, LABELS), (IMAGES, LABELS))
    assert as_bytes.train.inputs.dtype == np.uint8
    assert as_bytes.train.targets.dtype == np.int64
    assert as_bytes.num_classes == 2
    assert as_bytes.input_shape == (2, 2)
    fractions = IMAGES.astype(np.float64) / 255
    as_floats = from_arrays((fractions, LABELS.astype(np.uint8)), (fractions, LABELS))
    assert as_floats.train.inputs.dtype == np.float32
    np.testing.assert_allclose(as_floats.test.inputs, fractions, rtol=1e-6)
    tensors = torch.tensor(fractions, requires_grad=True), torch.tensor(LABELS)
    of_tensors = from_arrays(tensors, (torch.tensor(IMAGES).float() / 255, torch.tensor(LABELS)))
    np.testing.assert_array_equal(of_tensors.train.inputs, as_floats.train.inputs)


def test_owns_a_copy():
    images = IMAGES.copy()
    dataset = from_arrays((images, LABELS), (images, LABELS))
    images[:] = 0
    np.testing.assert_array_equal(dataset.train.inputs, IMAGES)


def test_parts_have_types_of_their_own():
    dataset = from_arrays((IMAGES, LABELS), (IMAGES, LABELS), validation=0.2)
    assert type(dataset.train) is Train
    assert type(dataset.validation) is Validation
    assert type(dataset.test) is Test
    with pytest.raises(TypeError, match="train part must be a Train, but it is a Test"):
        Dataset("swapped", dataset.test, None, dataset.test, 2)
    with pytest.raises(TypeError, match="validation part must be a Validation, but it is a Test"):
        Dataset("selects on test data", dataset.train, dataset.test, dataset.test, 2)


def test_checksum_is_the_stated_one_and_sees_every_byte_label_and_part():
    dataset = from_arrays((IMAGES, LABELS), (IMAGES[:4], LABELS[:4]))
    digest = hashlib.sha256()
    for kind, inputs, targets in (("Train", IMAGES, LABELS), ("Test", IMAGES[:4], LABELS[:4])):
        digest.update(f"{kind} |u1 {inputs.shape};".encode() + inputs.tobytes())
        digest.update(f"{kind} <i8 {targets.shape};".encode() + targets.astype(np.int64).tobytes())
    assert dataset.checksum == digest.hexdigest()
    changed = IMAGES.copy()
    changed[19, 1, 1] ^= 1
    flipped = LABELS.copy()
    flipped[0] = 1
    others = [
        from_arrays((changed, LABELS), (IMAGES[:4], LABELS[:4])),
        from_arrays((IMAGES, flipped), (IMAGES[:4], LABELS[:4])),
        from_arrays((IMAGES[:4], LABELS[:4]), (IMAGES, LABELS)),
        from_arrays((IMAGES, LABELS), (IMAGES[:4], LABELS[:4]), validation=0.2),
    ]
    assert len({dataset.checksum, *(other.checksum for other in others)}) == 5


def broken_floats(value):
    images = IMAGES / 255
    images[3, 1, 0] = value
    images[7, 0, 0] = value
    return images


REFUSED_INPUTS = {
    "nan": (broken_floats(np.nan), ValueError, r"2 values are NaN or infinite, the first at index \(3, 1, 0\)"),
    "infinite": (broken_floats(np.inf), ValueError, r"2 values are NaN or infinite, the first at index \(3, 1, 0\)"),
    "pixels as floats": (IMAGES.astype(float), ValueError, "run from 0 to 79; divide by 255"),
    "negative": (broken_floats(-0.5), ValueError, r"must lie in \[0, 1\]"),
    "wide integers": (IMAGES.astype(np.int64), TypeError, "dtype int64"),
    "no samples": (IMAGES[:0], ValueError, "non-empty"),
    "a flat list": (IMAGES.ravel()[:20], ValueError, "non-empty array"),
    "too few": (IMAGES[:19], ValueError, "19 inputs and 20 targets"),
    "names": (np.array([["a"]] * 20), TypeError, "dtype <U1"),
}


@pytest.mark.parametrize("case", REFUSED_INPUTS)
@pytest.mark.parametrize("part", ["train", "test"])
def test_refuses_inputs_that_cannot_be_used(case, part):
    inputs, error, message = REFUSED_INPUTS[case]
    good, bad = (IMAGES / 255, LABELS), (inputs, LABELS)
    with pytest.raises(error, match=message) as caught:
        from_arrays(**{"train": good, "test": good, part: bad})
    assert part in str(caught.value)


REFUSED_TARGETS = {
    "from one": (LABELS + 1, None, ValueError, "subtract 1"),
    "from one, classes given": (LABELS + 1, 2, ValueError, "subtract 1"),
    "gap": (LABELS * 3, None, ValueError, r"2 of them \(1, 2\) never occur"),
    "too large": (LABELS * 3, 3, ValueError, "below num_classes=3, but label 3 stands at index 1"),
    "negative": (LABELS - 1, None, ValueError, "10 are negative, the first is -1 at index 0"),
    "fractions": (LABELS + 0.5, None, TypeError, "dtype is float64"),
    "names": (np.array(["cat", "dog"] * 10), None, TypeError, "return_inverse"),
    "one-hot": (np.eye(2, dtype=int)[LABELS], None, ValueError, "argmax"),
    "empty": (LABELS[:0], None, ValueError, "non-empty"),
}


@pytest.mark.parametrize("case", REFUSED_TARGETS)
def test_refuses_labels_that_cannot_be_used(case):
    targets, num_classes, error, message = REFUSED_TARGETS[case]
    with pytest.raises(error, match=message):
        from_arrays((IMAGES, targets), (IMAGES, LABELS), num_classes=num_classes)


def test_refuses_a_test_label_that_training_never_shows():
    with pytest.raises(ValueError, match=r"2 of them|1 of them"):
        from_arrays((IMAGES, LABELS), (IMAGES, LABELS + 1))
    with pytest.raises(ValueError, match="test targets must be below num_classes=2"):
        from_arrays((IMAGES, LABELS), (IMAGES, LABELS + 1), num_classes=2)


def test_gaps_are_allowed_where_the_user_gives_the_number_of_classes():
    assert from_arrays((IMAGES, LABELS * 3), (IMAGES, LABELS), num_classes=5).num_classes == 5


def test_refuses_parts_of_different_shape_or_dtype_and_things_that_are_no_pair():
    with pytest.raises(ValueError, match="one shape and dtype"):
        from_arrays((IMAGES, LABELS), (IMAGES.reshape(20, 4), LABELS))
    with pytest.raises(ValueError, match="one shape and dtype"):
        from_arrays((IMAGES, LABELS), (IMAGES / 255, LABELS))
    with pytest.raises(TypeError, match="pair"):
        from_arrays(IMAGES, (IMAGES, LABELS))


def test_carves_exactly_and_without_loss():
    train = Train(IMAGES, LABELS.astype(np.int64))
    kept, held_out = carve_validation(train, 0.2, seed=3)
    assert (len(kept), len(held_out)) == (16, 4)
    assert np.bincount(held_out.targets).tolist() == [2, 2]
    both = np.concatenate([kept.inputs, held_out.inputs])
    assert sorted(image.tobytes() for image in both) == sorted(image.tobytes() for image in IMAGES)
    assert carve_validation(train, 0.0, seed=3) == (train, None)


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 1.5, float("nan")])
def test_refuses_a_validation_fraction_out_of_range(fraction):
    with pytest.raises(ValueError, match="from 0 up to"):
        carve_validation(Train(IMAGES, LABELS.astype(np.int64)), fraction, seed=0)


def test_refuses_a_carving_that_starves_a_class():
    with pytest.raises(ValueError, match="every class a sample on both sides"):
        carve_validation(Train(IMAGES, LABELS.astype(np.int64)), 0.05, seed=0)
