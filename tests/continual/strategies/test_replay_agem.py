"""A-GEM: the projected gradient never conflicts, and the reference pass leaves no trace."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import NUM_TRAIN, POISSON, foreign_network, launch, records_of, same_tensors, weights_of
from torch import nn

import continual.strategies.agem as agem
from continual.batches import Batch
from continual.errors import UserError
from continual.objectives import CrossEntropy
from continual.strategies import AGEM
from continual.strategies.agem import project_conflict, reference_gradients
from neuro import LIF
from neuro.learning import BPTT, OTTT
from neuro.models import spiking_mlp

THREE = ("scenario.num_tasks=3", "epochs=2")


def parameters_with(gradients, dtype=torch.float64):
    found = []
    for gradient in gradients:
        parameter = nn.Parameter(torch.zeros(3, dtype=dtype))
        parameter.grad = None if gradient is None else torch.tensor(gradient, dtype=dtype)
        found.append(parameter)
    return found


def dot(ones, others):
    return sum(float((a * b).sum()) for a, b in zip(ones, others, strict=True) if a is not None and b is not None)


# The projection


numbers = st.lists(st.integers(-9, 9).map(float), min_size=3, max_size=3)
absent = st.none() | numbers


@given(st.lists(st.tuples(absent, absent), min_size=1, max_size=4))
def test_a_projected_gradient_never_conflicts(pairs):
    own, other = zip(*pairs, strict=True)
    parameters = parameters_with(own)
    before = [None if p.grad is None else p.grad.clone() for p in parameters]
    reference = [None if row is None else torch.tensor(row, dtype=torch.float64) for row in other]
    conflict = dot(before, reference)
    project_conflict(parameters, reference)
    after = [parameter.grad for parameter in parameters]
    assert dot(after, reference) >= -1e-6
    if conflict >= 0:
        for gradient, unchanged in zip(after, before, strict=True):
            assert gradient is unchanged is None or torch.equal(
                gradient, torch.zeros(3, dtype=torch.float64) if unchanged is None else unchanged
            )
    else:
        squares = dot(reference, reference)
        for gradient, unchanged, other in zip(after, before, reference, strict=True):
            if other is None:
                assert gradient is unchanged is None or torch.equal(gradient, unchanged)
                continue
            wanted = (0 if unchanged is None else unchanged) - conflict / (squares + 1e-7) * other
            torch.testing.assert_close(gradient, wanted)


def test_the_projection_by_hand():
    (parameter,) = parameters_with([[1.0, 2.0, 0.0]])
    project_conflict([parameter], [torch.tensor([0.0, -4.0, 0.0], dtype=torch.float64)])
    assert parameter.grad.tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-7)
    (parameter,) = parameters_with([[1.0, 2.0, 0.0]])
    project_conflict([parameter], [torch.zeros(3, dtype=torch.float64)])
    assert parameter.grad.tolist() == [1.0, 2.0, 0.0], "a reference of nothing divides by no zero"


def test_half_precision_is_projected_in_single():
    parameters = [nn.Parameter(torch.zeros(4096, dtype=torch.bfloat16))]
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(4096, generator=generator).to(torch.bfloat16)
    reference = (-own + 0.5 * torch.randn(4096, generator=generator)).to(torch.bfloat16)
    parameters[0].grad = own.clone()
    project_conflict(parameters, [reference])
    assert parameters[0].grad.dtype == torch.bfloat16
    exact, other = own.double(), reference.double()
    wanted = exact - (exact @ other) / (other @ other + 1e-7) * other
    torch.testing.assert_close(parameters[0].grad.double(), wanted, rtol=2**-8, atol=1e-3)


# The reference gradient


def spiking(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return spiking_mlp((6,), 4, hidden=(12, 10), neuron=LIF(threshold=0.3), time_steps=4).double()


def some_batch(seed=0, num=9, width=6):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(num, width, generator=generator, dtype=torch.float64)
    return Batch(inputs, torch.randint(0, 4, (num,), generator=generator), None, torch.zeros(num, dtype=torch.int64))


@pytest.mark.parametrize("rule", [BPTT(), OTTT(), OTTT(every_tick=True)])
def test_the_reference_is_the_rules_own_gradient_at_these_weights(rule):
    model, batch = spiking(), some_batch()
    whole = rule if isinstance(rule, BPTT) else OTTT()
    for _ in whole.updates(model, batch, CrossEntropy(), lambda outputs, seen: None):
        pass
    wanted = [parameter.grad.clone() for parameter in model.parameters()]
    own = [torch.full_like(parameter, 3.0) for parameter in model.parameters()]
    for parameter, gradient in zip(model.parameters(), own, strict=True):
        parameter.grad = gradient
    found = reference_gradients(model, batch, rule, CrossEntropy())
    for got, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-14)
    for parameter, gradient in zip(model.parameters(), own, strict=True):
        assert parameter.grad is gradient, "the batch's own gradient is back"
        assert (gradient == 3).all()


def test_the_reference_pass_moves_no_statistics_and_uses_those_of_training():
    model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 4)).double()
    model(some_batch(1).inputs)
    before = copy.deepcopy(model.state_dict())
    found = reference_gradients(model, some_batch(), BPTT(), CrossEntropy())
    assert same_tensors(model.state_dict(), before)
    twin = copy.deepcopy(model)
    torch.autograd.backward(CrossEntropy().loss(twin(some_batch().inputs), some_batch()))
    for got, parameter in zip(found, twin.parameters(), strict=True):
        torch.testing.assert_close(got, parameter.grad)
    assert not same_tensors(twin.state_dict(), before), "the control: a plain pass moves them"


def test_a_parameter_that_gets_no_gradient_has_no_reference():
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 4)).double()
    model[0].bias.requires_grad_(False)
    found = reference_gradients(model, some_batch(), BPTT(), CrossEntropy())
    assert [gradient is None for gradient in found] == [False, True, False, False]


# Whole runs


@pytest.mark.parametrize("network", ["poisson", "foreign", "online"])
def test_a_reference_that_never_conflicts_leaves_training_to_the_bit(network, tmp_path, monkeypatch):
    """Streams, statistics and the traces of a rule that is between two ticks: nothing is touched by the pass."""
    extra = {"poisson": POISSON, "online": ("rule=ottt_online",)}.get(network, ())

    def run(strategy):
        own = {"model": foreign_network()} if network == "foreign" else {}
        return weights_of(launch(tmp_path, *extra, f"strategy={strategy}", own=own).folder)[-1]

    calls = []
    with monkeypatch.context() as patch:
        patch.setattr(agem, "project_conflict", lambda parameters, reference: calls.append(len(reference)))
        untouched = run("agem")
    assert calls
    assert same_tensors(untouched, run("naive"))


def test_with_projection_a_run_differs_and_forgets_less_loss(tmp_path, monkeypatch):
    conflicts = []
    original = agem.project_conflict

    def counting(parameters, reference):
        pairs = [(p.grad, r) for p, r in zip(parameters, reference, strict=True) if r is not None]
        conflicts.append(dot(*zip(*pairs, strict=True)) < 0)
        original(parameters, reference)
        after = dot(*zip(*[(p.grad, r) for p, r in zip(parameters, reference, strict=True)], strict=True))
        assert after >= -1e-4

    monkeypatch.setattr(agem, "project_conflict", counting)
    result = launch(tmp_path, *THREE, "strategy=agem")
    assert any(conflicts)
    assert not all(conflicts)
    assert not same_tensors(
        weights_of(result.folder)[-1], weights_of(launch(tmp_path, *THREE, "strategy=naive").folder)[-1]
    )


@pytest.mark.parametrize("bound", ["capacity", "capacity_bytes"])
def test_a_memory_of_nothing_is_naive_training_to_the_bit(bound, tmp_path):
    none = {"capacity": None, "capacity_bytes": None} | {bound: 0}
    ours = launch(tmp_path, own={"strategy": AGEM(**none)})
    naive = launch(tmp_path, "strategy=naive")
    assert same_tensors(weights_of(ours.folder)[-1], weights_of(naive.folder)[-1])
    assert ours.metrics["stored_bytes"] == ours.metrics["learning_operations"] == 0


@pytest.mark.parametrize("class_balanced", [False, True])
@pytest.mark.parametrize("mode", ["task", "domain", "class"])
def test_every_task_leaves_as_many_samples(mode, class_balanced, tmp_path):
    strategy = AGEM(100, class_balanced=class_balanced)
    chosen = ("scenario.num_tasks=3", f"scenario.mode={mode}", "model=relu_mlp")
    result = launch(tmp_path, *chosen, own={"strategy": strategy})
    columns = strategy._memory.columns
    assert columns["task"].bincount().tolist() == [33, 33, 33]
    assert len({row.numpy().tobytes() for row in columns["inputs"]}) == 99
    assert columns["active"][torch.arange(99), columns["targets"]].all()
    if class_balanced:
        for task in range(3):
            counts = columns["targets"][columns["task"] == task].bincount()
            counts = counts[counts > 0]
            assert len(counts) == 10
            assert counts.max() - counts.min() <= 1
    assert result.metrics["stored_bytes"] == sum(part.nbytes for part in columns.values()) + 8


def test_operations_count_passes_and_projections(tmp_path):
    chosen = ("model=relu_mlp", "strategy=agem", "strategy.reference_size=20", "batch_size=50", "scenario.num_tasks=3")
    result = launch(tmp_path, *chosen)
    weights = sum(tensor.numel() for tensor in weights_of(result.folder)[0].values())
    ends = [line["learning_operations"] for line in records_of(result.folder) if line["event"] == "task_end"]
    steps = NUM_TRAIN // 50
    assert ends == [0, steps * (20 * 3 * weights + 3 * weights), 2 * steps * (20 * 3 * weights + 3 * weights)]


def test_mistakes_are_named(tmp_path):
    with pytest.raises(UserError, match="keeps samples of each of 3 tasks, got room for 2"):
        launch(tmp_path, *THREE, own={"strategy": AGEM(2)})
    with pytest.raises(ValueError, match="reference_size must be at least 1, got 0"):
        AGEM(reference_size=0)
    with pytest.raises(ValueError, match="exactly one of capacity"):
        AGEM(capacity_bytes=3)


@pytest.mark.parametrize("rule", ["ottt", "ottt_online", "sltt", "dsr", "eprop"])
def test_every_rule_gives_a_reference(rule, tmp_path):
    result = launch(tmp_path, f"rule={rule}", "strategy=agem")
    assert result.matrices.num_tasks == 2
    assert result.metrics["learning_operations"] > 0
