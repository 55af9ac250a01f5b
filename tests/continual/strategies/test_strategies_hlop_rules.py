"""HLOP under every learning rule and error path: what subspaces learn, when they learn it, and what users are told."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from test_strategies_hlop import Remembers
from tiny_runs import StopAtStep, assert_same_run, launch, records_of, weights_of

from continual.errors import UserError
from continual.progress import Silent
from continual.strategies import HLOP, LayerRank, Naive
from continual.strategies.hlop import saturation_of
from neuro import record
from neuro.error_paths import Exact, FeedbackAlignment, SignSymmetric
from neuro.lateral import Eigen, EnergyShare, Hebbian, LateralSpikes, LateralSubspace, ListedSizes
from neuro.lateral.sizes import planned_saturation
from neuro.learning import BPTT, DSR, OTTT, SLTT, EProp

MAKE = {
    "bptt": BPTT,
    "ottt": OTTT,
    "ottt_online": partial(OTTT, every_tick=True),
    "sltt": SLTT,
    "dsr": DSR,
    "eprop": EProp,
}
RULES = tuple(MAKE)


def rules(*fast, among=RULES):
    """Rules to go through; those that are not named here are left to the slow tests."""
    return [rule if rule in fast else pytest.param(rule, marks=pytest.mark.slow) for rule in among]


def trained(output, rule, *overrides, path=Exact, strategy=None, progress=None):
    """A tiny run of a few ticks under a rule, its errors sent back along a path."""
    own = {"rule": MAKE[rule](error_path=path())} | ({} if strategy is None else {"strategy": strategy})
    return launch(output, f"rule={rule}", "model.time_steps=3", *overrides, own=own, progress=progress)


# The update of a later task


@pytest.mark.parametrize("rule", RULES)
def test_invariant_19_under_every_rule_the_update_keeps_out_of_the_old_subspace(rule, tmp_path):
    strategy = Remembers(Eigen(), EnergyShare(0.6))
    trained(tmp_path, rule, strategy=strategy)
    leaks = strategy.leaks(1)
    assert len(leaks) == 3
    assert max(leaks.values()) < 1e-5, leaks


@pytest.mark.parametrize("path", [FeedbackAlignment, SignSymmetric])
@pytest.mark.parametrize("rule", rules("ottt_online", "eprop"))
def test_invariant_19_along_every_error_path_the_update_keeps_out_too(rule, path, tmp_path):
    strategy = Remembers(Eigen(), EnergyShare(0.6))
    trained(tmp_path, rule, path=path, strategy=strategy)
    leaks = strategy.leaks(1)
    assert len(leaks) == 3
    assert max(leaks.values()) < 1e-5, leaks


@pytest.mark.parametrize("rule", rules("eprop"))
def test_the_update_keeps_out_under_adam_too(rule, tmp_path):
    strategy = Remembers(Eigen(), EnergyShare(0.6))
    trained(tmp_path, rule, "optimizer=adam", "optimizer.lr=0.01", strategy=strategy)
    assert max(strategy.leaks(1).values()) < 1e-5


@pytest.mark.parametrize("rule", rules("ottt", "dsr"))
def test_control_against_the_same_bases_an_unprotected_run_leaks(rule, tmp_path):
    strategy = Remembers(Eigen(), EnergyShare(0.6))
    trained(tmp_path / "ours", rule, strategy=strategy)
    first, second = weights_of(trained(tmp_path, rule, strategy=Naive()).folder)
    for name, basis in strategy._kept[0][1].items():
        change = second[f"{name}.weight"] - first[f"{name}.weight"]
        assert float((change @ basis.mT).norm() / change.norm()) > 0.05


@pytest.mark.parametrize("rule", rules("eprop", among=("bptt", "eprop")))
def test_recurrent_layers_are_protected_on_both_sides_under_the_rules_that_train_them(rule, tmp_path):
    strategy = Remembers(Eigen(), EnergyShare(0.6))
    trained(tmp_path, rule, "neuron=recurrent_lif", "model.neuron.neuron.threshold=0.3", strategy=strategy)
    leaks = strategy.leaks(1)
    assert "network.neuron1.synapse" in leaks
    assert len(leaks) == 5
    assert max(leaks.values()) < 1e-5, leaks


# What stands before each weight


class Watches(HLOP):
    """Note what every subspace is shown at a task's end, and what the network answered to the same inputs."""

    def after_task(self, task, data):
        model, protection = self._setting.model, self._protection
        names = {id(subspace): name for name, subspace in protection.subspaces.items()}
        shown, inputs, original = {}, [], LateralSubspace.learn

        def learn(subspace, rows):
            shown[names[id(subspace)]] = rows.clone()
            return original(subspace, rows)

        tap = model.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
        with pytest.MonkeyPatch.context() as patch, record(model) as probe:
            patch.setattr(LateralSubspace, "learn", learn)
            super().after_task(task, data)
        tap.remove()
        (images,) = inputs
        self.seen = (shown, model.normalise(images).flatten(1), dict(probe.spikes))


