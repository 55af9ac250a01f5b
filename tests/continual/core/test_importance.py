"""Estimators of importances against closed forms for logistic regression, and against slow loops elsewhere."""

import copy

import pytest
import torch
from tiny_runs import same_tensors, small_data
from torch import nn

from continual.batches import TrainingData
from continual.importance import Argmax, BatchMeanLegacy, Empirical, Exact, OutputSensitivity, Sampled
from continual.importance.scores import of_drawn_label
from continual.scenarios import permuted
from continual.seeding import stream
from neuro import DSRIF, LIF, LeakyReadout
from neuro.encoding import Poisson
from neuro.lateral import evaluating
from neuro.models import Normalise, cnn, spiking_mlp

WIDTH, CLASSES = 6, 4
PER_SAMPLE = [Exact, Sampled, Empirical, Argmax, OutputSensitivity]
ALL = [*PER_SAMPLE, BatchMeanLegacy]


def regression(scale=1.0, dtype=torch.float64):
    """Logistic regression z = W x + b."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Linear(WIDTH, CLASSES)
    with torch.no_grad():
        model.weight.mul_(scale)
    return model.to(dtype)


def samples(num=50, seed=0, active=None, shape=(WIDTH,), dtype=torch.float64, model=None):
    """Inputs, and labels drawn from the model's own belief, or uniformly among the rows that compete."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.rand(num, *shape, generator=generator, dtype=torch.float64).to(dtype)
    active = torch.ones(CLASSES, dtype=torch.bool) if active is None else torch.tensor(active)
    believed = active.double().expand(num, -1) if model is None else belief(model, inputs, active)
    targets = torch.multinomial(believed, 1, generator=generator)[:, 0]
    return TrainingData(inputs, targets, active, torch.zeros(num, dtype=torch.int64))


def with_rows(data, active):
    return TrainingData(data.inputs, data.targets, active, data.task)


@torch.no_grad()
def belief(model, inputs, active):
    return model(inputs).masked_fill(~active, float("-inf")).softmax(1)


def found_by(estimator, model, data, task=0):
    names = [name for name, _ in model.named_parameters()]
    return estimator.estimate(model, names, data, 0, task).importance


def squares(errors, inputs):
    """Σ over samples of (error_i x_j)² and error_i², over N: the closed forms of a linear model."""
    return {"weight": (errors.square().mT @ inputs.square()) / len(inputs), "bias": errors.square().mean(0)}


def assert_close(found, truth, tolerance=1e-8):
    assert found.keys() == truth.keys()
    for name, tensor in truth.items():
        torch.testing.assert_close(found[name], tensor, rtol=tolerance, atol=tolerance)


ROWS = [None, [True, False, True, True]]


@pytest.mark.parametrize("active", ROWS, ids=["all rows", "some rows"])
def test_the_exact_fisher_of_logistic_regression(active):
    """Σ_c p_c (δ_ic − p_i)² = p_i (1 − p_i)."""
    model, data = regression(), samples(active=active)
    p = belief(model, data.inputs, data.active)
    found = found_by(Exact(max_samples=None), model, data)
    assert_close(found, squares((p * (1 - p)).sqrt(), data.inputs))
    if active is not None:
        assert found["weight"][1].abs().sum() == found["bias"][1] == 0


@pytest.mark.parametrize("active", ROWS, ids=["all rows", "some rows"])
def test_the_empirical_and_the_argmax_fisher_of_logistic_regression(active):
    model, data = regression(scale=4.0), samples(active=active)
    p = belief(model, data.inputs, data.active)
    for estimator, labels in ((Empirical, data.targets), (Argmax, p.argmax(1))):
        errors = nn.functional.one_hot(labels, CLASSES) - p
        assert_close(found_by(estimator(max_samples=None), model, data), squares(errors, data.inputs))


def test_the_output_sensitivity_of_logistic_regression():
    """∂‖z‖²/∂W_ij = 2 z_i x_j."""
    model, data = regression(), samples(active=[True, True, False, True])
    z = model(data.inputs).detach() * data.active
    truth = {"weight": (2 * z).abs().mT @ data.inputs.abs() / len(z), "bias": (2 * z).abs().mean(0)}
    assert_close(found_by(OutputSensitivity(max_samples=None), model, data), truth)


