"""CNN, ResNet-18, VGG and residual blocks: shapes, ReLU twins, both traversals, operations, frames, and mistakes."""

import pytest
import torch
from slow_patches import slow_rows
from torch import nn

from neuro import (
    DSRLIF,
    IF,
    LIF,
    AdaptiveLIF,
    Conv2d,
    Frames,
    Linear,
    ParametricLIF,
    Poisson,
    Recurrent,
    Residual,
    SpikingSequential,
    Static,
    firing_rates,
    measure_activity,
    record,
)
from neuro.lateral import modules_of, readable_sites, tapped
from neuro.models import cnn, resnet18, spiking_mlp, vgg
from neuro.models.vgg import VGG11
from neuro.statistics import outgoing_connections
from neuro.types import unroll

SMALL_PLAN = (3, "pool", 4, "pool", 5, 5)


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def small_cnn(shape, **parts):
    return cnn(shape, 3, channels=(4, 5, 6), **parts)


def small_resnet(shape, **parts):
    return resnet18(shape, 3, width=2, **parts)


def small_vgg(shape, **parts):
    return vgg(shape, 3, plan=SMALL_PLAN, **parts)


BUILDERS = [pytest.param(build, id=build.__name__) for build in (small_cnn, small_resnet, small_vgg)]
SHAPES = [pytest.param(shape, id="x".join(map(str, shape))) for shape in ((28, 28), (1, 28, 28), (3, 32, 32))]


def built(build, shape, **parts):
    torch.manual_seed(0)
    return build(shape, **({"time_steps": 2} | parts)).double()


