"""protect(): the add-on in a plain loop, what it freezes, how the head behaves, what it refuses, what it counts."""

import copy

import pytest
import torch
from torch import nn

from neuro import LIF, Linear, SpikingSequential
from neuro.lateral import (
    Eigen,
    EnergyShare,
    HeadRows,
    ListedSizes,
    NoRows,
    evaluating,
    freeze_unprotected,
    last_linear,
    modules_of,
    protect,
    readable_sites,
    tapped,
    weight_sites,
)
from neuro.models import spiking_mlp


class RankFiveTasks:
    """Two tasks whose inputs span five dimensions each, so that a first layer of width 20 can protect them whole."""

    def __init__(self, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.inputs = [
            torch.rand(64, 5, generator=generator) @ torch.rand(5, 20, generator=generator) for _ in range(2)
        ]
        self.labels = [torch.randint(4, (64,), generator=generator) for _ in range(2)]


def relu_network(norm=True, seed=0):
    torch.manual_seed(seed)
    layers = [nn.Linear(20, 40), nn.BatchNorm1d(40) if norm else nn.LayerNorm(40), nn.ReLU(), nn.Linear(40, 4)]
    return nn.Sequential(*layers)


def train(model, protection, inputs, labels, call="after_step", kind=torch.optim.Adam, steps=25, toggle=False):
    optimizer = kind([p for p in model.parameters() if p.requires_grad], lr=0.02)
    for step in range(steps):
        model.train(not toggle or step % 2 == 0)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        if call == "after_backward":
            protection.after_backward()
        optimizer.step()
        if call == "after_step":
            protection.after_step()
    return optimizer


@pytest.mark.parametrize(
    ("call", "kind"),
    [("after_step", torch.optim.Adam), ("after_step", torch.optim.SGD), ("after_backward", torch.optim.SGD)],
)
@pytest.mark.parametrize("norm", [True, False], ids=["batch_norm", "layer_norm"])
def test_a_plain_loop_over_two_tasks_keeps_the_old_outputs(norm, call, kind):
    model, tasks = relu_network(norm), RankFiveTasks()
    protection = protect(model, learning=Eigen(), sizes=EnergyShare(0.999999))
    train(model, protection, tasks.inputs[0], tasks.labels[0], call, kind)
    protection.end_task(tasks.inputs[0])
    model.eval()
    before, new_before = model(tasks.inputs[0]).detach(), model(tasks.inputs[1]).detach()
    train(model, protection, tasks.inputs[1], tasks.labels[1], call, kind)
    model.eval()
    drift = float((model(tasks.inputs[0]).detach() - before).abs().max())
    learned = float((model(tasks.inputs[1]).detach() - new_before).abs().max())
    assert drift < 5e-3
    assert learned > 20 * drift
    assert learned > 0.05


def test_control_the_same_loop_without_lateral_neurons_forgets():
    model, tasks = relu_network(), RankFiveTasks()
    protection = protect(model, sizes=NoRows())
    train(model, protection, tasks.inputs[0], tasks.labels[0])
    protection.end_task(tasks.inputs[0])
    model.eval()
    before = model(tasks.inputs[0]).detach()
    train(model, protection, tasks.inputs[1], tasks.labels[1])
    model.eval()
    assert float((model(tasks.inputs[0]).detach() - before).abs().max()) > 0.1


def test_biases_and_norms_are_bit_identical_from_the_second_task_on_whatever_the_mode():
    model, tasks = relu_network(), RankFiveTasks()
    protection = protect(model)
    train(model, protection, tasks.inputs[0], tasks.labels[0])
    protection.end_task(tasks.inputs[0])
    frozen = {name: value.clone() for name, value in model.state_dict().items() if name not in ("0.weight", "3.weight")}
    assert {
        "0.bias",
        "1.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
        "3.bias",
    } == set(frozen)
    train(model, protection, tasks.inputs[1], tasks.labels[1], toggle=True)
    model.train().eval().train()
    model(tasks.inputs[1])
    assert all(torch.equal(model.state_dict()[name], value) for name, value in frozen.items())
    assert not model[1].training


def test_before_the_first_task_ends_nothing_is_frozen_or_projected():
    first, second, tasks = relu_network(), relu_network(), RankFiveTasks()
    protection = protect(first)
    train(first, protection, tasks.inputs[0], tasks.labels[0])
    train(second, None, tasks.inputs[0], tasks.labels[0], call=None)
    for ours, theirs in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    assert protection.operations == (0, 0)


def test_a_parameter_that_cannot_be_protected_is_frozen_and_named():
    model = relu_network()
    names = freeze_unprotected(model, weight_sites(model), model[3])
    assert names == ["0.bias", "1.weight", "1.bias"]
    assert [name for name, parameter in model.named_parameters() if parameter.requires_grad] == [
        "0.weight",
        "3.weight",
        "3.bias",
    ]


def test_a_protected_model_can_be_copied_and_the_copy_stays_protected():
    model, inputs = relu_network(), torch.rand(32, 20)
    protect(model).end_task(inputs)
    copied = copy.deepcopy(model).train()
    statistics = copied[1].running_mean.clone()
    copied(inputs)
    assert torch.equal(copied[1].running_mean, statistics)


@pytest.mark.parametrize(("first", "second"), [("after_step", "after_backward"), ("after_backward", "after_step")])
def test_projecting_twice_is_refused(first, second):
    protection = protect(relu_network())
    getattr(protection, first)()
    getattr(protection, first)()
    with pytest.raises(RuntimeError, match=rf"Both {first} and {second} were called"):
        getattr(protection, second)()


def test_projecting_the_step_is_refused_while_rows_are_projected():
    protection = protect(nn.Sequential(Linear(4, 3), nn.ReLU(), Linear(3, 2)), trace_side=True)
    with pytest.raises(RuntimeError, match="trace_side projects gradients already"):
        protection.after_step()


def gradient_after(protection, model, inputs):
    model.zero_grad()
    model(inputs).square().sum().backward()
    protection.after_backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def test_the_trace_side_gives_the_gradients_of_the_weight_side_and_can_be_switched():
    torch.manual_seed(0)
    model = spiking_mlp([10], 3, hidden=[40, 30], neuron=LIF(threshold=0.3), time_steps=3)
    protection = protect(model, learning=Eigen(), sizes=ListedSizes([[4, 6, 5]]))
    protection.end_task(torch.rand(30, 10))
    inputs = torch.rand(4, 10)
    weight_side = gradient_after(protection, model, inputs)
    assert model.network.fc1.projectors is None
    protection.set_trace_side(True)
    assert model.network.fc1.projectors is not None
    assert model.network.head.projectors is not None  # every row of this head is shared
    trace_side = gradient_after(protection, model, inputs)
    protection.set_trace_side(False)
    assert model.network.fc1.projectors is None
    again = gradient_after(protection, model, inputs)
    for ours, theirs, third in zip(weight_side, trace_side, again, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
        assert torch.equal(ours, third)


def test_switching_sides_before_the_first_task_ends_installs_nothing():
    model = nn.Sequential(Linear(4, 3), nn.ReLU(), Linear(3, 2))
    protection = protect(model)
    protection.set_trace_side(True)
    assert model[0].projectors is None
    protection.end_task(torch.rand(8, 4))
    assert model[0].projectors is not None
    protection.set_trace_side(False)
    protection.after_step()


def test_plain_linear_layers_stay_on_the_weight_side():
    torch.manual_seed(0)
    model, inputs = (
        nn.Sequential(nn.Linear(10, 40, bias=False), nn.ReLU(), nn.Linear(40, 3, bias=False)),
        torch.rand(4, 10),
    )
    protection = protect(model, learning=Eigen(), sizes=ListedSizes([[4, 5]]), trace_side=True)
    protection.end_task(torch.rand(30, 10))
    for gradient, subspace in zip(
        gradient_after(protection, model, inputs), protection.subspaces.values(), strict=True
    ):
        assert float((gradient @ subspace.basis.mT).norm() / gradient.norm()) < 1e-5


@pytest.mark.parametrize(
    ("call", "kind"),
    [("after_step", torch.optim.Adam), ("after_step", torch.optim.SGD), ("after_backward", torch.optim.SGD)],
)
def test_head_rows_stand_still_or_are_projected_or_are_free(call, kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 4))
    protection = protect(model, learning=Eigen(), sizes=ListedSizes([[3, 8]]))
    tasks = RankFiveTasks()
    protection.end_task(tasks.inputs[0])
    shared, active = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    protection.begin_task(HeadRows(shared, active))
    weight, bias = model[2].weight.detach().clone(), model[2].bias.detach().clone()
    train(model, protection, tasks.inputs[1], tasks.labels[1], call, kind)
    change, basis = model[2].weight.detach() - weight, protection.subspaces["2"].basis
    assert torch.equal(change[[1, 3]], torch.zeros(2, 30))
    inside = (change @ basis.mT).norm(dim=1) / change.norm(dim=1).clamp(min=1e-12)
    assert inside[0] < 1e-4
    assert inside[2] > 0.1
    assert torch.equal(model[2].bias[[0, 1, 3]], bias[[0, 1, 3]])
    assert model[2].bias[2] != bias[2]


def test_a_head_of_separate_rows_is_neither_learned_nor_projected():
    model = relu_network()
    protection = protect(model, shared_head=False)
    assert protection.ranks == {"0": 0}
    protection.end_task(torch.rand(40, 20))
    weight = model[3].weight.detach().clone()
    tasks = RankFiveTasks()
    train(model, protection, tasks.inputs[1], tasks.labels[1])
    assert not torch.equal(model[3].weight, weight)


def test_the_head_is_the_last_linear_unless_named_and_a_foreign_name_is_refused():
    model = nn.ModuleDict({"classifier": nn.Linear(8, 3), "body": nn.Linear(5, 8)})
    assert last_linear(model) == "body"
    assert protect(model).head_name == "body"
    assert protect(model, head="classifier").head.module is model["classifier"]
    with pytest.raises(ValueError, match=r"no linear layer 'fc'; choose from classifier, body"):
        protect(model, head="fc")


def test_a_network_without_linear_layers_is_refused():
    with pytest.raises(ValueError, match="no linear layer"):
        protect(nn.Sequential(nn.ReLU()))
    with pytest.raises(ValueError, match="no linear or convolutional layer"):
        weight_sites(nn.ReLU())


@pytest.mark.parametrize(
    ("layer", "kind"),
    [
        (nn.Conv3d(3, 4, 3), "Conv3d"),
        (nn.ConvTranspose1d(3, 4, 3), "ConvTranspose1d"),
        (nn.LSTM(3, 4), "LSTM"),
        (nn.GRUCell(3, 4), "GRUCell"),
        (nn.MultiheadAttention(4, 2), "MultiheadAttention"),
        (nn.Bilinear(2, 3, 4), "Bilinear"),
    ],
)
def test_a_weight_that_no_tap_reads_is_refused_with_its_name(layer, kind):
    model = nn.Sequential()
    model.add_module("stem", layer)
    model.add_module("head", nn.Linear(4, 2))
    with pytest.raises(ValueError, match=rf"Layer 'stem' \({kind}\)"):
        protect(model)


def test_tied_weights_are_refused():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 4, bias=False))
    model[2].weight = model[0].weight
    with pytest.raises(ValueError, match="share one weight"):
        protect(model)


