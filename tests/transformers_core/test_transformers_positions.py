"""Positions against their closed forms: tables, sines, rotations, buckets, slopes, offsets, untied places, segments."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformers_core.offsets import Offsets
from transformers_core.positions.absolute import LearnedPositions, SinusoidalPositions, TokenOrder
from transformers_core.positions.bilevel import Segmenter, bilevel_positions, clamp_rate
from transformers_core.positions.relative import (
    BucketBias,
    OffsetTable,
    SlopeBias,
    SumBias,
    distance_bucket,
    geometric_slopes,
)
from transformers_core.positions.rotary import Rotary, UnitLength
from transformers_core.positions.untied import UntiedBias, reset_first, untied_scale
from transformers_core.types import Positions, consecutive, segment_index

CPU = torch.device("cpu")
SIX = consecutive(6, CPU)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_sines_are_those_of_the_formula():
    table = SinusoidalPositions(4)(SIX)[0]
    for t in range(6):
        for m in range(2):
            angle = t * 10000 ** (-2 * m / 4)
            assert table[t, 2 * m] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[t, 2 * m + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_tokens_are_numbered_on_from_where_the_last_call_ended():
    order = TokenOrder()
    first, state = order(torch.zeros(2, 3), None)
    second, state = order(torch.zeros(2, 2), state)
    assert first.place.tolist() == [[0, 1, 2]]
    assert second.place.tolist() == [[3, 4]]
    assert state == 5


def test_a_sequence_longer_than_the_table_is_refused_with_what_to_do():
    with pytest.raises(ValueError, match="4 rows, got a sequence of 6 tokens"):
        LearnedPositions(4, 8)(SIX)
    with pytest.raises(ValueError, match="larger max_length"):
        UntiedBias(2, 8, 4)(SIX, SIX)
    with pytest.raises(ValueError, match="up to 4 tokens, got 6"):
        OffsetTable(2, 4)(SIX, SIX)
    with pytest.raises(ValueError, match=r"grid of \(2, 2\) tokens was announced, got 6"):
        OffsetTable(2, 2, 2)(SIX, SIX)


def test_odd_widths_are_refused_where_channels_come_in_pairs():
    with pytest.raises(ValueError, match="must be even, got 5"):
        SinusoidalPositions(5)
    with pytest.raises(ValueError, match="must be even, got 3"):
        Rotary(3)


def test_a_rotation_is_a_complex_multiplication():
    x = drawn(1, 2, 6, 8)
    angle = SIX.place[0, :, None] * 10000 ** (-torch.arange(0, 8, 2) / 8).double()
    turned = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(torch.ones_like(angle), angle)
    expected = torch.cat((turned.real, turned.imag), -1)
    assert torch.allclose(Rotary(8).double()(x, SIX), expected, atol=1e-6)


@given(shift=st.integers(0, 50))
def test_rotated_scores_see_the_difference_of_places_only(shift):
    query, key, turn = drawn(1, 1, 6, 8, seed=1), drawn(1, 1, 6, 8, seed=2), Rotary(8)
    turn.frequency = turn.frequency.double()
    moved = Positions(SIX.place + shift)
    scores = turn(query, SIX) @ turn(key, SIX).mT
    assert torch.allclose(turn(query, moved) @ turn(key, moved).mT, scores, atol=1e-12)
    assert torch.allclose(turn(query, SIX).norm(dim=-1), query.norm(dim=-1))


def test_unit_length_is_unit_length():
    assert torch.allclose(UnitLength()(drawn(1, 1, 6, 8), SIX).norm(dim=-1), torch.ones(1, 1, 6).double())


def bucket_by_hand(offset, buckets, far, bidirectional):
    """One offset at a time, in T5's words: near ones exactly, far ones by logarithm."""
    start = 0
    if bidirectional:
        buckets //= 2
        start = buckets if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    near = buckets // 2
    if distance < near:
        return start + distance
    grown = near + int(math.log(distance / near) / math.log(far / near) * (buckets - near) + 1e-9)
    return start + min(grown, buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_t5s_one_offset_at_a_time(bidirectional):
    offsets = torch.tensor([o for o in range(-200, 201) if o not in (16, -16, 32, -32, 64, -64)])  # log on the edge
    found = distance_bucket(offsets, 32, 128, bidirectional=bidirectional).tolist()
    assert found == [bucket_by_hand(o, 32, 128, bidirectional) for o in offsets.tolist()]
    bias = BucketBias(3, bidirectional=bidirectional)
    assert bias(SIX, SIX)[0, :, 2, 4].equal(bias.table.weight[bucket_by_hand(2, 32, 128, bidirectional)])


def test_slopes_are_powers_of_two_and_interpolate_otherwise():
    assert geometric_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]
    expected = [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]
    assert geometric_slopes(6).tolist() == pytest.approx(expected)
    bias = SlopeBias(8, factor=3.0)(SIX, SIX)
    assert bias.shape == (1, 8, 6, 6)
    assert bias[0, 1, 5, 2] == -3.0 * 0.25 * 3


