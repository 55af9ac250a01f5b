"""What the penalties of EWC, online EWC, SI and MAS add to a gradient, against autograd and slow references."""

import numpy as np
import pytest
import torch
from tiny_runs import foreign_network, launch, records_of, same_tensors, small_data, weights_of
from torch import nn

from continual.batches import gather
from continual.compose import choices
from continual.errors import UserError
from continual.importance import Empirical, Exact
from continual.objectives import CrossEntropy
from continual.quadratic_penalty import QuadraticPenalty, shared_parameters
from continual.scenarios import permuted, split
from continual.seeding import stream
from continual.strategies import EWC, MAS, SI, OnlineEWC, Setting, Strategy
from neuro.lateral import last_linear
from neuro.learning import BPTT, OTTT, SLTT
from neuro.models import spiking_mlp
from neuro.neurons import LIF

CPU = torch.device("cpu")
BUDGETS = {  # few samples, so that the runs of this file take no time
    "ewc": ("strategy.fisher.max_samples=20",),
    "online_ewc": ("strategy.fisher.max_samples=20",),
    "si": (),
    "mas": ("strategy.max_samples=20",),
    "lwf": (),
}
THREE = ("scenario.num_tasks=3", "optimizer.lr=0.1")


def relu_network(num_classes=10, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, num_classes)).double()


def attached(strategy, model, mode="domain", num_tasks=3, rule=None):
    sequence = permuted(small_data(), num_tasks, mode)
    rule = rule if rule is not None else BPTT()
    strategy.attach(Setting(model, last_linear(model), sequence, 0, rule, CrossEntropy(), epochs=1, batch_size=50))
    return sequence


def train(strategy, model, sequence, task, optimizer=None, rule=None, after_step=None):
    """One epoch as the runner does it."""
    rule = rule if rule is not None else BPTT()
    data = gather([task], task, sequence, CPU, next(model.parameters()).dtype)
    optimizer = optimizer if optimizer is not None else torch.optim.SGD(model.parameters(), lr=0.1)
    strategy.before_task(task, optimizer)
    for batch in data.batches(50, stream(0, "order", task.index, 0)):
        optimizer.zero_grad()
        for _ in rule.updates(model, batch, CrossEntropy(), strategy.terms):
            task_gradient = {name: p.grad.clone() for name, p in model.named_parameters()}
            before = {name: p.detach().clone() for name, p in model.named_parameters()}
            strategy.after_backward(model)
            total_gradient = {name: p.grad.clone() for name, p in model.named_parameters()}
            optimizer.step()
            strategy.after_step(model)
            if after_step is not None:
                after_step(batch, before, task_gradient, total_gradient)
            optimizer.zero_grad()
    strategy.after_task(task, data)
    return data


def weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def assert_close(found, truth, tolerance=1e-10):
    assert found.keys() == truth.keys()
    for name, tensor in truth.items():
        torch.testing.assert_close(found[name], tensor, rtol=tolerance, atol=tolerance)


# What is added


def slow_gradient(model, terms, factor):
    """Autograd through the penalty as the papers write it: a sum of terms (importance, anchor)."""
    parameters = dict(model.named_parameters())
    penalty = factor * sum(
        (importance[name] * (parameters[name] - anchor[name]).square()).sum()
        for importance, anchor in terms
        for name in importance
    )
    return dict(zip(parameters, torch.autograd.grad(penalty, list(parameters.values())), strict=True))


def test_ewc_adds_the_gradient_of_the_sum_of_its_tasks_terms():
    strategy, model, terms = EWC(Empirical(), strength=3.0), relu_network(), []
    sequence = attached(strategy, model)
    names = [name for name, _ in model.named_parameters()]
    for task in sequence.tasks:
        seen = []

        def look(batch, before, task_gradient, total_gradient, seen=seen):
            seen.append((before, {name: total_gradient[name] - task_gradient[name] for name in names}))

        data = train(strategy, model, sequence, task, after_step=look)
        assert len(seen) == 4
        for before, added in seen:
            probe = relu_network()
            probe.load_state_dict(before)
            truth = slow_gradient(probe, terms, 1.5) if terms else {name: added[name] * 0 for name in names}
            for name in names:
                torch.testing.assert_close(added[name], truth[name], rtol=1e-9, atol=1e-12)
        terms.append((Empirical().estimate(model, names, data, 0, task.index).importance, weights(model)))
    anchors = [anchor["1.weight"] for _, anchor in terms]
    assert not torch.allclose(anchors[0], anchors[1]), "the terms have anchors of their own"