def slow_traces(spikes, decay=0.5):
    """a_t = Σ_{i ≤ t} λ^(t − i) s_i, tick by tick."""
    ticks = range(len(spikes))
    return torch.stack([sum(decay ** (t - i) * spikes[i] for i in range(t + 1)) for t in ticks])


def slow_weighted_rate(spikes, tau=20.0):
    """Σ w_t s_t / Σ w_t with w_t = exp(−(T − t)/τ), for t = 1 … T."""
    weights = [torch.exp(torch.tensor(-(len(spikes) - t) / tau)) for t in range(1, len(spikes) + 1)]
    return (sum(w * s for w, s in zip(weights, spikes, strict=True)) / sum(weights))[None]


def themselves(spikes):
    return spikes


PRESYNAPTIC = {
    "bptt": themselves,
    "sltt": themselves,
    "eprop": themselves,
    "ottt": slow_traces,
    "ottt_online": slow_traces,
    "dsr": slow_weighted_rate,
}


@pytest.mark.parametrize("rule", RULES)
def test_the_subspace_learns_what_the_rule_calls_presynaptic(rule, tmp_path):
    strategy = Watches(Eigen(), batch_size=1000)
    launch(tmp_path, f"rule={rule}", "model.time_steps=5", "scenario.num_tasks=1", own={"strategy": strategy})
    shown, images, spikes = strategy.seen
    assert torch.equal(shown["network.fc1"], images), "a static input is shown once a sample"
    for neuron, layer in (("network.neuron1", "network.fc2"), ("network.neuron2", "network.head")):
        assert float(spikes[neuron].abs().max()) > 0
        expected = PRESYNAPTIC[rule](spikes[neuron]).flatten(0, 1)
        torch.testing.assert_close(shown[layer], expected, rtol=1e-5, atol=1e-6)
        stands_for_itself = PRESYNAPTIC[rule] is themselves
        assert torch.equal(shown[layer], spikes[neuron].flatten(0, 1)) == stands_for_itself


# When subspaces learn


class Notes(HLOP):
    """Note which batches are trained on and which are shown to the subspaces, in their order."""

    def attach(self, setting):
        super().attach(setting)
        self.events, original = [], self._protection.learn

        def learn(inputs):
            weight = self._protection.sites[0].weight.detach().clone()
            self.events.append(("shown", inputs.clone(), weight))
            return original(inputs)

        self._protection.learn = learn

    def mix(self, batch):
        self.events.append(("trained", batch.inputs.clone(), None))
        return super().mix(batch)

    def before_task(self, task, optimizer):
        self.events.append(("task", None, None))
        super().before_task(task, optimizer)


def per_task(events):
    """Cut the events at every task's start."""
    starts = [number for number, (kind, *_) in enumerate(events) if kind == "task"] + [len(events)]
    return [events[start + 1 : end] for start, end in pairwise(starts)]


@pytest.mark.parametrize(("last_epochs", "learning_epochs"), [(1, 1), (2, 2), (3, 3), (1000, 3)])
def test_learning_along_shows_every_batch_of_the_last_epochs_and_no_other(last_epochs, learning_epochs, tmp_path):
    strategy = Notes(Hebbian(), last_epochs=last_epochs)
    launch(tmp_path, "model=relu_mlp", "epochs=3", "batch_size=64", own={"strategy": strategy})
    for events in per_task(strategy.events):
        trained = [inputs for kind, inputs, _ in events if kind == "trained"]
        shown = [inputs for kind, inputs, _ in events if kind == "shown"]
        assert [len(batch) for batch in trained] == [64, 64, 64, 8] * 3
        last = trained[-4 * learning_epochs :]
        assert len(shown) == len(last)
        assert all(torch.equal(*pair) for pair in zip(shown, last, strict=True))
        kinds = [kind for kind, *_ in events]
        assert kinds == ["trained"] * 4 * (3 - learning_epochs) + ["trained", "shown"] * 4 * learning_epochs
        weights = [weight for kind, _, weight in events if kind == "shown"]
        assert not torch.equal(weights[0], weights[-1]), "the weights still move"


