"""ER, DER and DER++: what is replayed, how it is scored, and that nothing replayed is nothing changed."""

import pytest
import torch
import torch.nn.functional as F
from tiny_runs import NUM_TRAIN, described, foreign_network, launch, records_of, same_tensors, small_data, weights_of

from continual.batches import Batch, gather, training_rows
from continual.config import build
from continual.errors import UserError
from continual.memory_policies import ClassBalanced, TaskBalanced
from continual.objectives import CrossEntropy
from continual.scenarios import permuted
from continual.strategies import DER, ER, Concat, Setting, Sum
from continual.strategies.der import squared_distance
from continual.strategies.replay_stream import equal_weights, joined
from neuro import LIF
from neuro.lateral import last_linear
from neuro.learning import BPTT, OTTT
from neuro.models import spiking_mlp

CPU = torch.device("cpu")
ONLINE = ("rule=ottt_online",)
THREE = ("scenario.num_tasks=3", "epochs=2")


def final(tmp_path, *overrides, **own):
    result = launch(tmp_path, *overrides, own=own)
    return weights_of(result.folder)[-1], result.matrices.task_agnostic.tolist()


# Nothing replayed, nothing changed


@pytest.mark.parametrize(
    ("network", "bound", "chosen"),
    [
        ("spiking", "capacity", ()),
        ("foreign", "capacity_bytes", ("scenario.mode=class",)),
        ("spiking", "capacity", (*ONLINE, "scenario.mode=task")),
    ],
)
def test_a_memory_of_nothing_is_naive_training_to_the_bit(network, bound, chosen, tmp_path):

    def run(strategy):
        own = {"model": foreign_network(num_classes=20)} if network == "foreign" else {}
        return final(tmp_path, *chosen, strategy=strategy, **own)

    naive = run(build(described("strategy=naive")["strategy"], "strategy"))
    none = {"capacity": None, "capacity_bytes": None} | {bound: 0}
    for strategy in (ER(**none), ER(**none, form=Sum()), DER(**none)):
        weights, scores = run(strategy)
        assert same_tensors(weights, naive[0])
        assert scores == naive[1]
    assert not same_tensors(run(ER(50))[0], naive[0]), "the control: with a memory it is not"


@pytest.mark.parametrize("make", [ER, DER])
def test_from_the_second_task_on_a_single_task_is_naive_to_the_bit(make, tmp_path):
    single = ("scenario.num_tasks=1", "epochs=2")
    naive = final(tmp_path, *single, "strategy=naive")
    assert same_tensors(final(tmp_path, *single, strategy=make(50, start_at_task=2))[0], naive[0])
    assert not same_tensors(final(tmp_path, *single, strategy=make(50))[0], naive[0])
    later = launch(tmp_path, own={"strategy": make(50, start_at_task=2)})
    plain = launch(tmp_path, "strategy=naive")
    first, second = (weights_of(run.folder) for run in (later, plain))
    assert same_tensors(first[0], second[0])
    assert not same_tensors(first[1], second[1]), "the memory was filled meanwhile"


@pytest.mark.parametrize("network", ["foreign", pytest.param("spiking", marks=pytest.mark.slow)])
def test_der_without_logits_is_er_with_the_sum_to_the_bit(network, tmp_path):

    def run(strategy):
        own = {"model": foreign_network()} if network == "foreign" else {}
        return final(tmp_path, "epochs=2", strategy=strategy, **own)

    er, der = run(ER(60, form=Sum(), insert_epochs=None)), run(DER(60, alpha=0.0, beta=1.0))
    assert same_tensors(er[0], der[0])
    assert er[1] == der[1]
    assert not same_tensors(run(DER(60, alpha=0.1, beta=1.0))[0], er[0])
    assert not same_tensors(run(ER(60, form=Concat(), insert_epochs=None))[0], er[0])


# What is drawn and what is kept


class Watches:
    """Note what goes into and comes out of the memory; mixed into a strategy."""

    def attach(self, setting):
        super().attach(setting)
        self.batches, self.states = [], []

    def mix(self, batch):
        mixed = super().mix(batch)
        self.batches.append((batch, mixed))
        return mixed

    def after_task(self, task, data):
        super().after_task(task, data)
        self.states.append(self._replay.memory.seen)


def watched(base, *arguments, **keywords):
    return type("Watching", (Watches, base), {})(*arguments, **keywords)


def rows_of(inputs):
    return {row.numpy().tobytes() for row in inputs}