def test_the_square_of_the_batch_mean_gradient_of_logistic_regression():
    model, data = regression(), samples(num=11)
    p = belief(model, data.inputs, data.active)
    errors = nn.functional.one_hot(data.targets, CLASSES) - p
    order = torch.randperm(11, generator=stream(0, "consolidation", 0))
    truth = {"weight": torch.zeros(CLASSES, WIDTH, dtype=torch.float64), "bias": torch.zeros(CLASSES).double()}
    for batch in order.split(4):
        mean = errors[batch].mT @ data.inputs[batch] / len(batch)
        truth["weight"] += mean.square() * len(batch) / 11
        truth["bias"] += errors[batch].mean(0).square() * len(batch) / 11
    assert_close(found_by(BatchMeanLegacy(max_samples=None, batch_size=4), model, data), truth)


def test_each_sample_competes_among_its_own_rows():
    model, data = regression(), samples(num=20)
    rows = torch.tensor([[True, True, False, False], [False, False, True, True]]).repeat(10, 1)
    data = with_rows(data, rows)
    for estimator in (Exact, Sampled, Argmax, OutputSensitivity):
        halves = [
            found_by(estimator(max_samples=None), model, TrainingData(*(part[half::2] for part in data)))
            for half in (0, 1)
        ]
        whole = found_by(estimator(max_samples=None), model, data)
        for half, gone in ((halves[0], slice(2, 4)), (halves[1], slice(0, 2))):
            assert half["weight"][gone].abs().sum() == 0
        if estimator is not Sampled:  # whose labels depend on the place in the order
            assert_close(whole, {name: (halves[0][name] + halves[1][name]) / 2 for name in whole}, 1e-12)


def test_sampled_labels_converge_to_the_exact_fisher_and_wrong_ones_do_not():
    model, few = regression(scale=3.0), samples(num=20)
    data = TrainingData(few.inputs.repeat(500, 1), few.targets.repeat(500), few.active, few.task.repeat(500))
    exact = found_by(Exact(max_samples=None), model, few)
    errors = {
        estimator.name: {
            name: float((found_by(estimator(max_samples=None), model, data)[name] / exact[name] - 1).abs().max())
            for name in exact
        }
        for estimator in (Sampled, Empirical, Argmax)
    }
    print(errors)
    assert max(errors["sampled"].values()) < 0.12, "five standard errors of 10,000 draws"
    assert min(errors["empirical"].values()) > 0.3, "labels that the model does not believe in"
    assert min(errors["argmax"].values()) > 0.3


def test_the_empirical_fisher_is_right_for_labels_the_model_believes_in_and_wrong_for_noisy_ones():
    model = regression(scale=6.0)
    believed = samples(num=2000, model=model)
    noisy = samples(num=2000)
    exact = found_by(Exact(max_samples=None), model, believed)["weight"]
    ratios = [
        float(found_by(Empirical(max_samples=None), model, data)["weight"].sum() / exact.sum())
        for data in (believed, noisy)
    ]
    assert ratios[0] == pytest.approx(1, abs=0.1)
    assert ratios[1] > 1.5, ratios


def test_labels_are_drawn_as_often_as_the_network_believes():
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0, 1.0], dtype=torch.float64)
    active = torch.tensor([False, True, True, False, True])
    p = logits.masked_fill(~active, float("-inf")).softmax(0)
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    drawn = torch.func.vmap(of_drawn_label, in_dims=(None, None, 0))(logits, active, uniform)
    counts = torch.stack([(drawn == log_p).sum() for log_p in p.log()])
    assert counts.sum() == 20_000
    expected = 20_000 * p[active]
    assert float(((counts[active] - expected).square() / expected).sum()) < 13.8, "chi-square, 2 degrees, p = 0.001"


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-24])
def test_the_ends_of_the_unit_interval_draw_a_row_that_competes(uniform):
    active = torch.tensor([False, True, True, False])
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        drawn = of_drawn_label(torch.zeros(4, dtype=dtype), active, torch.tensor(uniform))
        assert float(drawn) == pytest.approx(-0.693, abs=0.01)


def test_the_batch_mean_at_one_sample_a_batch_is_the_empirical_fisher():
    for model, shape in ((regression(), (WIDTH,)), (spiking_network(), (6, 6))):
        data = samples(num=9, shape=shape)
        assert_close(
            found_by(BatchMeanLegacy(None, batch_size=1), model, data), found_by(Empirical(None), model, data), 1e-10
        )


