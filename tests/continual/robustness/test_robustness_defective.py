"""Defective convolution."""

import copy

import pytest
import torch
from contracts.attack import generator
from torch import nn

import continual
from continual.models import defective_cnn
from continual.robustness import APGD, Defects, defective, independent_mask, linf, make_defective, shared_mask
from neuro import LIF
from neuro.models import cnn, resnet18, vgg
from neuro.probes import record


def built(builder, *arguments, **keywords):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return builder(*arguments, **keywords)


def plain_cnn():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(8 * 16, 5),
    )


class BasicBlock(nn.Module):
    """A post-activation residual block, as in torchvision."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        changes = stride != 1 or before != after
        projection = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        self.downsample = projection if changes else None

    def forward(self, x):
        around = x if self.downsample is None else self.downsample(x)
        return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))) + around)


def post_activation_resnet18(width=4):
    blocks, before = [], width
    for stage in range(4):
        for number in range(2):
            after = width * 2**stage
            blocks.append(BasicBlock(before, after, 2 if stage and not number else 1))
            before = after
    stem = (nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 5))


IMAGES = torch.rand(2, 3, 32, 32, generator=generator())


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.3, 0.5, 0.7, 1.0])
@pytest.mark.parametrize("shape", [(3, 5, 7), (64, 16, 16), (1, 1, 1)])
def test_exactly_the_stated_number_of_places_is_defective(keep, shape):
    from fractions import Fraction
    from math import floor, prod

    share = 1 - Fraction(str(keep))
    mask = independent_mask(shape, keep, generator())
    assert int((mask == 0).sum()) == floor(share * prod(shape))
    shared = shared_mask(shape, keep, generator())
    assert int((shared[0] == 0).sum()) == floor(share * prod(shape[1:]))
    assert bool((shared == shared[:1]).all())


def test_masks_differ_between_seeds_and_layers_and_agree_for_one_seed():
    first, again, other = (independent_mask((4, 8, 8), 0.5, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    own = generator()
    assert not torch.equal(independent_mask((4, 8, 8), 0.5, own), independent_mask((4, 8, 8), 0.5, own))


def test_a_defective_place_gives_the_constant_and_passes_no_gradient():
    mask = independent_mask((4, 6, 6), 0.5, generator())
    norm = nn.BatchNorm2d(4)
    layer = Defects(norm, mask, constant=-0.25)
    maps = torch.randn(3, 4, 6, 6, generator=generator(), requires_grad=True)
    for mode in (True, False):
        outputs = layer.train(mode)(maps)
        dead = (mask == 0).expand_as(outputs)
        assert bool((outputs[dead] == -0.25).all())
        assert torch.equal(outputs[~dead], norm(maps)[~dead]) or mode
    (gradient,) = torch.autograd.grad(layer.eval()(maps).sum(), maps)
    assert bool((gradient[dead] == 0).all())
    assert bool((gradient[~dead] != 0).all())


def test_keeping_everything_is_bitwise_the_plain_network():
    for model in (built(plain_cnn), built(post_activation_resnet18), built(cnn, (3, 32, 32), 5, [4, 4])):
        model.eval()
        expected = model(IMAGES)
        assert make_defective(model, IMAGES, 1.0, generator())
        assert torch.equal(model(IMAGES), expected)


def test_the_mask_is_in_the_state_dict_and_no_parameter():
    model = built(cnn, (3, 32, 32), 5, [4, 4])
    make_defective(model, IMAGES, 0.5, generator())
    names = dict(model.named_parameters())
    assert not any("mask" in name for name in names)
    assert sum("mask" in name for name in model.state_dict()) == 2
    twin = built(cnn, (3, 32, 32), 5, [4, 4])
    make_defective(twin, IMAGES, 0.5, generator(9))
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin.eval()(IMAGES), model.eval()(IMAGES))
    assert torch.equal(copy.deepcopy(model).eval()(IMAGES), model(IMAGES))


def test_the_mask_never_changes():
    model = built(plain_cnn)
    make_defective(model, IMAGES, 0.5, generator())
    before = model[0].mask.clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for mode in (True, False, True):
        model.train(mode)(IMAGES).square().sum().backward()
        optimizer.step()
    assert torch.equal(model[0].mask, before)


@pytest.mark.parametrize(
    ("builder", "sites"),
    [
        (plain_cnn, ["0", "3"]),
        (lambda: cnn((3, 32, 32), 5, [4, 4, 4]), ["network.norm1", "network.norm2"]),
        (lambda: cnn((3, 32, 32), 5, [4, 4, 4], neuron=nn.ReLU(), time_steps=1), ["network.norm1", "network.norm2"]),
        (lambda: vgg((3, 32, 32), 5, [4, 4, "pool", 4, 4, "pool", 4]), [f"network.norm{n}" for n in (1, 2, 4, 5)]),
    ],
)
def test_the_bottom_stages_of_each_network_are_found(builder, sites):
    model = built(builder)
    assert make_defective(model, IMAGES, 0.5, generator()) == sites


def test_a_residual_network_of_eighteen_layers_has_ten_sites_in_two_stages():
    model = built(post_activation_resnet18)
    found = make_defective(model, IMAGES, 0.3, generator())
    shapes = [tuple(model.get_submodule(name).mask.shape) for name in found]
    assert sorted(shapes) == sorted([(4, 32, 32)] * 5 + [(8, 16, 16)] * 5)
    assert sum("downsample" in name for name in found) == 1


@pytest.mark.parametrize("neuron", [LIF(), nn.ReLU()])
def test_the_pre_activation_residual_network_is_masked_before_its_neurons(neuron):
    model = built(resnet18, (3, 32, 32), 5, width=2, neuron=neuron, time_steps=2)
    found = make_defective(model, IMAGES, 0.3, generator())
    assert all(name.endswith("norm") for name in found)
    sizes = [tuple(model.get_submodule(name).mask.shape[1:]) for name in found]
    assert set(sizes) == {(32, 32), (16, 16)}
    assert model.eval()(IMAGES).shape == (2, 5)


def test_one_stage_and_shared_masks_can_be_chosen():
    model = built(plain_cnn)
    assert make_defective(model, IMAGES, 0.5, generator(), draw=shared_mask, stages=1) == ["0"]
    mask = model[0].mask
    assert bool((mask == mask[:1]).all())


def test_a_defective_spiking_place_never_fires_and_the_mask_is_the_same_at_every_tick():
    model = built(cnn, (3, 32, 32), 5, [4, 4], time_steps=5).eval()
    with torch.no_grad():
        model.network.norm1.bias.fill_(2.0)
    make_defective(model, IMAGES, 0.5, generator())
    dead = ~model.network.norm1.mask
    with record(model, ["network.neuron1"]) as probe:
        model(IMAGES)
    spikes = probe.spikes["network.neuron1"]
    assert float(spikes[:, :, dead].sum()) == 0
    assert float(spikes[:, :, ~dead].mean()) > 0.5


def test_another_resolution_is_refused():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    make_defective(model, IMAGES, 0.5, generator())
    with pytest.raises(ValueError, match=r"drawn for \[4, 32, 32\], this input gives \[4, 16, 16\].*resize the input"):
        model(IMAGES[:, :, :16, :16])


def test_making_a_network_defective_leaves_its_modes_and_statistics():
    model = built(cnn, (3, 32, 32), 5, [4, 4]).train()
    model.network.norm2.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    make_defective(model, IMAGES, 0.5, generator())
    assert model.network.norm1.training
    assert model.network.norm1.layer.training
    assert not model.network.norm2.layer.training
    after = {name.replace(".layer.", "."): value for name, value in model.state_dict().items()}
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_defective_network_can_be_attacked_and_trained():
    model = built(cnn, (3, 8, 8), 5, [4, 4], time_steps=3)
    images = torch.rand(6, 3, 8, 8, generator=generator())
    make_defective(model, images, 0.5, generator())
    loss = nn.functional.cross_entropy(model(images), torch.arange(6) % 5)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    found = APGD(steps=5)(model, images, torch.arange(6) % 5, linf(0.2), generator())
    assert found.accuracy <= found.clean_accuracy


def test_the_documentation_names_the_patent():
    assert "202110577422.5" in defective.__doc__
    assert "Chinese patent" in defective.__doc__


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: make_defective(plain_cnn(), IMAGES, 1.5, generator()), r"keep must lie in \[0, 1\], got 1.5"),
        (lambda: make_defective(plain_cnn(), IMAGES, 0.5, generator(), stages=0), "stages must be at least 1"),
        (lambda: make_defective(nn.Flatten(), IMAGES, 0.5, generator()), "no two-dimensional convolution"),
        (lambda: Defects(nn.Identity(), torch.ones(3, 3)), r"A mask \[K, H, W\] of zeros and ones"),
        (lambda: Defects(nn.Identity(), torch.full((1, 3, 3), 0.5)), r"A mask \[K, H, W\] of zeros and ones"),
        (lambda: Defects(nn.Identity(), torch.ones(1, 3, 3), float("inf")), "constant must be finite"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        change()


def test_masks_are_drawn_once():
    model = built(plain_cnn)
    make_defective(model, IMAGES, 0.5, generator())
    with pytest.raises(ValueError, match="defective already"):
        make_defective(model, IMAGES, 0.5, generator())


def test_the_runner_trains_a_defective_network_and_gives_it_back_with_its_masks(tmp_path):
    chosen = ["model=defective_cnn", "model.channels=[4,4]", "model.keep=0.25", "model.mask_seed=5", "data=digits"]
    run = continual.run([*chosen, "scenario.num_tasks=2", "epochs=1", f"output={tmp_path}"], strategy="hlop")
    masks = [module.mask for module in continual.load(run.folder).modules() if isinstance(module, Defects)]
    assert [tuple(mask.shape) for mask in masks] == [(4, 8, 8), (4, 4, 4)]
    assert [int(mask.sum()) for mask in masks] == [64, 16]
    drawn = independent_mask((4, 8, 8), 0.25, torch.Generator().manual_seed(5))
    assert torch.equal(masks[0], drawn.bool())


def test_masks_are_independent_or_shared():
    with pytest.raises(ValueError, match="masks must be one of independent, shared"):
        defective_cnn((8, 8), 10, [4], masks="random")
    model = defective_cnn((8, 8), 10, [4], nn.ReLU(), 1, masks="shared", stages=1)
    (site,) = (module for module in model.modules() if isinstance(module, Defects))
    assert bool((site.mask == site.mask[:1]).all())