@pytest.mark.parametrize("rule", [(), ONLINE])
@pytest.mark.parametrize("make", [ER, DER])
def test_a_batch_is_stored_once_after_its_steps_and_never_replayed_within_them(make, rule, tmp_path):
    strategy = watched(make, 10_000, insert_epochs=None)
    launch(tmp_path, *rule, own={"strategy": strategy})
    assert strategy.states == [NUM_TRAIN, 2 * NUM_TRAIN], "once a batch, however many steps a rule makes"
    seen = set()
    for batch, mixed in strategy.batches:
        drawn = rows_of(mixed.inputs[len(batch.targets) :])
        assert drawn <= seen
        assert not drawn & rows_of(batch.inputs), "every sample of these tasks comes once in this run"
        seen |= rows_of(batch.inputs)
        assert torch.equal(mixed.inputs[: len(batch.targets)], batch.inputs)


@pytest.mark.parametrize("policy", [None, ClassBalanced(), TaskBalanced()])
def test_a_memory_larger_than_the_stream_holds_every_sample_once_in_several_epochs(policy, tmp_path):
    strategy = watched(ER, 10_000, policy=policy)
    launch(tmp_path, "epochs=3", "scenario.mode=class", own={"strategy": strategy})
    memory = strategy._replay.memory
    assert strategy.states == [NUM_TRAIN, 2 * NUM_TRAIN]
    stored = memory.take(torch.arange(len(memory))).batch
    sequence = permuted(small_data(), 2, "class")
    wanted = [gather([task], task, sequence, CPU, torch.float32) for task in sequence.tasks]
    for task, data in enumerate(wanted):
        mine = stored.task == task
        assert sorted(row.numpy().tobytes() for row in stored.inputs[mine]) == sorted(
            row.numpy().tobytes() for row in data.inputs
        )
        assert torch.equal(stored.targets[mine].bincount(minlength=20), data.targets.bincount(minlength=20))
        assert torch.equal(stored.active[mine], data.active.expand(NUM_TRAIN, -1))


def test_as_many_are_drawn_as_asked_for(tmp_path):
    strategy = watched(ER, 40, replay_size=7)
    launch(tmp_path, own={"strategy": strategy})
    drawn = [len(mixed.targets) - len(batch.targets) for batch, mixed in strategy.batches]
    assert drawn == [0, *[7] * (len(drawn) - 1)]
    strategy = watched(DER, 5)
    launch(tmp_path, own={"strategy": strategy})
    drawn = [len(mixed.targets) - len(batch.targets) for batch, mixed in strategy.batches]
    assert drawn == [0, *[10] * (len(drawn) - 1)], "two draws of all there are"


def test_the_two_draws_of_der_are_independent(tmp_path):
    strategy = watched(DER, 100, replay_size=30)
    launch(tmp_path, own={"strategy": strategy})
    batch, mixed = strategy.batches[-1]
    labelled, matched = mixed.inputs[len(batch.targets) :].split(30)
    assert rows_of(labelled) != rows_of(matched)
    assert mixed.weights[-30:].tolist() == [0.0] * 30


@pytest.mark.parametrize(
    ("mode", "train_logits"),
    [("task", "seen"), ("domain", "seen"), ("class", "seen"), ("class", "current"), ("class", "all")],
)
@pytest.mark.parametrize("make", [ER, DER])
def test_a_replayed_sample_competes_among_its_own_rows(make, mode, train_logits, tmp_path):
    strategy = watched(make, 10_000)
    chosen = ("scenario.num_tasks=3", f"scenario.mode={mode}", f"scenario.train_logits={train_logits}")
    launch(tmp_path, *chosen, own={"strategy": strategy})
    sequence = permuted(small_data(), 3, mode, train_logits=train_logits)
    own = torch.stack([training_rows(sequence, task) for task in sequence.tasks])
    memory = strategy._replay.memory
    assert torch.equal(memory.columns["active"], own[memory.columns["task"]]), "stored as they came"
    for batch, mixed in strategy.batches[1:]:
        current, wanted = int(batch.task[0]), own[mixed.task]
        if (mode, train_logits) == ("class", "seen"):
            wanted = own[current].expand_as(wanted)  # an old sample must learn that it is none of the new classes
        assert torch.equal(mixed.active.expand_as(wanted), wanted)
        assert mixed.active[torch.arange(len(mixed.targets)), mixed.targets].all()


def test_task_balanced_memory_within_a_run(tmp_path):
    strategy = watched(ER, 50, policy=TaskBalanced())
    launch(tmp_path, *THREE, own={"strategy": strategy})
    counts = strategy._replay.memory.columns["task"].bincount()
    assert sorted(counts.tolist()) == [16, 17, 17]


# How it is scored


def networks(rule):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return spiking_mlp((6,), 4, hidden=(12,), neuron=LIF(threshold=0.3), time_steps=4).double()


