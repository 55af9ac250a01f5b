"""The episodic memory: uniform or balanced, bounded to the byte, the same after a checkpoint."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2
from tiny_runs import foreign_network, same_tensors, small_data
from torch import nn

from continual.batches import Batch, as_tensors
from continual.data import Train, from_arrays
from continual.memory import Layout, Memory, layout_of
from continual.memory_policies import (
    ClassBalanced,
    Reservoir,
    TaskBalanced,
    balanced_selection,
    ranks_within,
    reservoir_slots,
)
from continual.scenarios import permuted

CPU = torch.device("cpu")
POLICIES = [Reservoir, ClassBalanced, TaskBalanced]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def layout(stored=torch.float32, given=torch.float32, with_logits=False):
    return Layout((2,), stored, given, 5, CPU, with_logits)


def numbered(numbers, classes=5, tasks=3):
    """Samples that carry their number in every column."""
    numbers = torch.as_tensor(numbers)
    inputs = torch.stack([numbers, -numbers], 1).float()
    active = torch.arange(5) <= (numbers % 5)[:, None]
    return Batch(inputs, numbers % classes, active, numbers % tasks)


def fill(memory, num, batch_size=7, seed=0, start=0, logits=False):
    source = generator(seed)
    for chosen in torch.arange(start, start + num).split(batch_size):
        memory.insert(numbered(chosen), source, torch.stack([chosen.float()] * 5, 1) if logits else None)
    return memory


def held_numbers(memory):
    return memory.columns["inputs"][:, 0].long().tolist()


def too_unlikely(counts, expected):
    """Whether a chi-square test rejects equal inclusion at 0.001."""
    statistic = float((((counts - expected) ** 2) / expected).sum())
    return chi2.sf(statistic, len(counts) - 1) < 1e-3


# The reservoir


@pytest.mark.parametrize("batch_size", [1, 7, 64, 100])
def test_a_batch_is_placed_as_if_its_samples_had_come_one_by_one(batch_size):
    slots, source, reference = [None] * 20, generator(3), generator(3)
    for start in range(0, 100, batch_size):
        numbers = range(start, min(start + batch_size, 100))
        found = dict(zip(*(part.tolist() for part in reservoir_slots(start, len(numbers), 20, source)), strict=True))
        wanted = {}
        uniform = torch.rand(len(numbers), generator=reference, dtype=torch.float64).tolist()
        for place, number in enumerate(numbers):
            slot = number if number < 20 else int(uniform[place] * (number + 1))
            if slot < 20:
                wanted[slot] = place
                slots[slot] = number
        assert found == wanted
    memory = fill(Memory(layout(), Reservoir(), 20), 100, batch_size, seed=3)
    assert held_numbers(memory) == slots


def inclusions(repeats, restored_counter=None, length=1000, capacity=50, batch_size=250):
    """How often each arrival and each slot's final arrival was held; optionally the counter is lost in mid-stream."""
    counts, source = np.zeros(length), generator(11)
    for _ in range(repeats):
        slots = np.full(capacity, -1)
        seen = 0
        for start in range(0, length, batch_size):
            if restored_counter is not None and start == length // 2:
                seen = restored_counter
            placed, sources = reservoir_slots(seen, batch_size, capacity, source)
            slots[placed.numpy()] = start + sources.numpy()
            seen += batch_size
        counts[slots] += 1
    return counts


def test_every_arrival_is_held_with_equal_probability():
    repeats, length, capacity = 2000, 1000, 50
    counts = inclusions(repeats)
    assert counts.sum() == repeats * capacity
    expected = repeats * capacity / length
    assert not too_unlikely(counts / (1 - capacity / length), expected / (1 - capacity / length))
    blocks = counts.reshape(20, 50).sum(1)
    assert not too_unlikely(blocks, expected * 50)
    # the negative control: a counter restored to the capacity lets too many late samples in
    damaged = inclusions(200, restored_counter=capacity).reshape(20, 50).sum(1)
    assert too_unlikely(damaged, 200 * capacity / 20)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cut", [5, 30, 77])