def test_a_head_tied_to_an_embedding_is_refused():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    model[1].weight = model[0].weight
    with pytest.raises(ValueError, match="share"):
        protect(model)


def test_sizes_that_do_not_fit_are_refused_at_once():
    with pytest.raises(ValueError, match="name 1 layers, the network has 2"):
        protect(relu_network(), sizes=ListedSizes([[3]]))


def test_a_list_that_ends_before_the_tasks_do_is_refused_in_words():
    protection = protect(relu_network(), sizes=ListedSizes([[3, 3]]))
    protection.end_task(torch.rand(8, 20))
    with pytest.raises(ValueError, match="1"):
        protection.end_task(torch.rand(8, 20))


def test_a_task_without_inputs_is_refused_rather_than_counted():
    for nothing in (torch.rand(0, 20), []):
        protection = protect(relu_network())
        with pytest.raises(ValueError, match="input"):
            protection.end_task(nothing)
        assert protection.num_tasks == 0


def test_a_forward_pass_that_fails_leaves_the_protection_usable():
    model = relu_network()
    protection = protect(model)
    with pytest.raises((ValueError, RuntimeError)):
        protection.end_task(torch.rand(8, 21))
    assert protection.num_tasks == 0
    protection.end_task(torch.rand(8, 20))
    assert protection.num_tasks == 1