def test_online_ewc_fades_and_has_one_anchor():
    strategy, model, fishers = OnlineEWC(Empirical(), strength=3.0, gamma=0.25), relu_network(), []
    sequence = attached(strategy, model)
    names = [name for name, _ in model.named_parameters()]
    for task in sequence.tasks:
        data = train(strategy, model, sequence, task)
        fishers.append(Empirical().estimate(model, names, data, 0, task.index).importance)
    expected = {name: fishers[2][name] + fishers[1][name] / 4 + fishers[0][name] / 16 for name in names}
    assert_close(strategy._penalty.importance, expected)
    anchor = weights(model)
    assert_close(strategy._penalty.anchors, anchor, 0)
    with torch.no_grad():
        model[1].weight.add_(0.3)
    model.zero_grad()
    strategy.before_task(sequence.tasks[2], None)
    strategy.after_backward(model)
    assert_close({n: p.grad for n, p in model.named_parameters()}, slow_gradient(model, [(expected, anchor)], 1.5))


def test_with_gamma_one_online_ewc_has_the_curvature_of_ewcs_terms():
    """And, where the anchors coincide, the same pull."""
    ewc, online, model = EWC(Exact()), OnlineEWC(Exact(), gamma=1.0), relu_network()
    sequence = attached(ewc, model)
    attached(online, model)
    for task in sequence.tasks:  # nothing is learned between, so anchors coincide
        data = gather([task], task, sequence, CPU, torch.float64)
        ewc.after_task(task, data)
        online.after_task(task, data)
    assert_close(ewc._penalty.importance, online._penalty.importance, 1e-12)
    assert_close(ewc._penalty.anchors, online._penalty.anchors, 1e-12)
    with torch.no_grad():
        model[1].weight.sub_(0.2)
    pulls = []
    for strategy in (ewc, online):
        model.zero_grad()
        strategy.before_task(sequence.tasks[2], None)
        strategy.after_backward(model)
        pulls.append({name: p.grad for name, p in model.named_parameters()})
    assert_close(*pulls, 1e-12)
    assert pulls[0]["1.weight"].abs().sum() > 0


def test_after_learning_between_curvatures_agree_and_anchors_do_not():
    ewc, online, model = EWC(Exact(), strength=0.0), OnlineEWC(Exact(), strength=0.0), relu_network()
    sequence = attached(ewc, model)
    attached(online, model)
    for task in sequence.tasks:
        data = train(ewc, model, sequence, task)
        online.after_task(task, data)
    assert_close(ewc._penalty.importance, online._penalty.importance, 1e-12)
    assert not torch.allclose(ewc._penalty.anchors["1.weight"], online._penalty.anchors["1.weight"])


def test_mas_sums_sensitivities_and_pulls_twice_lambda():
    strategy, model = MAS(strength=0.7, max_samples=20), relu_network()
    sequence = attached(strategy, model)
    total = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    for task in sequence.tasks[:2]:
        data = train(strategy, model, sequence, task)
        order = torch.randperm(len(data), generator=stream(0, "consolidation", task.index))[:20]
        for one in data.inputs[order]:
            length = model(one[None]).square().sum()
            for name, gradient in zip(total, torch.autograd.grad(length, list(model.parameters())), strict=True):
                total[name] += gradient.abs() / 20
    assert_close(strategy._penalty.importance, total)
    anchor = weights(model)
    with torch.no_grad():
        model[3].bias.add_(0.1)
    model.zero_grad()
    strategy.before_task(sequence.tasks[2], None)
    strategy.after_backward(model)
    assert_close({n: p.grad for n, p in model.named_parameters()}, slow_gradient(model, [(total, anchor)], 0.7))


OPTIMISERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "momentum and decay": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