def test_a_memory_saved_in_mid_stream_goes_on_as_if_it_had_not_been(policy, cut):
    whole, source = Memory(layout(with_logits=True), policy(), 30), generator(1)
    first, again = Memory(layout(with_logits=True), policy(), 30), generator(1)
    for start in range(0, 100, 1):
        batch, logits = numbered([start]), torch.full((1, 5), float(start))
        whole.insert(batch, source, logits)
        if start == cut:
            restored = Memory(layout(with_logits=True), policy(), 30)
            restored.load_state_dict({name: part.clone() for name, part in first.state_dict().items()})
            assert same_tensors(restored.state_dict(), first.state_dict())
            first = restored
        first.insert(batch, again, logits)
    assert same_tensors(whole.state_dict(), first.state_dict())
    assert int(whole.state_dict()["seen"]) == 100


# Balance


def reference_selection(groups, keys, capacity):
    """Sort everything that ever came: by rank within the group, then by key."""
    ranked = []
    for group in set(groups):
        members = sorted(
            (key, place) for place, (key, other) in enumerate(zip(keys, groups, strict=True)) if other == group
        )
        ranked += [(rank, key, place) for rank, (key, place) in enumerate(members)]
    return sorted(place for _, _, place in sorted(ranked)[:capacity])


streams = st.lists(st.integers(0, 4), min_size=1, max_size=60)


@given(streams, st.integers(1, 25), st.integers(1, 9))
def test_what_a_balanced_memory_holds_is_what_sorting_the_whole_stream_gives(groups, capacity, batch_size):
    memory, source = Memory(layout(), ClassBalanced(), capacity), generator(5)
    keys, targets = [], torch.tensor(groups)
    for chosen in torch.arange(len(groups)).split(batch_size):
        keys += torch.randint(2**62, (len(chosen),), generator=source.clone_state()).tolist()
        memory.insert(numbered(chosen)._replace(targets=targets[chosen]), source)
    assert sorted(held_numbers(memory)) == reference_selection(groups, keys, capacity)
    there, held = np.bincount(groups, minlength=5), np.bincount(memory.columns["targets"], minlength=5)
    level = max(held)
    assert all(count == total or count >= level - 1 for count, total in zip(held, there, strict=True))
    assert held.sum() == min(capacity, len(groups))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), min_size=1, max_size=30), st.integers(0, 30))
def test_ranks_and_selection_follow_their_definition(samples, capacity):
    groups, keys = (torch.tensor(column) for column in zip(*samples, strict=True))
    ordered = [(int(g), int(k), place) for place, (g, k) in enumerate(zip(groups, keys, strict=True))]
    wanted = [sum(other[0] == own[0] and other[1:] < own[1:] for other in ordered) for own in ordered]
    assert ranks_within(groups, keys).tolist() == wanted
    assert int(balanced_selection(groups, keys, capacity).sum()) == min(capacity, len(samples))


@pytest.mark.parametrize(("policy", "column"), [(ClassBalanced, "targets"), (TaskBalanced, "task")])
def test_groups_that_come_one_after_another_end_within_one(policy, column):
    memory, source = Memory(layout(), policy(), 20), generator()
    for group in range(3):
        batch = numbered(torch.arange(200) + 200 * group)
        memory.insert(batch._replace(**{column: torch.full((200,), group)}), source)
        counts = np.bincount(memory.columns[column])
        assert len(memory) == 20
        assert counts.max() - counts.min() <= 1


def test_within_a_class_every_sample_is_equally_likely():
    counts, repeats, source = np.zeros(60), 250, generator(2)
    for _ in range(repeats):
        memory = Memory(layout(), ClassBalanced(), 10)
        for chosen in torch.arange(60).split(30):
            memory.insert(numbered(chosen)._replace(targets=(chosen >= 40).long()), source)
        counts[held_numbers(memory)] += 1
    assert counts[:40].sum() == counts[40:].sum() == 5 * repeats
    for part in (counts[:40], counts[40:]):
        share = 5 / len(part)
        assert not too_unlikely(part / (1 - share), repeats * share / (1 - share))