def calibrated(model, images):
    """Give the norms the statistics of these images, so that an evaluation keeps every layer alive."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():
        model.train()(images)
    return model.eval()


# Shapes and parts


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("build", BUILDERS)
def test_logits_have_one_row_a_sample_and_every_weight_learns(build, shape):
    model = built(build, shape, neuron=LIF(threshold=0.3))
    logits = model(drawn(2, *shape))
    assert logits.shape == (2, 3)
    logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    assert not [
        name for name, layer in model.named_modules() if isinstance(layer, Linear | Conv2d) and layer.bias is not None
    ]
    assert not [
        name
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Conv2d | nn.Linear) and not isinstance(layer, Linear | Conv2d)
    ]


@pytest.mark.parametrize("build", BUILDERS)
def test_every_layer_has_a_neuron_of_its_own_from_the_template(build):
    model = built(build, (1, 16, 16), neuron=ParametricLIF(tau=3.0, per_neuron=True))
    neurons = {name: layer for name, layer in model.named_modules() if isinstance(layer, ParametricLIF)}
    assert (
        len({id(neuron.leak_logit) for neuron in neurons.values()})
        == len(neurons)
        == {small_cnn: 3, small_resnet: 17, small_vgg: 4}[build]
    )
    assert all(neuron.leak_logit.shape[1:] == (1, 1) for neuron in neurons.values())
    model(drawn(2, 1, 16, 16)).sum().backward()


@pytest.mark.parametrize("neuron", [LIF(), IF(), AdaptiveLIF(), DSRLIF()])
@pytest.mark.parametrize("build", BUILDERS)
def test_any_elementwise_neuron_may_be_injected(build, neuron):
    model = built(build, (16, 16), neuron=neuron)
    with record(model) as probe:
        assert torch.isfinite(model(drawn(2, 16, 16))).all()
    assert all(spikes.shape[:2] == (2, 2) for spikes in probe.spikes.values())


def test_the_cnn_has_the_papers_widths_and_three_halvings():
    with torch.device("meta"):
        model = cnn((3, 32, 32), 100)
    names = [name for name, _ in model.network.named_children()]
    assert names == [f"{part}{stage}" for stage in (1, 2, 3) for part in ("conv", "norm", "neuron", "pool")] + [
        "flatten",
        "head",
    ]
    assert [tuple(model.network[index].weight.shape) for index in (0, 4, 8)] == [
        (64, 3, 3, 3),
        (128, 64, 3, 3),
        (256, 128, 3, 3),
    ]
    assert model.network.head.weight.shape == (100, 4096)


def test_the_default_vgg_is_vgg_11_without_its_last_pooling():
    with torch.device("meta"):
        model = vgg((3, 32, 32), 10)
    widths = [layer.out_channels for layer in model.modules() if isinstance(layer, Conv2d)]
    assert widths == [64, 128, 256, 256, 512, 512, 512, 512]
    assert sum(isinstance(layer, nn.AvgPool2d) for layer in model.modules()) == 4
    assert model.network.head.weight.shape == (10, 512 * 2 * 2)
    assert VGG11.count("pool") == 4


@pytest.mark.parametrize(("shape", "kernel", "stride"), [((3, 63, 64), 3, 1), ((3, 64, 64), 5, 2), ((84, 84), 5, 2)])
def test_the_stem_of_a_resnet_halves_large_images(shape, kernel, stride):
    with torch.device("meta"):
        stem = resnet18(shape, 10).network.stem
    assert (stem.kernel_size, stem.stride) == ((kernel, kernel), (stride, stride))
    assert stem.out_channels == 20


def test_a_resnets_blocks_are_norm_neuron_conv_twice_with_a_shortcut_where_the_shape_changes():
    model = built(small_resnet, (8, 8))
    names = [name for name, _ in model.network.named_children()]
    assert names == [
        "channels",
        "stem",
        *(f"block{number}" for number in range(1, 9)),
        "norm",
        "neuron",
        "pool",
        "flatten",
        "head",
    ]
    widths = [2, 2, 4, 4, 8, 8, 16, 16]
    before = 2
    for number, after in enumerate(widths, start=1):
        block = model.network.get_submodule(f"block{number}")
        assert isinstance(block, Residual)
        assert [name for name, _ in block.before.named_children()] == ["norm", "neuron"]
        assert [name for name, _ in block.body.named_children()] == ["conv1", "norm", "neuron", "conv2"]
        stride = 2 if number in (3, 5, 7) else 1
        first, second = block.body.conv1, block.body.conv2
        assert (first.in_channels, first.out_channels, first.stride) == (before, after, (stride, stride))
        assert (second.in_channels, second.out_channels, second.stride) == (after, after, (1, 1))
        assert (block.shortcut is not None) == (number in (3, 5, 7))
        if block.shortcut is not None:
            assert block.shortcut.kernel_size == (1, 1)
            assert block.shortcut.stride == (2, 2)
        before = after


def test_a_shortcut_convolution_reads_the_spikes_of_the_blocks_first_neurons():
    model, seen = built(small_resnet, (8, 8), neuron=LIF(threshold=0.3), time_steps=3), {}
    shortcuts = {name: layer for name, layer in modules_of(readable_sites(model)).items() if name.endswith("shortcut")}
    with record(model) as probe, tapped(shortcuts, seen.__setitem__):
        model(drawn(2, 8, 8))
    assert list(seen) == [f"network.block{number}.shortcut" for number in (3, 5, 7)]
    for name, inputs in seen.items():
        spikes = probe.spikes[name.replace("shortcut", "before.neuron")]
        assert torch.equal(inputs, spikes.flatten(0, 1))
        assert spikes.unique().tolist() == [0, 1]


# ReLU twins


def plain_cnn(shape):
    layers, before = ([nn.Unflatten(1, (1, shape[0]))] if len(shape) == 2 else []), 1 if len(shape) == 2 else shape[0]
    for after in (4, 5, 6):
        layers += [
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.AvgPool2d(2),
        ]
        before = after
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * (shape[-1] // 8) ** 2, 3, bias=False))


def plain_vgg(shape):
    layers, before = ([nn.Unflatten(1, (1, shape[0]))] if len(shape) == 2 else []), 1 if len(shape) == 2 else shape[0]
    for entry in SMALL_PLAN:
        if entry == "pool":
            layers.append(nn.AvgPool2d(2))
        else:
            layers += [nn.Conv2d(before, entry, 3, padding=1, bias=False), nn.BatchNorm2d(entry), nn.ReLU()]
            before = entry
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * (shape[-1] // 4) ** 2, 3, bias=False))


class PlainBlock(nn.Module):
    """A pre-activation block as its paper draws it."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(before), nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(after), nn.Conv2d(after, after, 3, 1, 1, bias=False)
        changes = stride > 1 or before != after
        self.shortcut = nn.Conv2d(before, after, 1, stride, bias=False) if changes else None

    def forward(self, inputs):
        active = torch.relu(self.norm1(inputs))
        around = inputs if self.shortcut is None else self.shortcut(active)
        return self.conv2(torch.relu(self.norm2(self.conv1(active)))) + around