def test_ending_a_task_gives_modes_and_gradient_mode_back():
    model = relu_network()
    model.train()
    model[2].eval()
    modes = [module.training for module in model.modules()]
    protect(model).end_task(torch.rand(16, 20))
    assert [module.training for module in model.modules()] == modes
    assert torch.is_grad_enabled()
    with evaluating(model):
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()

    def interrupted():
        with evaluating(model):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [module.training for module in model.modules()] == modes


def test_ending_a_task_removes_its_taps_and_leaves_statistics_alone():
    model = relu_network()
    statistics = model[1].running_mean.clone()
    protect(model).end_task(torch.rand(16, 20))
    assert not model[0]._forward_pre_hooks
    assert torch.equal(model[1].running_mean, statistics)


def test_a_tensor_and_its_batches_are_the_same_task():
    inputs, bases = torch.rand(40, 20), []
    for given in (inputs, list(inputs.split(7)), inputs.split(40)):
        protection = protect(relu_network(), learning=Eigen(), sizes=ListedSizes([[4, 4]]))
        protection.end_task(given)
        bases.append(protection.subspaces["0"].basis)
    for basis in bases[1:]:
        torch.testing.assert_close(basis.mT @ basis, bases[0].mT @ bases[0], rtol=0, atol=1e-4)