# Bounds


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("capacity", [0, 1, 13, 50])
def test_the_bound_is_never_exceeded_and_columns_stay_together(policy, capacity):
    memory, source = Memory(layout(with_logits=True), policy(), capacity), generator()
    for step, chosen in enumerate(torch.arange(150).split(11)):
        memory.insert(numbered(chosen), source, torch.stack([chosen.float()] * 5, 1))
        assert len(memory) == min(capacity, 11 * step + len(chosen))
        assert all(len(column) <= max(capacity, 1) for column in memory._held.values()), "nor is more room held"
    numbers = torch.tensor(held_numbers(memory), dtype=torch.int64)
    assert len(set(numbers.tolist())) == capacity
    wanted = numbered(numbers)
    for name in ("inputs", "targets", "active", "task"):
        assert torch.equal(memory.columns[name], getattr(wanted, name))
    assert torch.equal(memory.columns["logits"], torch.stack([numbers.float()] * 5, 1))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_memory_larger_than_the_stream_holds_everything_once(policy):
    memory = fill(Memory(layout(), policy(), 1000), 150)
    assert sorted(held_numbers(memory)) == list(range(150))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("with_logits", [False, True])
@pytest.mark.parametrize("stored", [torch.uint8, torch.float32])
@pytest.mark.parametrize("given_bytes", [0, 100, 777, 5000])
def test_bytes_bound_the_memory_exactly(policy, with_logits, stored, given_bytes):
    memory = Memory(layout(stored, with_logits=with_logits), policy(), capacity_bytes=given_bytes)
    fill(memory, 300, logits=with_logits)
    counted = sum(part.nbytes for part in memory.state_dict().values()) if given_bytes else 0
    assert memory.stored_bytes == counted <= given_bytes
    assert given_bytes == 0 or counted + memory.bytes_per_sample > given_bytes, "one more would not fit"


def test_the_memory_of_a_long_stream_does_not_grow():
    memory, source = Memory(layout(), Reservoir(), 20), generator()
    sizes = set()
    for _ in range(300):
        memory.insert(numbered(torch.arange(30)), source)
        sizes.add((memory.stored_bytes, sum(column.nbytes for column in memory._held.values())))
    assert len(sizes) == 1
    assert memory.seen == 9_000


# What is stored


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_every_pixel_value_survives_a_byte_exactly(dtype):
    grey = np.arange(256, dtype=np.uint8).reshape(128, 2)
    inputs, targets = as_tensors(Train(grey, np.zeros(128, np.int64)), CPU, dtype)
    memory = Memory(layout(torch.uint8, dtype), Reservoir(), 128)
    memory.insert(Batch(inputs, targets, None, targets), generator())
    assert torch.equal(memory.columns["inputs"], torch.from_numpy(grey))
    given = memory.take(torch.arange(128)).batch.inputs
    assert given.dtype == dtype
    assert torch.equal(given, inputs)


@pytest.mark.parametrize(
    ("raw", "dtype", "stored"),
    [
        (np.uint8, torch.float32, torch.uint8),
        (np.uint8, torch.bfloat16, torch.uint8),
        (np.float32, torch.float32, torch.float32),
        (np.float32, torch.float64, torch.float32),
        (np.float32, torch.bfloat16, torch.bfloat16),
    ],
)
def test_inputs_are_stored_as_the_data_has_them(raw, dtype, stored):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (40, 3, 3), dtype=np.uint8)
    inputs = pixels if raw == np.uint8 else random.random((40, 3, 3), dtype=np.float32)
    part = (inputs, np.arange(40) % 4)
    sequence = permuted(from_arrays(part, part, num_classes=4), 2)
    found = layout_of(nn.Linear(9, 4).to(dtype), sequence)
    assert (found.stored, found.given, found.sample, found.num_classes) == (stored, dtype, (3, 3), 4)
    seen, targets = as_tensors(sequence.tasks[1].train, CPU, dtype)
    memory = Memory(found, Reservoir(), 40)
    memory.insert(Batch(seen, targets, None, targets), generator())
    assert torch.equal(memory.take(torch.arange(40)).batch.inputs, seen), "what comes out is what went in, to the bit"
    assert memory.columns["active"].all(), "no mask is a mask of all rows"