@pytest.mark.parametrize("include_penalty", [False, True])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_si_is_the_slow_path_integral(optimiser, include_penalty):
    strategy, model = SI(strength=4.0, damping=0.05, include_penalty=include_penalty), relu_network()
    sequence = attached(strategy, model)
    total, kinds = {name: torch.zeros_like(p) for name, p in model.named_parameters()}, set()
    for task in sequence.tasks:
        start, path = weights(model), {name: torch.zeros_like(p) for name, p in model.named_parameters()}

        def look(batch, before, task_gradient, total_gradient, path=path):
            kinds.add(all(torch.equal(task_gradient[name], total_gradient[name]) for name in path))
            gradient = total_gradient if include_penalty else task_gradient
            for name, parameter in model.named_parameters():
                path[name] -= gradient[name] * (parameter.detach() - before[name])

        train(strategy, model, sequence, task, OPTIMISERS[optimiser](model.parameters()), after_step=look)
        for name, parameter in model.named_parameters():
            total[name] += path[name].clamp(min=0) / ((parameter.detach() - start[name]).square() + 0.05)
        assert_close(strategy._penalty.importance, total)
        assert_close(strategy._penalty.anchors, weights(model), 0)
    assert kinds == {True, False}, "from task 2 on the two gradients differ"


def test_the_path_integral_is_the_fall_of_the_loss():
    """Small steps, full batches, within 5 %."""
    strategy, model = SI(), relu_network()
    sequence = attached(strategy, model)
    task = sequence.tasks[0]
    data = gather([task], task, sequence, CPU, torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    strategy.before_task(task, optimizer)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data.inputs), data.targets)
        loss.backward()
        losses.append(float(loss.detach()))
        strategy.after_backward(model)
        optimizer.step()
        strategy.after_step(model)
    fall = losses[0] - float(nn.functional.cross_entropy(model(data.inputs), data.targets).detach())
    gained = sum(float(path.sum()) for path in strategy._path.values())
    assert fall > 0.05
    assert gained == pytest.approx(fall, rel=0.05)