def some_batch(seed, num):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(num, 6, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 4, (num,), generator=generator)
    return Batch(inputs, targets, torch.ones(num, 4, dtype=torch.bool), torch.full((num,), seed))


def gradients(model, batch, rule, terms=lambda outputs, batch: None):
    for parameter in model.parameters():
        parameter.grad = None
    (update,) = rule.updates(model, batch, CrossEntropy(), terms)
    return [parameter.grad.clone() for parameter in model.parameters()], update


@pytest.mark.parametrize("rule", [BPTT(), OTTT()])
@pytest.mark.parametrize("form", [Concat(), Sum()])
def test_both_forms_are_the_gradients_they_say(form, rule):
    model, new, old = networks(rule), some_batch(0, 9), some_batch(1, 5)
    mixed = joined(new, [old], form.weights(9, 5, new.inputs))
    assert mixed.task.tolist() == [0] * 9 + [1] * 5
    found, update = gradients(model, mixed, rule)
    shares = (1.0, 1.0) if isinstance(form, Sum) else (9 / 14, 5 / 14)
    parts = [gradients(model, batch, rule) for batch in (new, old)]
    for got, one, other in zip(found, *(part[0] for part in parts), strict=True):
        torch.testing.assert_close(got, shares[0] * one + shares[1] * other, rtol=1e-10, atol=1e-14)
    wanted = sum(share * float(part[1].loss) for share, part in zip(shares, parts, strict=True))
    assert float(update.loss) == pytest.approx(wanted, rel=1e-10)


def test_weights_are_shares_of_means():
    weights = equal_weights((3, 2), (1.0, 0.5), torch.zeros(1, dtype=torch.bfloat16))
    assert weights.tolist() == pytest.approx([1 / 3] * 3 + [0.25] * 2)
    assert weights.dtype == torch.float32


def attached(strategy, model, rule, num_classes=10):
    sequence = permuted(small_data(), 2, "domain")
    strategy.attach(Setting(model, last_linear(model), sequence, 0, rule, CrossEntropy(), epochs=1, batch_size=64))
    strategy.before_task(sequence.tasks[0], torch.optim.SGD(model.parameters(), lr=0.1))
    return sequence


def spiking_digits():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return spiking_mlp((8, 8), 10, hidden=(12,), neuron=LIF(threshold=0.3), time_steps=4).double()