def plain_resnet(shape):
    layers, before = ([nn.Unflatten(1, (1, shape[0]))] if len(shape) == 2 else []), 2
    layers.append(nn.Conv2d(1 if len(shape) == 2 else shape[0], 2, 3, 1, 1, bias=False))
    for number, after in enumerate((2, 2, 4, 4, 8, 8, 16, 16)):
        layers.append(PlainBlock(before, after, 2 if number in (2, 4, 6) else 1))
        before = after
    layers += [nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 3, bias=False)]
    return nn.Sequential(*layers)


TWINS = [
    pytest.param(small_cnn, plain_cnn, id="cnn"),
    pytest.param(small_resnet, plain_resnet, id="resnet"),
    pytest.param(small_vgg, plain_vgg, id="vgg"),
]


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("time_steps", [1, 3])
@pytest.mark.parametrize("shape", [(16, 16), (3, 16, 16)], ids=["grey", "colour"])
@pytest.mark.parametrize(("build", "plain"), TWINS)
def test_a_relu_twin_is_a_plain_torch_network_in_value_gradient_and_statistics(
    build, plain, shape, time_steps, training
):
    ours, theirs = built(build, shape, neuron=nn.ReLU(), time_steps=time_steps), plain(shape).double()
    with torch.no_grad():
        for position, value in enumerate(ours.state_dict().values()):
            if value.is_floating_point() and value.ndim == 1:
                value.copy_(drawn(len(value), seed=position) + 0.5)
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    ours.train(training)
    theirs.train(training)
    inputs = drawn(5, *shape)
    for model in (ours, theirs):
        nn.functional.cross_entropy(model(inputs), torch.arange(5) % 3).backward()
    torch.testing.assert_close(ours(inputs), theirs(inputs), rtol=1e-10, atol=1e-12)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert other.grad.abs().sum() > 0
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-8, atol=1e-11)
    for mine, other in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-13)


def test_a_twins_template_is_copied_not_shared():
    model = built(small_cnn, (16, 16), neuron=nn.PReLU(init=0.1))
    assert len({id(layer) for layer in model.modules() if isinstance(layer, nn.PReLU)}) == 3


# Residual blocks over time


def residual_network(shortcut=True):
    torch.manual_seed(0)
    return SpikingSequential(
        stem=Linear(6, 8),
        block1=Residual(
            SpikingSequential(neuron=LIF(threshold=0.2)),
            SpikingSequential(
                fc1=Linear(8, 9 if shortcut else 8),
                neuron=AdaptiveLIF(threshold=0.2),
                fc2=Linear(9 if shortcut else 8, 7 if shortcut else 8),
            ),
            Linear(8, 7) if shortcut else None,
        ),
        last=IF(threshold=0.3),
    ).double()