@pytest.mark.parametrize("rule", [SLTT(every_tick=True), OTTT(every_tick=True), SLTT()], ids=["sltt", "ottt", "once"])
def test_the_path_integral_is_the_fall_of_the_loss_where_every_tick_steps(rule):
    """Only the head learns, and neurons forget at once: every tick is the same, and every rule's gradient exact."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = spiking_mlp((8, 8), 10, hidden=(20,), neuron=LIF(tau=1.0, threshold=0.3), time_steps=4).double()
    model.network.fc1.weight.requires_grad_(False)
    rule.check(model)
    strategy = SI()
    sequence = attached(strategy, model, rule=rule)
    assert strategy._penalty.names == ["network.head.weight"]
    task = sequence.tasks[0]
    data = gather([task], task, sequence, CPU, torch.float64)
    batch = next(data.batches(len(data), stream(0, "order", 0, 0)))
    optimizer = torch.optim.SGD([model.network.head.weight], lr=0.05)
    strategy.before_task(task, optimizer)

    def mean_over_ticks():
        with torch.no_grad():
            ticks = model.activity(batch.inputs)
        return float(torch.stack([nn.functional.cross_entropy(tick, batch.targets) for tick in ticks]).mean())

    before = mean_over_ticks()
    for _ in range(30):
        optimizer.zero_grad()
        for _ in rule.updates(model, batch, CrossEntropy(), strategy.terms):
            strategy.after_backward(model)
            optimizer.step()
            strategy.after_step(model)
            optimizer.zero_grad()
    fall = before - mean_over_ticks()
    assert fall > 0.05
    assert float(strategy._path["network.head.weight"].sum()) == pytest.approx(fall, rel=0.05)


def test_the_pull_of_a_batch_is_shared_among_its_ticks():
    """At a learning rate of 0 the pulls of all ticks add up to that of a rule that steps once."""
    pulls = []
    for rule in (OTTT(), OTTT(every_tick=True)):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = spiking_mlp((8, 8), 10, hidden=(9,), neuron=LIF(threshold=0.3), time_steps=4).double()
        strategy = EWC(Empirical(), strength=2.0)
        sequence = attached(strategy, model, rule=rule)
        train(strategy, model, sequence, sequence.tasks[0])
        anchor = weights(model)
        with torch.no_grad():
            model.network.fc1.weight.copy_(torch.linspace(-1, 1, 9 * 64).view(9, 64))
            importance = strategy._penalty.importance
            strategy._penalty.importance = {name: torch.ones_like(tensor) for name, tensor in importance.items()}
            strategy._penalty.anchors = {name: torch.zeros_like(tensor) for name, tensor in anchor.items()}
            model.network.head.weight.copy_(torch.linspace(-1, 1, 90).view(10, 9))
        total, steps = {name: torch.zeros_like(p) for name, p in model.named_parameters()}, []

        def look(batch, before, task_gradient, total_gradient, total=total, steps=steps):
            steps.append(1)
            for name, held in total.items():
                held += total_gradient[name] - task_gradient[name]

        train(strategy, model, sequence, sequence.tasks[1], torch.optim.SGD(model.parameters(), lr=0.0), rule, look)
        pulls.append((total, len(steps)))
    assert_close(pulls[0][0], pulls[1][0], 1e-12)
    assert [steps for _, steps in pulls] == [4, 16]
    assert float(pulls[0][0]["network.fc1.weight"][0, 0]) == pytest.approx(-2.0 * 4)


class Watches(Strategy):
    """Keep every gradient."""

    name = "watches"

    def __init__(self):
        self._seen = []

    def after_backward(self, model):
        self._seen.append({name: p.grad.clone() for name, p in model.named_parameters()})


def test_a_rule_that_steps_at_every_tick_steps_by_that_ticks_gradient_alone(tmp_path):
    """The runner clears gradients between two ticks: at a rate of 0 those of the ticks add up to the whole."""

    def gradients(rule):
        strategy = Watches()
        chosen = (f"rule={rule}", "optimizer.lr=0.0", "scenario.num_tasks=1", "model.time_steps=3")
        launch(tmp_path, *chosen, own={"strategy": strategy})
        return strategy._seen

    whole, ticks = gradients("ottt"), gradients("ottt_online")
    assert len(ticks) == 3 * len(whole)
    for number, batch in enumerate(whole):
        for name, gradient in batch.items():
            summed = torch.stack([tick[name] for tick in ticks[3 * number : 3 * number + 3]]).sum(0)
            torch.testing.assert_close(summed, gradient, rtol=1e-4, atol=1e-6)


# What is left alone


@pytest.mark.parametrize(
    ("choice", "network"),
    [*((choice, "foreign") for choice in BUDGETS), ("ewc", "spiking"), ("si", "spiking"), ("lwf", "spiking")],
)
def test_at_strength_zero_it_is_naive_to_the_bit(choice, network, tmp_path):
    """With strength it is not."""

    def run(*chosen):
        own = {"model": foreign_network()} if network == "foreign" else {}
        return launch(tmp_path, *THREE, *chosen, own=own)

    naive = run("strategy=naive")
    ours = (f"strategy={choice}", *BUDGETS[choice])
    without, with_strength = (run(*ours, f"strategy.strength={strength}") for strength in (0.0, 1.0))
    pairs = zip(weights_of(naive.folder), weights_of(without.folder), strict=True)
    assert all(same_tensors(*pair) for pair in pairs)
    np.testing.assert_array_equal(naive.matrices.task_agnostic, without.matrices.task_agnostic)
    first, *later = zip(weights_of(naive.folder), weights_of(with_strength.folder), strict=True)
    assert same_tensors(*first)
    assert not any(same_tensors(*pair) for pair in later)


@pytest.mark.parametrize("choice", ["ewc_sampled", "online_ewc", "si", "mas"])
def test_the_reported_loss_is_the_tasks_own(choice, tmp_path):
    """At a learning rate of 0 from task 2 on nothing moves: the losses are those of naive, however strong the pull."""

    def losses(*chosen):
        result = launch(tmp_path, "scenario.num_tasks=2", "optimizer.lr=0.0", *chosen)
        return [line["loss"] for line in records_of(result.folder) if line["event"] == "epoch"]

    assert losses(f"strategy={choice}", "strategy.strength=1e6") == losses("strategy=naive")


def test_what_is_protected_is_all_that_trains_and_is_shared():
    every = {"1.weight", "1.bias", "2.weight", "2.bias", "5.weight", "5.bias"}
    body = {"1.weight", "1.bias", "2.weight", "2.bias"}
    for sequence, wanted in [
        (permuted(small_data(), 3, "domain"), every),
        (permuted(small_data(), 1, "domain"), every),
        (permuted(small_data(), 3, "task"), body),
        (split(small_data(), 5, mode="class", train_logits="current"), body),
        (split(small_data(), 5, mode="class", train_logits="seen"), every),
        (split(small_data(), 5, mode="class", train_logits="all"), every),
    ]:
        model = foreign_network(num_classes=sequence.num_classes)
        assert set(shared_parameters(model, "5", sequence)) == wanted
    model[1].requires_grad_(False)
    assert set(shared_parameters(model, "5", sequence)) == every - {"1.weight", "1.bias"}


def test_rows_of_old_tasks_stand_still_with_the_task_known(tmp_path):
    """A head whose rows are each one task's own needs no protection."""
    chosen = ("scenario=split", "scenario.num_tasks=5", "scenario.mode=task", "strategy=ewc_empirical")
    saved = weights_of(launch(tmp_path, *chosen).folder)
    for task in range(5):
        own = slice(2 * task, 2 * task + 2)
        assert all(
            torch.equal(later["network.head.weight"][own], saved[task]["network.head.weight"][own])
            for later in saved[task:]
        )