@pytest.mark.parametrize("rule", [BPTT(), OTTT()])
def test_logits_are_stored_as_the_network_answered_before_the_step(rule):
    model, strategy = spiking_digits(), DER(10_000)
    sequence = attached(strategy, model, rule)
    data = gather([sequence.tasks[0]], sequence.tasks[0], sequence, CPU, torch.float64)
    answers = {}
    for batch in data.batches(64, torch.Generator().manual_seed(0)):
        mixed = strategy.mix(batch)
        with torch.no_grad():
            for row, logits in zip(batch.inputs, model(batch.inputs), strict=True):
                answers[row.float().numpy().tobytes()] = logits
        for _ in rule.updates(model, mixed, CrossEntropy(), strategy.terms):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.05 * parameter.grad
                    parameter.grad = None
    strategy.after_task(sequence.tasks[0], data)
    columns = strategy._replay.memory.columns
    assert len(columns["logits"]) == NUM_TRAIN
    for row, logits in zip(columns["inputs"], columns["logits"], strict=True):
        torch.testing.assert_close(logits, answers[row.numpy().tobytes()], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", [BPTT(), OTTT()])
def test_der_plus_plus_is_the_loss_it_says(rule):
    """Against a sum of separate passes; under OTTT every tick is scored by itself and the mean is taken."""
    model, strategy = spiking_digits(), DER(10_000, alpha=0.3, beta=0.7, replay_size=20)
    sequence = attached(strategy, model, rule)
    data = gather([sequence.tasks[0]], sequence.tasks[0], sequence, CPU, torch.float64)
    first, second, *_ = data.batches(64, torch.Generator().manual_seed(0))
    for _ in rule.updates(model, strategy.mix(first), CrossEntropy(), strategy.terms):
        pass
    mixed = strategy.mix(second)
    stored = strategy._replay.memory
    wanted = {
        row.numpy().tobytes(): z for row, z in zip(stored.columns["inputs"], stored.columns["logits"], strict=True)
    }
    labelled, matched = mixed.inputs[64:84], mixed.inputs[84:]
    old = torch.stack([wanted[row.float().numpy().tobytes()] for row in matched])
    ticks = [model.activity(inputs) for inputs in (second.inputs, labelled, matched)]
    if isinstance(rule, BPTT):
        ticks = [activity.mean(0, keepdim=True) for activity in ticks]
    losses = [
        F.cross_entropy(new, second.targets)
        + 0.7 * F.cross_entropy(again, mixed.targets[64:84])
        + 0.3 * F.mse_loss(dark, old)
        for new, again, dark in zip(*ticks, strict=True)
    ]
    update = list(rule.updates(model, mixed, CrossEntropy(), strategy.terms))[-1]
    assert float(update.loss) == pytest.approx(float(torch.stack(losses).mean()), rel=1e-9)


def test_only_columns_that_existed_are_compared():
    logits = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    wanted = torch.randn(4, 6, dtype=torch.float64)
    everywhere = torch.ones(4, 6, dtype=torch.bool)
    torch.testing.assert_close(squared_distance(logits, wanted, everywhere), F.mse_loss(logits, wanted))
    existed = everywhere.clone()
    existed[:, 4:] = False
    existed[0, 1:] = False
    loss = squared_distance(logits, wanted, existed)
    rows = [F.mse_loss(logits[row][existed[row]], wanted[row][existed[row]]) for row in range(4)]
    torch.testing.assert_close(loss, torch.stack(rows).mean())
    (gradient,) = torch.autograd.grad(loss, logits)
    assert (gradient[~existed] == 0).all()
    assert (gradient[existed] != 0).all()


# Cost


@pytest.mark.parametrize("strategy", ["er", "er_sum", "der", "derpp"])
def test_bytes_and_operations_are_honest(strategy, tmp_path):
    chosen = ("model=relu_mlp", "scenario.num_tasks=3", f"strategy={strategy}", "strategy.capacity_bytes=20000")
    result = launch(tmp_path, *chosen, "strategy.capacity=null")
    ends = [line for line in records_of(result.folder) if line["event"] == "task_end"]
    assert 19_000 < result.metrics["stored_bytes"] <= 20_000
    weights = sum(tensor.numel() for tensor in weights_of(result.folder)[0].values())
    replayed = [end["learning_operations"] / (3 * weights) for end in ends]
    assert replayed == [int(count) for count in replayed]
    assert 0 < replayed[0] < replayed[1] < replayed[2]
    draws = 2 if strategy == "derpp" else 1
    assert replayed[2] - replayed[1] <= draws * NUM_TRAIN


def test_the_number_of_samples_that_bytes_hold_is_told():
    strategy = ER(capacity=None, capacity_bytes=20_000)
    attached(strategy, foreign_network(), BPTT())
    (notice,) = strategy.notices()
    assert notice == "20000 bytes hold 70 samples of 282 bytes."


# Mistakes


@pytest.mark.parametrize("make", [ER, DER])
@pytest.mark.parametrize("number", ["replay_size", "insert_epochs", "start_at_task"])
def test_numbers_below_one_are_refused(make, number):
    with pytest.raises(ValueError, match=f"{number} must be at least 1, got 0"):
        make(**{number: 0})


@pytest.mark.parametrize("make", [ER, DER])
def test_the_capacity_must_be_one_number(make):
    with pytest.raises(ValueError, match="exactly one of capacity"):
        make(capacity=3, capacity_bytes=300)
    with pytest.raises(ValueError, match="capacity must be 0 or more, got -1"):
        make(capacity=-1)


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_weights_of_der_must_be_finite(name, value):
    with pytest.raises(ValueError, match=f"{name} must be 0 or more"):
        DER(**{name: value})


class Unweighing:
    """An objective that knows nothing of weights."""

    name = "unweighing"

    def prepare(self, forward, batch):
        return batch

    def loss(self, outputs, prepared):
        return F.cross_entropy(outputs, prepared.targets)


@pytest.mark.parametrize("strategy", ["er_sum", "der", "derpp"])
def test_an_objective_that_ignores_weights_is_refused_where_they_matter(strategy, tmp_path):
    with pytest.raises(UserError, match=r"objective Unweighing does not say that it reads Batch\.weights"):
        launch(tmp_path, f"strategy={strategy}", objective=Unweighing())
    assert launch(tmp_path, "strategy=er", objective=Unweighing()).metrics["num_tasks"] == 2


@pytest.mark.parametrize("strategy", ["derpp", pytest.param("er_sum", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", ["ottt", "ottt_online", "sltt", "dsr", "eprop"])
def test_every_rule_replays(rule, strategy, tmp_path):
    assert launch(tmp_path, f"rule={rule}", f"strategy={strategy}").matrices.num_tasks == 2


def test_convolutions_replay(tmp_path):
    chosen = ("model=spiking_cnn", "model.channels=[4,4]", "strategy=derpp")
    assert launch(tmp_path, *chosen).matrices.num_tasks == 2