@pytest.mark.parametrize("shortcut", [True, False], ids=["shortcut", "identity"])
def test_a_residual_block_runs_as_it_ticks_in_value_state_and_gradient(shortcut):
    inputs, found = drawn(7, 4, 6) * 2, []
    for tick_by_tick in (False, True):
        network, state, outputs = residual_network(shortcut), None, []
        if tick_by_tick:
            for tick in inputs:
                output, state = network.step(tick, state)
                outputs.append(output)
            outputs = torch.stack(outputs)
        else:
            outputs, state = network.simulate(inputs)
        (outputs * torch.linspace(-1, 1, 7)[:, None, None]).sum().backward()
        found.append((outputs.detach(), state, [parameter.grad for parameter in network.parameters()]))
    assert found[0][0].unique().tolist() == [0, 1]
    torch.testing.assert_close(found[0][0], found[1][0])
    (run, ticked) = (state[1] for _, state, _ in found)
    torch.testing.assert_close(run[0][0][0], ticked[0][0][0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(run[1][1][1], ticked[1][1][1], rtol=1e-12, atol=1e-14)
    assert run[2] is ticked[2] is None
    for mine, other in zip(found[0][2], found[1][2], strict=True):
        assert mine.abs().sum() > 0
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("shortcut", [True, False], ids=["shortcut", "identity"])
def test_a_residual_block_is_its_equation(shortcut):
    block, inputs = residual_network(shortcut).block1, drawn(7, 4, 8) * 2 - 0.5
    spikes, _ = LIF(threshold=0.2).simulate(inputs)
    hidden, _ = AdaptiveLIF(threshold=0.2).simulate(spikes @ block.body.fc1.weight.T)
    around = spikes @ block.shortcut.weight.T if shortcut else inputs
    torch.testing.assert_close(block.run(inputs)[0], hidden @ block.body.fc2.weight.T + around, rtol=1e-12, atol=1e-13)


def test_a_cut_in_time_changes_nothing_when_a_blocks_state_is_passed_on():
    network, inputs = residual_network(), drawn(8, 4, 6) * 2
    whole, _ = network.simulate(inputs)
    early, state = network.simulate(inputs[:3])
    late, _ = network.simulate(inputs[3:], state)
    torch.testing.assert_close(torch.cat([early, late]), whole, rtol=0, atol=0)
    assert not torch.equal(network.simulate(inputs[3:])[0], late)


@pytest.mark.parametrize("before", [nn.Identity(), nn.BatchNorm1d(6), LIF(threshold=0.4)])
def test_a_static_input_through_a_block_is_the_unrolled_one(before):
    torch.manual_seed(0)
    for shortcut in (None, Linear(6, 6)):
        block = Residual(before, SpikingSequential(fc=Linear(6, 6), neuron=LIF(threshold=0.2)), shortcut)
        network, value = SpikingSequential(block=block).double().eval(), drawn(4, 6) * 2
        torch.testing.assert_close(network(Static(value, 5)), network(unroll(Static(value, 5))), rtol=1e-12, atol=1e-14)


def test_a_block_without_any_state_keeps_a_static_input_static():
    network = SpikingSequential(block=Residual(nn.ReLU(), Linear(6, 6))).double()
    activity, _ = network.run(Static(drawn(4, 6), 5))
    assert isinstance(activity, Static)
    assert activity.time_steps == 5


def test_the_whole_resnet_runs_as_it_ticks():
    model, images = built(small_resnet, (8, 8), neuron=LIF(threshold=0.3), time_steps=4).eval(), drawn(2, 8, 8)
    outputs, state = [], None
    for _ in range(4):
        output, state = model.network.step(images, state)
        outputs.append(output)
    torch.testing.assert_close(torch.stack(outputs).mean(0), model(images), rtol=1e-10, atol=1e-12)


# Frames and Poisson input


@pytest.mark.parametrize("build", BUILDERS)
def test_frames_are_seen_one_a_tick(build):
    frames = drawn(3, 5, 2, 16, 16)
    model = built(build, (5, 2, 16, 16), encoder=Frames(), time_steps=5, neuron=LIF(threshold=0.3))
    calibrated(model, frames)
    outputs, state = [], None
    for tick in range(5):
        output, state = model.network.step(frames[:, tick], state)
        outputs.append(output)
    torch.testing.assert_close(model(frames), torch.stack(outputs).mean(0), rtol=1e-10, atol=1e-12)
    assert not torch.allclose(model(frames), model(frames.flip(1)))


def test_frames_of_grey_images_and_of_vectors_are_read_too():
    assert built(small_cnn, (4, 16, 16), encoder=Frames(), time_steps=4)(drawn(2, 4, 16, 16)).shape == (2, 3)
    mlp = spiking_mlp((4, 6), 3, hidden=(8,), encoder=Frames(), time_steps=4).double()
    assert mlp.network.fc1.in_features == 6
    assert mlp(drawn(2, 4, 6)).shape == (2, 3)


def test_poisson_spikes_reach_a_cnn_and_come_back_from_their_seed():
    images, seen = drawn(2, 16, 16), []
    model = built(small_cnn, (16, 16), encoder=Poisson(3), time_steps=6, neuron=LIF(threshold=0.3))
    calibrated(model, images).encoder.reseed(3)
    model.network.conv1.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    first, second = model(images), model(images)
    assert seen[0].shape == (12, 1, 16, 16)
    assert seen[0].unique().tolist() == [0, 1]
    assert float(seen[0].mean()) == pytest.approx(float(images.mean()), abs=0.05)
    assert not torch.equal(first, second)
    model.encoder.reseed(3)
    assert torch.equal(model(images), first)
    model(images).square().sum().backward()
    assert model.network.conv1.weight.grad.abs().sum() > 0


# Operations


CONVOLUTIONS = [
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (2, 3), "stride": (1, 2), "dilation": (2, 1)},
    {"kernel_size": 3, "padding": 2, "dilation": 2, "groups": 2},
    {"kernel_size": 1, "stride": 3},
]


@pytest.mark.parametrize("options", CONVOLUTIONS)
def test_a_convolutions_operations_are_those_counted_patch_by_patch(options):
    layer = Conv2d(4, 6, **options)
    spikes = (drawn(3, 4, 7, 8, dtype=torch.float32) < 0.3).float()
    reach = layer.out_channels // layer.groups
    counted = sum(int((slow_rows(layer, spikes, group) != 0).sum()) for group in range(layer.groups)) * reach
    assert counted > 0
    assert int((spikes * outgoing_connections(layer, spikes)).sum()) == counted
    every = sum(int(slow_rows(layer, torch.ones_like(spikes), group).sum()) for group in range(layer.groups)) * reach
    assert int(outgoing_connections(layer, spikes).expand(spikes.shape).sum()) == every
    network = SpikingSequential(conv=layer)
    ((_, _, _, _, operations, macs),) = measure_activity(network, spikes[None])
    assert (operations, macs) == (counted, 0)  # one sample of three ticks
    ((_, _, _, _, operations, macs),) = measure_activity(network, spikes[None] * drawn(7, 8, dtype=torch.float32))
    assert (operations, macs) == (0, every)


def test_a_pixel_at_the_border_has_fewer_outgoing_connections():
    connections = outgoing_connections(Conv2d(1, 2, 3, padding=1), torch.zeros(1, 1, 4, 4))
    assert connections[0, 0].tolist() == [[8, 12, 12, 8], [12, 18, 18, 12], [12, 18, 18, 12], [8, 12, 12, 8]]


def test_a_networks_operations_are_those_of_its_recorded_inputs():
    images, seen = drawn(2, 8, 8), {}
    model = built(small_resnet, (8, 8), encoder=Poisson(0), neuron=LIF(threshold=0.3), time_steps=3)
    calibrated(model, images).encoder.reseed(0)
    synapses = modules_of(readable_sites(model))
    with tapped(synapses, seen.__setitem__), torch.no_grad():
        model(images)
    model.encoder.reseed(0)
    measured = {layer.name: layer for layer in measure_activity(model, images)}
    for name, inputs in seen.items():
        layer = synapses[name]
        rows = inputs if name == "network.head" else slow_rows(layer, inputs)
        spikes = int((rows != 0).sum()) * layer.weight.shape[0]
        assert spikes > 0
        assert measured[name].synaptic_operations == pytest.approx(spikes / 2)
        assert measured[name].macs == 0
    assert measured["network.block3.body.neuron"].rate > 0


def test_what_a_pooling_has_averaged_is_multiplied_and_not_added():
    images = drawn(2, 16, 16)
    model = calibrated(built(small_cnn, (16, 16), encoder=Poisson(0), neuron=LIF(threshold=0.3)), images)
    measured = {layer.name: layer for layer in measure_activity(model, images)}
    assert measured["network.conv1"].macs == 0 < measured["network.conv1"].synaptic_operations
    connections = outgoing_connections(model.network.conv2, torch.zeros(1, 4, 8, 8)).sum()
    assert measured["network.conv2"].synaptic_operations == 0
    assert measured["network.conv2"].macs == 2 * int(connections)  # every tick anew


# Mistakes


@pytest.mark.parametrize("values", [[0.0, 0.5, 1.0], [0.0, 6.0, 0.0], [0.0, -1.0, 1.0], [0.0, float("nan"), 1.0]])
def test_firing_rates_want_zeros_and_ones(values):
    with pytest.raises(ValueError, match=r"spikes must hold zeros and ones only, it holds .*; pass a neuron's spikes"):
        firing_rates(torch.tensor(values).reshape(3, 1, 1))
    assert firing_rates(torch.tensor([0.0, 1.0, 1.0, 1.0]).reshape(4, 1, 1)).item() == 0.75


def test_frames_of_another_number_or_without_a_time_axis_are_refused():
    model = built(small_cnn, (5, 1, 16, 16), encoder=Frames(), time_steps=5)
    for shape in ((2, 4, 1, 16, 16), (2, 1, 16, 16)):
        with pytest.raises(
            ValueError, match=rf"Frames needs inputs \[B, 5, \.\.\.\].*{list(shape)[1:2]}*.*set the model's time_steps"
        ):
            model(drawn(*shape))
    flat = spiking_mlp((5, 6), 3, hidden=(8,), encoder=Frames(), time_steps=5).double()
    with pytest.raises(ValueError, match=r"one frame a tick, got \[2, 5\]"):
        flat(drawn(2, 5))


def test_frames_without_features_are_refused_when_the_model_is_built():
    with pytest.raises(ValueError, match=r"Frames needs an input shape \[T, \.\.\.\].*got \(6,\)"):
        spiking_mlp((6,), 3, encoder=Frames())


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("encoder", [None, Poisson()], ids=["constant", "poisson"])
def test_an_input_with_frames_and_no_encoder_for_them_is_refused_when_the_model_is_built(build, encoder):
    with pytest.raises(ValueError, match=r"\(5, 2, 16, 16\).*encoder=Frames\(\)"):
        build((5, 2, 16, 16), encoder=encoder)


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("shape", [(16,), (0, 16, 16), ()])
def test_what_is_no_image_is_refused(build, shape):
    with pytest.raises(ValueError, match=r"needs images \[H, W\] or \[C, H, W\]"):
        build(shape)


def test_images_too_small_for_their_halvings_are_refused():
    with pytest.raises(ValueError, match=r"\(7, 7\) are too small for 3 stages that each halve them; use fewer"):
        cnn((7, 7), 3)
    with pytest.raises(ValueError, match=r"\(1, 8, 15\) are too small for the plan's 4 poolings"):
        vgg((1, 8, 15), 3, plan=(2, "pool", "pool", 2, "pool", "pool"))
    with pytest.raises(ValueError, match="A plan holds channel numbers and 'pool', got 'pol'"):
        vgg((16, 16), 3, plan=(2, "pol"))


def test_recurrent_neurons_do_not_fit_a_resnet():
    with pytest.raises(ValueError, match="need a flat layer"):
        small_resnet((8, 8), neuron=Recurrent(LIF()))


@pytest.mark.parametrize("shape", [(4, 6), (6,)])
def test_an_activity_without_a_time_axis_is_refused_with_the_repair(shape):
    network = residual_network()
    with pytest.raises(ValueError, match=r"must be \[T, B, \.\.\.\].*Static\(input, time_steps=T\)"):
        network(drawn(*shape))
    with pytest.raises(ValueError, match=r"must be \[T, B, \.\.\.\]"):
        network(Static(drawn(6), 4))


@pytest.mark.parametrize("build", BUILDERS)
def test_no_tick_at_all_is_refused(build):
    with pytest.raises(ValueError, match="time_steps must be at least 1, got 0"):
        build((16, 16), time_steps=0)
    model = built(build, (16, 16))
    model.time_steps = 0
    with pytest.raises(ValueError, match=r"At least one time step is needed, got T = 0; set time_steps to 1 or more"):
        model(drawn(2, 16, 16))


def replaced(state, before, body):
    """A network's state with parts of its block's exchanged."""
    return (state[0], (before, body, state[1][2]), state[2])


@pytest.mark.parametrize(
    ("change", "found", "wanted"),
    [
        (lambda part: part[:2], r"\[2, 8\]", r"\[4, 8\]"),
        (lambda part: part.float(), "float32", "float64"),
        (lambda part: part.to("meta"), "on meta", "on cpu"),
    ],
    ids=["batch size", "dtype", "device"],
)
def test_a_state_of_another_batch_size_dtype_or_device_names_the_nested_layer(change, found, wanted):
    network, inputs = residual_network(shortcut=False), drawn(3, 4, 6)
    _, state = network.simulate(inputs)
    before, body, _ = state[1]
    outside = (type(before[0])(*map(change, before[0])),)
    inside = (body[0], type(body[1])(*map(change, body[1])), body[2])
    for given, layer, kind in (
        (replaced(state, outside, body), r"block1\.before\.neuron", "LIF"),
        (replaced(state, before, inside), r"block1\.body\.neuron", "AdaptiveLIF"),
        ((*state[:2], type(state[2])(*map(change, state[2]))), "last", "IF"),
    ):
        pattern = rf"^Layer '{layer}': {kind}: the state is .*{found}.*{wanted}.*; start from state=None or move it"
        for run in (
            lambda given=given: network.simulate(inputs, given),
            lambda given=given: network.step(inputs[0], given),
        ):
            with pytest.raises(ValueError, match=pattern):
                run()


def test_in_a_resnet_the_path_to_the_layer_is_given():
    model = built(small_resnet, (8, 8), neuron=ParametricLIF(per_neuron=True))
    model.network.block4.body.neuron = ParametricLIF(per_neuron=True)  # a template that no builder has sized
    with pytest.raises(ValueError, match=r"^Layer 'block4\.body\.neuron': A per-neuron ParametricLIF needs"):
        model(drawn(2, 8, 8))


def test_a_state_of_another_network_is_refused():
    network = residual_network()
    _, state = network.simulate(drawn(3, 4, 6))
    with pytest.raises(ValueError, match="has 3 layers, the state 2; pass it back whole"):
        network.step(drawn(4, 6), state[:2])
    with pytest.raises(ValueError, match=r"^Layer 'block1\.body': The network has 3 layers, the state 1"):
        network.step(drawn(4, 6), replaced(state, state[1][0], state[1][1][:1]))