def test_rows_that_do_not_compete_get_no_importance():
    strategy, model = EWC(Exact()), relu_network()
    sequence = split(small_data(), 5, mode="class", train_logits="seen")
    strategy.attach(Setting(model, "3", sequence, 0, BPTT(), CrossEntropy(), epochs=1, batch_size=50))
    train(strategy, model, sequence, sequence.tasks[0])
    fisher = strategy._penalty.importance["3.weight"]
    assert fisher[:2].sum() > 0
    assert fisher[2:].abs().sum() == 0


def test_nothing_to_protect_is_refused():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 30))
    for strategy in (EWC(), OnlineEWC(), SI(), MAS()):
        with pytest.raises(ValueError, match="There is nothing to protect"):
            attached(strategy, model, mode="task")
    attached(SI(), nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), mode="domain")


def test_a_parameter_without_gradient_is_pulled_and_a_frozen_one_is_not():
    model = relu_network()
    penalty = QuadraticPenalty(model, "3", permuted(small_data(), 2, "domain"))
    penalty.move_anchor({name: torch.ones_like(p) for name, p in model.named_parameters()})
    model[1].bias.requires_grad_(False)
    with torch.no_grad():
        model[1].weight.add_(1.0)
        model[1].bias.add_(1.0)
    penalty.add_to_gradients(0.5)
    torch.testing.assert_close(model[1].weight.grad, torch.full((12, 64), 0.5, dtype=torch.float64))
    assert model[1].bias.grad is None


# What is reported


@pytest.mark.parametrize("choice", ["ewc", "si"])
def test_stored_bytes_are_those_of_importances_and_anchors(choice, tmp_path):
    """And do not grow with the tasks."""
    for mode, layers in (("domain", (64 * 12, 12 * 12, 12 * 10)), ("task", (64 * 12, 12 * 12))):
        for tasks in (2, 3) if mode == "domain" else (2,):
            chosen = (f"scenario.num_tasks={tasks}", f"scenario.mode={mode}", f"strategy={choice}", *BUDGETS[choice])
            assert launch(tmp_path, *chosen).metrics["stored_bytes"] == 2 * 4 * sum(layers)