def test_learning_at_the_end_shows_nothing_before_and_every_sample_once(tmp_path):
    strategy = Notes(Hebbian())
    launch(tmp_path, "model=relu_mlp", "epochs=2", "batch_size=64", own={"strategy": strategy})
    for events in per_task(strategy.events):
        kinds = [kind for kind, *_ in events]
        assert kinds == ["trained"] * 8 + ["shown"] * 4
        samples = [
            sorted(map(tuple, torch.cat([e[1] for e in part]).flatten(1).tolist())) for part in (events[:4], events[8:])
        ]
        assert samples[0] == samples[1]
        assert torch.equal(events[8][2], events[11][2]), "the weights stand still"


def test_the_online_rule_is_told_how_many_batches_it_will_be_shown(tmp_path, monkeypatch):
    told, original = [], LateralSubspace.grow

    def grow(subspace, num_rows, num_batches=1, generator=None):
        told.append(num_batches)
        return original(subspace, num_rows, num_batches, generator)

    monkeypatch.setattr(LateralSubspace, "grow", grow)
    for last_epochs, expected in ((1, 4), (1000, 8)):
        told.clear()
        strategy = HLOP(Hebbian(), last_epochs=last_epochs)
        launch(tmp_path, "model=relu_mlp", "epochs=2", "batch_size=64", own={"strategy": strategy})
        assert set(told) == {expected}


@pytest.mark.parametrize("rule", rules("ottt_online"))
def test_subspaces_that_learn_along_protect_as_well(rule, tmp_path):
    strategy = Remembers(Hebbian(), EnergyShare(0.6), last_epochs=1)
    trained(tmp_path, rule, "epochs=2", strategy=strategy)
    assert all(len(basis) > 0 for basis in strategy._kept[0][1].values())
    assert max(strategy.leaks(1).values()) < 1e-5


# Resume


@pytest.mark.parametrize("rule", rules("ottt_online", "dsr", "eprop"))
def test_under_every_rule_stopped_and_resumed_equals_never_stopped(rule, tmp_path):
    parts = {"path": FeedbackAlignment, "strategy": HLOP()}
    whole = trained(tmp_path / "whole", rule, **parts)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "cut", rule, **parts, progress=StopAtStep(1, 2))
    assert_same_run(whole.folder, trained(tmp_path / "cut", rule, **parts).folder)


@pytest.mark.parametrize("rule", rules("ottt"))
def test_learning_along_resumes_with_the_batches_of_its_last_epochs(rule, tmp_path):
    whole = trained(tmp_path / "whole", rule, "epochs=2", strategy=HLOP(Hebbian(), last_epochs=1))
    with pytest.raises(KeyboardInterrupt):
        trained(
            tmp_path / "cut",
            rule,
            "epochs=2",
            strategy=HLOP(Hebbian(), last_epochs=1),
            progress=StopAtStep(1, 6),
        )
    again = trained(tmp_path / "cut", rule, "epochs=2", strategy=HLOP(Hebbian(), last_epochs=1))
    assert_same_run(whole.folder, again.folder)


def test_a_convolutional_run_that_chooses_rows_resumes(tmp_path):
    chosen = (
        "model=spiking_cnn",
        "model.channels=[3,4]",
        "model.time_steps=2",
        "strategy=hlop",
        "strategy.max_rows=50",
    )
    whole = launch(tmp_path / "whole", *chosen)
    with pytest.raises(KeyboardInterrupt):
        launch(tmp_path / "cut", *chosen, progress=StopAtStep(1, 2))
    assert_same_run(whole.folder, launch(tmp_path / "cut", *chosen).folder)


# What users are told