def test_a_generator_is_consumed_once_when_its_length_is_given():
    inputs = torch.rand(40, 20)
    protection = protect(relu_network(), sizes=ListedSizes([[4, 4]]))
    protection.end_task((batch for batch in inputs.split(10)), num_batches=4)
    assert protection.ranks == {"0": 4, "3": 4}


def test_the_random_start_depends_on_the_seed_the_task_and_the_layer_alone():
    bases = []
    for seed in (1, 1, 2):
        protection = protect(relu_network(), sizes=ListedSizes([[4, 4]]), seed=seed)
        torch.manual_seed(len(bases))
        protection.end_task(torch.linspace(0, 1, 800).reshape(40, 20).sin())
        bases.append(protection.subspaces["3"].basis)
    assert torch.equal(bases[0], bases[1])
    assert not torch.equal(bases[0], bases[2])


def test_the_subspaces_are_in_the_precision_of_their_weights_but_never_below_single():
    for dtype, expected in (
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
    ):
        protection = protect(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)).to(dtype))
        assert {subspace.basis.dtype for subspace in protection.subspaces.values()} == {expected}


def test_operations_are_counted_by_hand():
    torch.manual_seed(0)
    model = nn.Sequential(Linear(6, 5), nn.ReLU(), Linear(5, 3))
    protection = protect(model, learning=Eigen(), sizes=ListedSizes([[2, 1], [1, 1]]))
    protection.end_task(torch.rand(10, 6))
    learning = (10 * 36 + 9 * 216) + (10 * 25 + 9 * 125)  # C and an eigenproblem, per layer; nothing to deflate yet
    assert protection.operations == (learning, 0)
    for step in range(1, 3):
        model.zero_grad()
        model(torch.rand(4, 6)).sum().backward()
        protection.after_backward()
        # 2 · rows · k · n: five gradient rows of width 6 off two directions, three of width 5 off one
        assert protection.operations.projecting == step * (2 * 5 * 2 * 6 + 2 * 3 * 1 * 5)
    protection.end_task(torch.rand(10, 6))
    deflating = 4 * 2 * 36 + 4 * 1 * 25
    assert protection.operations.learning == 2 * learning + deflating