def test_operations_are_counted(tmp_path):
    """The static input is mapped once, spikes at each of three ticks; 8 batches a task."""
    parameters, forward = 64 * 12 + 12 * 12 + 12 * 10, 64 * 12 + 3 * (12 * 12 + 12 * 10)
    steps = 2 * -(-200 // 50)

    def operations(choice, *more):
        chosen = (
            "scenario.num_tasks=2",
            "epochs=2",
            "batch_size=50",
            "model.time_steps=3",
            f"strategy={choice}",
            *more,
        )
        return launch(tmp_path, *chosen).metrics["learning_operations"]

    pull = 2 * parameters * steps
    assert operations("si") == pull + parameters * 2 * steps
    assert operations("ewc_empirical") == pull + 2 * 200 * (3 * forward + parameters)
    assert operations("mas", "strategy.max_samples=30") == pull + 2 * 30 * (3 * forward + parameters)
    assert operations("ewc", "strategy.fisher.max_samples=30") == pull + 2 * 30 * (21 * forward + 10 * parameters)
    assert operations("ewc_batch_mean") == pull + 2 * (200 * 3 * forward + 4 * parameters)


def test_notices_name_the_estimate_and_what_no_penalty_holds():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        spiking = spiking_mlp((8, 8), 10, hidden=(9,), neuron=LIF(threshold=0.3), time_steps=2).double()
    strategy = EWC(Empirical())
    sequence = attached(strategy, spiking)
    assert strategy.notices() == ["Parameters are weighed by surrogate_empirical_fisher."]
    train(strategy, spiking, sequence, sequence.tasks[0])
    assert strategy.notices() == []
    si = SI()
    attached(si, foreign_network())
    (notice,) = si.notices()
    assert "norm layers (2)" in notice
    mas = MAS()
    attached(mas, relu_network())
    assert mas.notices() == ["Parameters are weighed by output_sensitivity."]


# Under every rule, and what is refused


RULES = [(choice, rule) for choice in ("si", "lwf") for rule in choices("rule")]
RULES += [("ewc_empirical", rule) for rule in ("dsr", "eprop", "ottt_online")]


@pytest.mark.parametrize(("choice", "rule"), [*RULES, ("ewc_batch_mean", "dsr"), ("mas", "dsr")])
def test_every_rule_runs_or_is_refused_by_name(choice, rule, tmp_path):
    chosen = (f"rule={rule}", f"strategy={choice}")
    if rule == "dsr" and choice in ("ewc_empirical", "mas"):
        with pytest.raises(UserError, match=r"network\.neuron1.*written by hand"):
            launch(tmp_path, *chosen)
        return
    result = launch(tmp_path, *chosen)
    assert result.matrices.num_tasks == 2
    assert np.isfinite(result.matrices.task_aware[1]).all()


@pytest.mark.parametrize(
    ("choice", "model"),
    [("ewc_sampled", "spiking_cnn"), ("lwf", "spiking_cnn"), ("mas", "relu_cnn"), ("si", "relu_cnn")],
)
def test_convolutional_networks_run(choice, model, tmp_path):
    assert launch(tmp_path, f"model={model}", "model.channels=[4,4]", f"strategy={choice}").matrices.num_tasks == 2


def test_a_state_of_another_shape_is_refused():
    strategy, model = SI(), relu_network()
    sequence = attached(strategy, model)
    train(strategy, model, sequence, sequence.tasks[0])
    state = strategy.state_dict()
    wrong = state | {"anchor.1.weight": torch.zeros(3, 3)}
    with pytest.raises(ValueError, match=r"state has \[3, 3\] for '1.weight'"):
        strategy.load_state_dict(wrong)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EWC(strength=-1.0), "strength must be at least 0, got -1.0"),
        (lambda: EWC(strength=float("nan")), "strength must be at least 0, got nan"),
        (lambda: OnlineEWC(strength=-1.0), "strength must be at least 0"),
        (lambda: OnlineEWC(gamma=1.5), r"gamma must be in \[0, 1\], got 1.5"),
        (lambda: SI(strength=-1.0), "strength must be at least 0"),
        (lambda: SI(damping=0.0), "damping must be above 0, got 0.0"),
        (lambda: MAS(strength=-1.0), "strength must be at least 0"),
        (lambda: MAS(max_samples=0), "max_samples must be at least 1"),
    ],
)
def test_numbers_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(("make", "factor"), [(EWC, 1.0), (OnlineEWC, 1.0), (SI, 2.0), (MAS, 2.0)])
def test_a_pull_that_overshoots_is_told(make, factor):
    """Gradient descent on s/2 A θ² multiplies the distance by 1 − rate · s A: beyond −1 it grows."""
    strategy, model = make(strength=3.0), relu_network()
    sequence = attached(strategy, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    train(strategy, model, sequence, sequence.tasks[0], optimizer)
    ones = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    for stiffest, told in ((1.9 / (0.5 * 3.0 * factor), False), (2.1 / (0.5 * 3.0 * factor), True)):
        ones["1.weight"][2, 3] = stiffest
        strategy._penalty.importance = ones
        start = float(model[1].weight[2, 3].detach())
        strategy._penalty.anchors = {name: p.detach() - 1.0 for name, p in model.named_parameters()}
        assert [("overshoots" in note) for note in strategy.notices()] == ([True] if told else [])
        for _ in range(20):
            model.zero_grad()
            strategy.after_backward(model)
            optimizer.step()
        far = abs(float(model[1].weight[2, 3].detach()) - (start - 1.0))
        assert (far > 1.0) == told
    strategy.before_task(sequence.tasks[1], torch.optim.Adam(model.parameters()))
    assert strategy.notices() == [], "Adam scales gradients itself"