class Listens(Silent):
    """Keep what a run tells, in order."""

    def __init__(self):
        self.heard = []

    def start_task(self, task, trains):
        self.heard.append(("start", task.index))

    def end_task(self, task, known):
        self.heard.append(("end", task.index))

    def notice(self, sentence):
        self.heard.append(("notice", sentence))


def listened(tmp_path, sizes, *overrides, learning=None):
    progress, strategy = Listens(), HLOP(learning or Eigen(), sizes)
    chosen = ("model=relu_mlp", f"scenario.num_tasks={len(sizes.per_task)}", *overrides)
    result = launch(tmp_path, *chosen, own={"strategy": strategy}, progress=progress)
    return progress.heard, result


def test_listed_sizes_that_will_fill_a_layer_are_told_before_the_run_and_when_it_is_full(tmp_path):
    """Of 64, 12 and 12 directions; the second layer is filled by the second task of four."""
    heard, result = listened(tmp_path, ListedSizes([[5, 6, 1], [5, 6, 1], [5, 6, 1], [5, 0, 1]]))
    planned, *rest = heard
    assert planned == (
        "notice",
        "Layer 'fc2' (12 directions) will be full after task 2 of 4: the listed sizes ask for 12. Its weights will "
        "stand still from then on; list fewer rows.",
    )
    full = ("notice", "Layer 'fc2' is full (12 directions): its weights stand still from now on.")
    nearly = (
        "notice",
        "Layer 'fc2' holds 6 of 12 directions and took 6 for the last task: one more such task fills it, and its "
        "weights will stand still; choose smaller sizes.",
    )
    tasks = [[("start", task), ("end", task)] for task in range(4)]
    assert rest == [*tasks[0], nearly, *tasks[1], full, *tasks[2], full, *tasks[3], full]
    weights = [task["fc2.weight"] for task in weights_of(result.folder)]
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[1], weights[2])
    assert torch.equal(weights[2], weights[3])


def test_nothing_is_told_where_there_is_room(tmp_path):
    heard, _ = listened(tmp_path, ListedSizes([[5, 3, 3], [5, 3, 3]]))
    assert [kind for kind, _ in heard] == ["start", "end"] * 2


def test_a_planned_saturation_counts_what_is_listed_before_the_last_task():
    widths = {"a": 10, "b": 20}
    assert planned_saturation(ListedSizes([[4, 5], [5, 5], [1, 10]]), widths, 3) == [], "full after the last task only"
    (sentence,) = planned_saturation(ListedSizes([[4, 5], [7, 5], [1, 5]]), widths, 3)
    assert sentence.startswith("Layer 'a' (10 directions) will be full after task 2 of 3: the listed sizes ask for 11.")
    both = planned_saturation(ListedSizes([[10, 20], [0, 0]]), widths, 2)
    assert [words.partition(":")[0] for words in both] == [
        "Layer 'a' (10 directions) will be full after task 1 of 2",
        "Layer 'b' (20 directions) will be full after task 1 of 2",
    ]
    assert planned_saturation(EnergyShare(0.99), widths, 5) == [], "energies cannot be foreseen"


@pytest.mark.parametrize(
    ("rank", "learned", "words"),
    [
        (10, 0, "is full (10 directions)"),
        (10, 4, "is full (10 directions)"),
        (6, 4, "holds 6 of 10 directions and took 4 for the last task: one more such task fills it"),
        (5, 4, None),
        (9, 0, None),
    ],
)
def test_saturation_by_hand(rank, learned, words):
    told = saturation_of(LayerRank("fc1", rank, 10, learned, 0.9))
    assert (told is None) if words is None else (words in told and "'fc1'" in told)


def test_saturation_by_energy_is_told_too(tmp_path):
    progress = Listens()
    strategy = HLOP(Eigen(), EnergyShare(0.99999))
    launch(tmp_path, "model=relu_mlp", own={"strategy": strategy}, progress=progress)
    told = [sentence for kind, sentence in progress.heard if kind == "notice"]
    assert any("is full" in sentence or "one more such task fills it" in sentence for sentence in told)
    assert not any("listed" in sentence for sentence in told)


# Heads of a convolutional network