def test_the_batch_mean_shrinks_with_the_batch_near_an_optimum():
    model = regression()
    data = samples(num=1024, model=model)  # whose expected gradient is 0
    sizes = {size: found_by(BatchMeanLegacy(None, size), model, data)["weight"].sum() for size in (1, 16)}
    assert float(sizes[1] / sizes[16]) == pytest.approx(16, rel=0.3)


@pytest.mark.parametrize("estimator", ALL)
def test_a_single_sample_is_enough(estimator):
    model, data = regression(), samples(num=1)
    found = found_by(estimator(), model, data)
    assert all(torch.isfinite(tensor).all() and tensor.sum() > 0 for tensor in found.values())


def spiking_network(kind="mlp"):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "cnn":
            model = cnn((6, 6), CLASSES, channels=(4, 5), neuron=LIF(threshold=0.3), time_steps=3).double()
            for norm in (model.network.norm1, model.network.norm2):
                norm.momentum = None  # statistics of what it has seen, so that every layer fires in evaluation too
            model(torch.rand(20, 6, 6, dtype=torch.float64))
            return model
        return spiking_mlp((6, 6), CLASSES, hidden=(9,), neuron=LIF(threshold=0.3), time_steps=4).double()


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_the_exact_fisher_of_a_spiking_network_is_the_slow_double_loop(kind):
    model, data = spiking_network(kind), samples(num=5, shape=(6, 6), active=[True, True, False, True])
    parameters = dict(model.named_parameters())
    truth = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    with evaluating(model), torch.enable_grad():
        for one in data.inputs:
            log_p = model(one[None])[0][data.active].log_softmax(0)
            for label in range(3):
                for name, gradient in zip(
                    truth, torch.autograd.grad(log_p[label], list(parameters.values()), retain_graph=True), strict=True
                ):
                    truth[name] += log_p[label].exp().detach() * gradient.square() / 5
    assert_close(found_by(Exact(), model, data), truth, 1e-10)
    assert all(tensor.sum() > 0 for tensor in truth.values())


@pytest.mark.parametrize("estimator", PER_SAMPLE)
def test_the_size_of_a_chunk_decides_nothing(estimator):
    model, data = spiking_network(), samples(num=20, shape=(6, 6))
    whole = found_by(estimator(), model, data)
    for size in (1, 7):
        assert_close(found_by(estimator(chunk_size=size), model, data), whole, 1e-12)


def test_classes_are_taken_in_blocks_that_fit_into_memory(monkeypatch):
    model, data = regression(), samples()
    whole = found_by(Exact(None), model, data)
    monkeypatch.setattr("continual.importance.estimator.affordable_gradients", lambda model, names: 3)
    assert_close(found_by(Exact(None), model, data), whole, 1e-12)


@pytest.mark.parametrize("estimator", ALL)
def test_as_many_samples_are_looked_at_as_asked_each_once(estimator):
    model, data = regression(), samples(num=30)
    names = ["weight", "bias"]
    found = estimator(max_samples=12).estimate(model, names, data, 0, 0)
    classes = CLASSES if estimator is Exact else 1
    assert found.passes == 12 * (1 + 2 * classes)
    assert found.gradients == (1 if estimator is BatchMeanLegacy else 12 * classes)
    again = estimator(max_samples=12).estimate(model, names, data, 0, 0).importance
    other_task = estimator(max_samples=12).estimate(model, names, data, 0, 1).importance
    assert same_tensors(found.importance, again)
    assert not same_tensors(found.importance, other_task), "another task draws other samples"
    order = torch.randperm(30, generator=stream(0, "consolidation", 0))[:12]
    subset = TrainingData(data.inputs[order], data.targets[order], data.active, data.task[order])
    if estimator not in (Sampled, BatchMeanLegacy):  # whose labels and batches depend on the order
        assert_close(found.importance, found_by(estimator(None), model, subset), 1e-12)