def test_a_mask_that_all_share_is_kept_with_every_sample():
    memory = Memory(layout(), Reservoir(), 9)
    active = torch.tensor([True, False, True, False, True])
    memory.insert(numbered(torch.arange(4))._replace(active=active), generator())
    assert torch.equal(memory.take(torch.tensor([2, 0])).batch.active, active.expand(2, 5))


def test_draws_are_uniform_without_replacement():
    memory = fill(Memory(layout(), Reservoir(), 30), 30)
    source, counts = generator(4), np.zeros(30)
    for _ in range(400):
        drawn = memory.draw(6, source).batch.inputs[:, 0].long().tolist()
        assert len(set(drawn)) == 6
        counts[drawn] += 1
    assert not too_unlikely(counts / 0.8, 400 * 6 / 30 / 0.8)
    assert sorted(memory.draw(99, source).batch.inputs[:, 0].tolist()) == list(range(30))
    assert len(Memory(layout(), Reservoir(), 30).draw(5, source).batch.targets) == 0


def test_what_is_drawn_can_be_changed_without_changing_the_memory():
    memory = fill(Memory(layout(torch.float64, torch.float64), Reservoir(), 10), 10)
    before = {name: part.clone() for name, part in memory.state_dict().items()}
    drawn = memory.draw(10, generator()).batch
    for part in (drawn.inputs, drawn.targets, drawn.active):
        part.zero_()
    assert same_tensors(before, memory.state_dict())


# Mistakes


def test_a_state_that_does_not_fit_is_refused():
    memory = fill(Memory(layout(), Reservoir(), 10), 30)
    state = memory.state_dict()
    for changed in (
        state | {"seen": torch.tensor(5)},
        state | {"inputs": state["inputs"][:, :1]},
        state | {"inputs": state["inputs"].double()},
        state | {"logits": torch.zeros(10, 5)},
        {name: part for name, part in state.items() if name != "task"},
    ):
        with pytest.raises(ValueError, match="memory's state needs"):
            Memory(layout(), Reservoir(), 10).load_state_dict(changed)
    with pytest.raises(ValueError, match="memory's state needs"):
        Memory(layout(), Reservoir(), 11).load_state_dict(state)


@pytest.mark.parametrize(
    "bounds", [{}, {"capacity": 3, "capacity_bytes": 300}, {"capacity": -1}, {"capacity_bytes": -1}]
)
def test_exactly_one_bound_is_needed(bounds):
    with pytest.raises(ValueError, match=r"exactly one|0 or more"):
        Memory(layout(), Reservoir(), **bounds)


def test_bytes_that_hold_no_sample_are_refused():
    with pytest.raises(ValueError, match="at least one sample of 29 bytes"):
        Memory(layout(), Reservoir(), capacity_bytes=36)
    assert Memory(layout(), Reservoir(), capacity_bytes=37).capacity == 1


def test_logits_that_are_missing_are_named():
    with pytest.raises(ValueError, match="keeps logits"):
        Memory(layout(with_logits=True), Reservoir(), 3).insert(numbered([1]), generator())


def test_it_works_on_every_device(device):
    for policy in POLICIES:
        here = Memory(layout()._replace(device=device), policy(), 17)
        there = Memory(layout(), policy(), 17)
        one, other = generator(), generator()
        for chosen in torch.arange(90).split(8):
            batch = numbered(chosen)
            here.insert(Batch(*(part.to(device) for part in batch[:4])), one)
            there.insert(batch, other)
        assert same_tensors({name: part.cpu() for name, part in here.state_dict().items()}, there.state_dict())


def test_the_layout_of_a_foreign_network_is_that_of_its_first_parameter():
    found = layout_of(foreign_network(), permuted(small_data(), 2, "class"), with_logits=True)
    assert found == Layout((8, 8), torch.float32, torch.float32, 20, CPU, True)
    assert len(list(itertools.chain(small_data().input_shape))) == 2