@pytest.mark.parametrize("optimiser", [(), ("optimizer=adam", "optimizer.lr=0.01")], ids=["sgd", "adam"])
def test_invariant_20_the_heads_of_old_tasks_answer_stored_features_with_the_same_bits(optimiser, tmp_path):
    """A spiking CNN in task mode; the features are those that reached the head when a task ended."""

    class Stores(HLOP):
        def after_task(self, task, data):
            super().after_task(task, data)
            model = self._setting.model
            tap = model.network.head.register_forward_pre_hook(lambda _, seen: self._stored.append(seen[0].detach()))
            with torch.no_grad():
                model.eval()(data.inputs[:20])
            tap.remove()

        def attach(self, setting):
            super().attach(setting)
            self._stored = []

    strategy = Stores(Eigen(), EnergyShare(0.8))
    chosen = (
        "model=spiking_cnn",
        "model.channels=[3,4]",
        "model.time_steps=3",
        "scenario=split",
        "scenario.num_tasks=5",
    )
    weights = weights_of(launch(tmp_path, *chosen, *optimiser, own={"strategy": strategy}).folder)
    assert "network.head" not in strategy._protection.subspaces
    heads = [task["network.head.weight"] for task in weights]
    for task, features in enumerate(strategy._stored):
        assert float(features.abs().max()) > 0
        own = slice(2 * task, 2 * task + 2)
        kept = features @ heads[task][own].mT
        for later in range(task + 1, 5):
            assert torch.equal(features @ heads[later][own].mT, kept)
        if task:
            assert not torch.equal(heads[task][own], heads[task - 1][own]), "the head of the task itself learns"


# Spiking lateral neurons


def spiking(*arguments, **keywords):
    return {"strategy": HLOP(Hebbian(spikes=LateralSpikes()), *arguments, **keywords)}


@pytest.mark.parametrize("optimiser", [("optimizer=adam",), ("optimizer.weight_decay=0.01",)], ids=["adam", "decay"])
def test_spiking_lateral_neurons_refuse_an_optimiser_that_needs_the_update_projected(optimiser, tmp_path):
    """Before anything is trained, in one sentence."""
    progress = StopAtStep(0, 1)
    with pytest.raises(UserError, match="use SGD without weight decay"):
        launch(tmp_path, *optimiser, own=spiking(), progress=progress)


def test_spiking_lateral_neurons_refuse_a_rule_without_rows(tmp_path):
    with pytest.raises(UserError, match="eprop"):
        launch(tmp_path / "runs", "rule=eprop", own=spiking())
    assert not (tmp_path / "runs").exists()


def test_spiking_lateral_neurons_refuse_a_head_that_tasks_share_in_part(tmp_path):
    chosen = ("scenario=split", "scenario.num_tasks=5", "scenario.mode=class")
    with pytest.raises(UserError, match=r"head 'network\.head'"):
        launch(tmp_path / "runs", *chosen, own=spiking())
    assert not (tmp_path / "runs").exists()
    launch(tmp_path, *chosen, "scenario.train_logits=all", own=spiking())


@pytest.mark.parametrize("rule", rules("ottt_online", "dsr", among=[rule for rule in RULES if rule != "eprop"]))
def test_spiking_lateral_neurons_project_under_every_rule_that_has_rows(rule, tmp_path):
    """Not exactly, for their responses are coded: far less leaks than without."""
    strategy = Remembers(Hebbian(spikes=LateralSpikes(20.0, 1000)), EnergyShare(0.6))
    trained(tmp_path / "ours", rule, strategy=strategy)
    first, second = weights_of(trained(tmp_path, rule, strategy=Naive()).folder)
    for name, leak in strategy.leaks(1).items():
        change, basis = second[f"{name}.weight"] - first[f"{name}.weight"], strategy._kept[0][1][name]
        assert leak < 0.3 * float((change @ basis.mT).norm() / change.norm()), name


def test_what_a_run_records_of_its_subspaces_is_what_they_hold(tmp_path):
    strategy = Remembers(Eigen(), EnergyShare(0.7))
    result = launch(tmp_path, "model=spiking_cnn", "model.channels=[3,4]", "rule=ottt", own={"strategy": strategy})
    last = [line for line in records_of(result.folder) if line["event"] == "task_end"][-1]
    ranks = {layer["name"]: (layer["rank"], layer["width"]) for layer in last["subspaces"]}
    assert ranks == {name: tuple(basis.shape) for name, basis in strategy._kept[-1][1].items()}
    assert list(ranks) == ["network.conv1", "network.conv2", "network.head"]