@pytest.mark.parametrize("estimator", ALL)
def test_nothing_of_the_model_or_its_streams_moves(estimator):
    model = cnn((6, 6), CLASSES, (4,), LIF(threshold=0.3), 3, normalise=Normalise(), encoder=Poisson(seed=5))
    model = nn.Sequential(nn.Dropout(0.5), model).train()
    model(torch.rand(4, 6, 6))
    model[1].network.norm1.eval()
    data = samples(num=10, shape=(6, 6), dtype=torch.float32)
    before, modes = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    streams, own = torch.get_rng_state(), model[1].encoder.generator.get_state()
    first = found_by(estimator(), model, data)
    assert same_tensors(model.state_dict(), before)
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), streams)
    assert torch.equal(model[1].encoder.generator.get_state(), own)
    assert all(parameter.grad is None for parameter in model.parameters())
    torch.rand(3)
    assert same_tensors(found_by(estimator(), model, data), first), "noise comes from a stream of its own"


def test_every_class_of_the_exact_fisher_sees_the_same_noise(monkeypatch):
    """With a block per class, passes that drew afresh would not add up to what one pass over all classes gives."""
    model = spiking_mlp((6, 6), CLASSES, (9,), LIF(threshold=0.3), 4, Normalise(), Poisson(seed=5)).double()
    data = samples(num=10, shape=(6, 6))
    whole = found_by(Exact(chunk_size=10), model, data)
    monkeypatch.setattr("continual.importance.estimator.affordable_gradients", lambda model, names: 1)
    assert_close(found_by(Exact(chunk_size=10), model, data), whole, 1e-12)


@pytest.mark.parametrize("estimator", ALL)
def test_importances_are_in_single_precision_at_least(estimator):
    data = samples(dtype=torch.bfloat16)
    found = found_by(estimator(), regression(dtype=torch.bfloat16), data)
    assert all(tensor.dtype == torch.float32 for tensor in found.values())
    exact = found_by(estimator(), regression(), samples())
    if estimator is not Sampled:
        assert float((found["weight"] - exact["weight"]).abs().max() / exact["weight"].max()) < 0.05


def test_estimates_on_spikes_are_called_surrogate():
    spiking = spiking_network()
    assert Exact().reported_name(spiking) == "surrogate_exact_fisher"
    assert BatchMeanLegacy().reported_name(spiking) == "surrogate_batch_mean_legacy"
    assert Exact().reported_name(nn.Sequential(nn.Linear(3, 3), nn.ReLU())) == "exact_fisher"
    assert OutputSensitivity().reported_name(nn.Sequential(LeakyReadout())) == "output_sensitivity"


def test_too_many_classes_for_the_exact_fisher_are_refused():
    sequence = permuted(small_data(), 3, "class")
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 30))
    names = ["1.weight"]
    Exact(max_classes=30).check(model, names, sequence)
    with pytest.raises(ValueError, match="30 classes compete, more than max_classes=29; use the sampled one"):
        Exact(max_classes=29).check(model, names, sequence)
    Exact(max_classes=10).check(model, names, permuted(small_data(), 3, "task"))


@pytest.mark.parametrize("estimator", PER_SAMPLE)
def test_hidden_gradients_are_refused_by_name_unless_the_batch_mean_asks(estimator):
    sequence = permuted(small_data(), 2, "domain")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = spiking_mlp((8, 8), 10, hidden=(9,), neuron=DSRIF(threshold=0.5))
    names = [name for name, _ in model.named_parameters()]
    with pytest.raises(ValueError, match=r"network\.neuron1"):
        estimator().check(model, names, sequence)
    BatchMeanLegacy().check(model, names, sequence)
    data = with_rows(samples(num=10, shape=(8, 8), dtype=torch.float32), torch.ones(10, dtype=torch.bool))
    assert found_by(BatchMeanLegacy(), model, data)["network.fc1.weight"].sum() > 0


@pytest.mark.parametrize("estimator", ALL)
def test_numbers_below_one_are_refused(estimator):
    other = "batch_size" if estimator is BatchMeanLegacy else "chunk_size"
    for name in ("max_samples", other, *(["max_classes"] if estimator is Exact else [])):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            estimator(**{name: 0})


@pytest.mark.parametrize("estimator", ALL)
def test_on_every_device(estimator, device):
    model, data = regression(dtype=torch.float32), samples(dtype=torch.float32)
    here = found_by(estimator(), model, data)
    there = found_by(estimator(), model.to(device), TrainingData(*(part.to(device) for part in data)))
    assert all(tensor.device.type == device.type for tensor in there.values())
    assert_close({name: tensor.cpu() for name, tensor in there.items()}, here, 1e-4)