def test_operations_on_the_trace_side_count_the_rows_of_the_input_when_they_are_fewer():
    torch.manual_seed(0)
    model = nn.Sequential(Linear(6, 5), nn.ReLU(), Linear(5, 3))
    protection = protect(model, learning=Eigen(), sizes=ListedSizes([[2, 1]]), trace_side=True)
    protection.end_task(torch.rand(10, 6))
    model(torch.rand(2, 6)).sum().backward()
    protection.after_backward()
    assert protection.operations.projecting == 2 * 2 * 2 * 6 + 2 * 2 * 1 * 5


def test_stored_bytes_are_bases_and_with_projected_steps_the_anchors():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    protection = protect(model, learning=Eigen(), sizes=ListedSizes([[2, 1]]))
    assert protection.stored_bytes == 0
    protection.after_backward()
    protection.end_task(torch.rand(10, 6))
    assert protection.stored_bytes == 4 * (2 * 6 + 1 * 5)
    protection = protect(model, learning=Eigen(), sizes=ListedSizes([[2, 1]]))
    protection.after_step()
    protection.end_task(torch.rand(10, 6))
    assert protection.stored_bytes >= 4 * (2 * 6 + 1 * 5) + 4 * (30 + 15)


def test_a_state_that_does_not_fit_is_refused():
    protection = protect(relu_network())
    protection.end_task(torch.rand(30, 20))
    state = protection.state_dict()
    with pytest.raises(ValueError, match="needs exactly"):
        protect(relu_network()).load_state_dict({key: value for key, value in state.items() if key != "counters"})
    with pytest.raises(ValueError, match="needs exactly"):
        protect(relu_network()).load_state_dict(state | {"basis.other": torch.zeros(1, 1)})
    with pytest.raises(ValueError, match="20"):
        protect(relu_network()).load_state_dict(state | {"basis.0": torch.eye(7)[:2]})


def test_it_works_on_every_device(device):
    model, tasks = relu_network().to(device), RankFiveTasks()
    protection = protect(model, sizes=ListedSizes([[5, 10]]))
    protection.end_task(tasks.inputs[0].to(device))
    before = model[0].weight.detach().clone()
    train(model, protection, tasks.inputs[1].to(device), tasks.labels[1].to(device), steps=3)
    change = model[0].weight.detach() - before
    assert float((change @ protection.subspaces["0"].basis.mT).norm() / change.norm()) < 1e-4


def test_taps_hand_on_every_row_before_each_weight():
    network = SpikingSequential(fc1=Linear(3, 4), lif=LIF(), fc2=Linear(4, 2))
    rows = {}
    sites = {site.name: site for site in readable_sites(network)}
    with tapped(modules_of(list(sites.values())), lambda name, seen: rows.setdefault(name, []).append(seen)):
        network(torch.rand(5, 2, 3))
    network(torch.rand(5, 2, 3))
    assert {name: [tuple(sites[name].rows(part).shape) for part in parts] for name, parts in rows.items()} == {
        "fc1": [(10, 3)],
        "fc2": [(10, 4)],
    }
    assert not rows["fc2"][0].requires_grad
    assert [site.width for site in sites.values()] == [3, 4]


def test_a_static_input_gives_a_row_a_sample_and_spikes_a_row_a_tick():
    model, rows = spiking_mlp([6], 2, hidden=[5], time_steps=4), {}
    with tapped(modules_of(weight_sites(model)), lambda name, seen: rows.update({name: len(seen)})):
        model(torch.rand(3, 6))
    assert rows == {"network.fc1": 3, "network.head": 12}