def test_biases_add():
    both = SumBias(SlopeBias(2), BucketBias(2))
    assert torch.equal(both(SIX, SIX), both.parts[0](SIX, SIX) + both.parts[1](SIX, SIX))


def test_a_table_by_offset_serves_shorter_lines_from_its_middle():
    table = OffsetTable(1, 6)
    table.values.data = torch.arange(11.0)[None]
    bias = table(consecutive(3, CPU), consecutive(3, CPU))
    assert isinstance(bias, Offsets)
    assert bias.values.tolist() == [[3, 4, 5, 6, 7]]
    assert bias.dense()[0, 0].tolist() == [5, 6, 7]
    with pytest.raises(ValueError, match="without a cache"):
        table(consecutive(1, CPU), consecutive(3, CPU))


def test_untied_scores_are_products_of_projected_places():
    bias = UntiedBias(2, 8, 6).double()
    places = bias.norm(bias.table.weight)
    query, key = bias.query(places).view(6, 2, 4), bias.key(places).view(6, 2, 4)
    expected = torch.einsum("iak,jak->aij", query, key) / math.sqrt(2 * 4)
    assert torch.allclose(bias(SIX, SIX)[0], expected)
    assert untied_scale(4, terms=3) == pytest.approx(1 / math.sqrt(16))


def test_a_reset_makes_the_first_row_and_column_constant_and_the_row_wins():
    bias = reset_first(drawn(1, 2, 5, 5), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    assert bias[0, :, 0].tolist() == [[1.0] * 5, [2.0] * 5]
    assert bias[0, :, 1:, 0].tolist() == [[3.0] * 4, [4.0] * 4]
    assert torch.equal(bias[0, :, 1:, 1:], drawn(1, 2, 5, 5)[0, :, 1:, 1:])


SEPARATORS = torch.tensor([[0, 0, 1, 0, 0, 0, 1, 1, 0, 0]]).bool()


def test_places_in_segments_are_those_of_the_hand_table():
    positions, state = bilevel_positions(SEPARATORS, 100)
    assert positions.place.tolist() == [[0, 1, 2, 0, 1, 2, 3, 0, 0, 1]]
    assert positions.segment.tolist() == [[0, 0, 0, 1, 1, 1, 1, 2, 3, 3]]
    assert (state.place.item(), state.segment.item()) == (2, 3)


def test_places_beyond_the_table_are_clamped_and_the_rate_is_told():
    positions, _ = bilevel_positions(SEPARATORS, 2)
    assert positions.place.tolist() == [[0, 1, 1, 0, 1, 1, 1, 0, 0, 1]]
    assert clamp_rate(SEPARATORS, 2).item() == pytest.approx(0.3)


@given(
    bits=st.lists(st.lists(st.booleans(), min_size=12, max_size=12), min_size=1, max_size=3),
    cut=st.integers(0, 12),
    table=st.integers(1, 5),
)
def test_reading_piece_by_piece_gives_the_places_of_the_whole(bits, cut, table):
    separators = torch.tensor(bits)
    whole, end = bilevel_positions(separators, table)
    first, state = bilevel_positions(separators[:, :cut], table)
    second, other_end = bilevel_positions(separators[:, cut:], table, state)
    assert torch.equal(torch.cat((first.place, second.place), 1), whole.place)
    assert torch.equal(torch.cat((first.segment, second.segment), 1), whole.segment)
    assert all(torch.equal(a, b) for a, b in zip(end, other_end, strict=True))


@given(bits=st.lists(st.booleans(), min_size=1, max_size=20))
def test_places_are_those_of_a_loop(bits):
    index = segment = 0
    expected = []
    for separator in bits:
        expected.append((index, segment))
        index, segment = (0, segment + 1) if separator else (index + 1, segment)
    positions, _ = bilevel_positions(torch.tensor([bits]), 100)
    assert list(zip(positions.place[0].tolist(), positions.segment[0].tolist(), strict=True)) == expected


def test_text_is_cut_at_full_stops_and_lines_and_code_at_lines_only():
    tokens = torch.tensor([[1, 9, 2, 8, 3]])  # 9 a full stop, 8 a newline
    text, _ = Segmenter.of_text(full_stop=9, newline=8, max_index=5)(tokens, None)
    code, _ = Segmenter.of_code(newline=8, max_index=5)(tokens, None)
    assert text.segment.tolist() == [[0, 0, 1, 1, 2]]
    assert code.segment.tolist() == [[0, 0, 0, 0, 1]]
    with pytest.raises(ValueError, match="at least one place"):
        Segmenter([1], 0)


def test_segments_are_asked_for_by_name_where_there_are_none():
    with pytest.raises(ValueError, match="let a Segmenter locate"):
        segment_index(SIX)
