import importlib.util

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continual.data import japanese_vowels
from continual.data.japanese_vowels import JAPANESE_VOWELS_FILES, channel_range, padded, read_ts, scaled

installed = pytest.mark.skipif(JAPANESE_VOWELS_FILES[0].locate() is None, reason="sktime is not installed")

TEXT = """#A comment: with a colon
@dimensions 2
@classLabel true 1 2
@data
1.0,2.0,3.0:-1.0,0.5,0.25:2

4.0:2.0:1
"""


def test_a_hand_written_ts_file_is_read_time_first_with_labels_from_zero():
    sequences, labels = read_ts(TEXT)
    assert [sequence.tolist() for sequence in sequences] == [[[1.0, -1.0], [2.0, 0.5], [3.0, 0.25]], [[4.0, 2.0]]]
    assert labels.tolist() == [1, 0]
    assert labels.dtype == np.int64


def test_scaling_matches_a_hand_table_and_clips_what_training_never_showed():
    sequences, _ = read_ts(TEXT)
    low, high = channel_range(sequences)
    assert (low.tolist(), high.tolist()) == ([1.0, -1.0], [4.0, 2.0])
    np.testing.assert_allclose(scaled(sequences, low, high)[0], [[0, 0], [1 / 3, 0.5], [2 / 3, 1.25 / 3]])
    outside = scaled([np.array([[0.0, 3.0]])], low, high)[0]
    assert outside.tolist() == [[0.0, 1.0]]


def test_padding_is_silence_after_the_sequence():
    sequences, _ = read_ts(TEXT)
    whole = padded(sequences, 4)
    assert whole.tolist() == [[[1, -1], [2, 0.5], [3, 0.25], [0, 0]], [[4, 2], [0, 0], [0, 0], [0, 0]]]
    with pytest.raises(ValueError, match="num_frames must be at least 3"):
        padded(sequences, 2)


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6), channels=st.integers(1, 4))
def test_unpadded_again_a_sequence_is_what_it_was(lengths, channels):
    generator = np.random.default_rng(sum(lengths))
    sequences = [generator.random((length, channels)).astype(np.float32) for length in lengths]
    whole = padded(sequences, 9)
    for row, sequence, length in zip(whole, sequences, lengths, strict=True):
        np.testing.assert_array_equal(row[:length], sequence)
        assert not row[length:].any()


def lengths_in(part):
    """Frames up to the last that is not silence."""
    return [int(np.flatnonzero(utterance.any(axis=1))[-1]) + 1 for utterance in part.inputs]


@installed
def test_the_published_cut_and_its_counts():
    dataset = japanese_vowels()
    assert [part.inputs.shape for part in dataset.parts] == [(270, 29, 12), (370, 29, 12)]
    assert dataset.train.inputs.dtype == np.float32
    assert np.bincount(dataset.train.targets).tolist() == [30] * 9
    assert np.bincount(dataset.test.targets).tolist() == [31, 35, 88, 44, 29, 24, 40, 50, 29]
    assert dataset.num_classes == 9
    assert min(lengths_in(dataset.train) + lengths_in(dataset.test)) == 7
    assert max(lengths_in(dataset.train) + lengths_in(dataset.test)) == 29


@installed
def test_values_are_the_file_s_and_only_train_decides_the_scale():
    dataset = japanese_vowels()
    read = [read_ts(file.read().decode()) for file in JAPANESE_VOWELS_FILES]
    frames = [frame for utterance in read[0][0] for frame in utterance.tolist()]
    low = [min(frame[channel] for frame in frames) for channel in range(12)]
    high = [max(frame[channel] for frame in frames) for channel in range(12)]
    for part, (utterances, speakers) in zip(dataset.parts, read, strict=True):
        assert part.targets.tolist() == speakers.tolist()
        assert lengths_in(part) == [len(utterance) for utterance in utterances], "no voiced frame is all zeros"
        for number in (0, 100, -1):
            for tick, frame in enumerate(utterances[number]):
                expected = [min(max((x - a) / (b - a), 0), 1) for x, a, b in zip(frame, low, high, strict=True)]
                np.testing.assert_allclose(part.inputs[number, tick], expected, atol=1e-6)
    assert dataset.train.inputs.max(axis=(0, 1)).tolist() == [1.0] * 12


@installed
def test_speakers_differ_so_that_neighbours_in_train_tell_most_of_test():
    dataset = japanese_vowels()
    train, test = (part.inputs.reshape(len(part), -1) for part in dataset.parts)
    nearest = ((test[:, np.newaxis] - train) ** 2).sum(axis=2).argmin(axis=1)
    assert (dataset.train.targets[nearest] == dataset.test.targets).mean() > 0.8, "labels do not belong to the inputs"


@installed
def test_the_seed_decides_what_is_carved_and_nothing_else():
    whole, carved, other = japanese_vowels(), japanese_vowels(1, 0.2), japanese_vowels(2, 0.2)
    assert np.bincount(carved.validation.targets).tolist() == [6] * 9
    np.testing.assert_array_equal(carved.test.inputs, whole.test.inputs)
    assert japanese_vowels(7).checksum == whole.checksum
    assert carved.checksum == japanese_vowels(1, 0.2).checksum
    assert carved.checksum != other.checksum
    samples = {x.tobytes() for part in (carved.train, carved.validation) for x in part.inputs}
    assert samples == {x.tobytes() for x in whole.train.inputs}
    assert not samples & {x.tobytes() for x in whole.test.inputs}


def test_an_absent_package_is_told_with_the_extra_that_brings_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    with pytest.raises(ValueError, match=r"the package sktime .* run: pip install 'palimpsest\[temporal\]'"):
        japanese_vowels()
