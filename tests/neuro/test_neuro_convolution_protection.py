"""Convolutions: presynaptic rows are the patches the layer sees, and both sides of the projection are the formula."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from neuro_oracles import orthonormal
from slow_patches import flat_errors, slow_rows
from torch import nn

import neuro.lateral.taps
from neuro import Conv2d, Linear
from neuro.lateral import Eigen, EnergyShare, HebbianAccumulated, ListedSizes, NoRows, Projector, protect, weight_sites
from neuro.lateral.projection import complement, smaller_projector
from neuro.lateral.rows import convolution_rows

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")

IMAGES = {
    "plain": {"kernel_size": 3},
    "one by one": {"kernel_size": 1, "stride": 2},
    "oblong": {"kernel_size": (3, 2), "stride": (2, 1), "padding": (0, 1)},
    "stride": {"kernel_size": 3, "stride": 2, "padding": 1},
    "dilation": {"kernel_size": 2, "dilation": (2, 3), "padding": 1},
    "everything": {"kernel_size": (2, 3), "stride": (1, 2), "padding": (2, 1), "dilation": (2, 1), "groups": 2},
    "groups": {"kernel_size": 3, "padding": 1, "groups": 2},
    "depthwise": {"kernel_size": 3, "stride": 2, "padding": 1, "groups": 4},
}
"""Geometries of our own layer too; those below are torch's alone."""

PADDED = {
    "same": {"kernel_size": 3, "padding": "same"},
    "same, even field": {"kernel_size": (2, 4), "padding": "same", "groups": 2},
    "same, dilated": {"kernel_size": 2, "padding": "same", "dilation": (1, 3)},
    "valid": {"kernel_size": 2, "padding": "valid"},
    "circular": {"kernel_size": 3, "padding": (2, 1), "padding_mode": "circular", "stride": 2},
    "reflect": {"kernel_size": 3, "padding": (1, 2), "padding_mode": "reflect", "groups": 4},
    "replicate": {"kernel_size": 3, "padding": 2, "padding_mode": "replicate", "dilation": 2},
    "same, circular": {"kernel_size": (2, 3), "padding": "same", "padding_mode": "circular"},
}
SEQUENCES = {
    "plain": {"kernel_size": 3},
    "everything": {"kernel_size": 3, "stride": 2, "padding": 2, "dilation": 2, "groups": 2},
    "depthwise": {"kernel_size": 2, "groups": 4},
    "same, even": {"kernel_size": 4, "padding": "same"},
    "circular": {"kernel_size": 3, "padding": 2, "padding_mode": "circular"},
    "reflect": {"kernel_size": 3, "padding": 1, "padding_mode": "reflect", "stride": 2},
}
OURS = [pytest.param(options, id=name) for name, options in IMAGES.items()]
EVERY = [pytest.param(nn.Conv2d, options, id=name) for name, options in (IMAGES | PADDED).items()] + [
    pytest.param(nn.Conv1d, options, id=f"sequence: {name}") for name, options in SEQUENCES.items()
]


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def built(kind, options, bias=False, seed=0):
    torch.manual_seed(seed)
    return kind(4, 8, bias=bias, **options)


def inputs_for(kind, batch=3, dtype=torch.float32):
    return drawn(batch, 4, 7, dtype=dtype) if kind is nn.Conv1d else drawn(batch, 4, 5, 6, dtype=dtype)


def sites_of(layer):
    return weight_sites(nn.Sequential(layer))


def outside(rows, basis):
    """x − P x by the formula, in double precision."""
    return rows.double() - rows.double() @ basis.double().mT @ basis.double()


def relative(found, expected):
    return float((found.double() - expected.double()).norm() / expected.double().norm())


@pytest.mark.parametrize(("kind", "options"), EVERY)
def test_rows_are_the_patches_cut_one_by_one(kind, options):
    layer, inputs = built(kind, options), inputs_for(kind)
    sites = sites_of(layer)
    assert [site.name for site in sites] == (["0"] if layer.groups == 1 else [f"0[{g}]" for g in range(layer.groups)])
    for site in sites:
        expected = slow_rows(layer, inputs, site.group)
        assert torch.equal(site.rows(inputs), expected)
        assert expected.shape[1] == site.width


@pytest.mark.parametrize(("kind", "options"), EVERY)
def test_the_weight_times_its_rows_is_what_the_layer_gives(kind, options):
    """The oracle of the oracle: torch's own forward pass."""
    layer, inputs = built(kind, options).double(), inputs_for(kind, dtype=torch.float64)
    outputs = layer(inputs).detach()
    for site in sites_of(layer):
        expected = flat_errors(outputs, site.group, layer.groups)
        torch.testing.assert_close(site.rows(inputs) @ site.part(site.weight.detach()).flatten(1).mT, expected)


@given(
    axes=st.integers(1, 2),
    kernel=st.tuples(*[st.integers(1, 3)] * 2),
    stride=st.tuples(*[st.integers(1, 3)] * 2),
    padding=st.tuples(*[st.integers(0, 3)] * 2),
    dilation=st.tuples(*[st.integers(1, 2)] * 2),
    groups=st.sampled_from([1, 2, 4]),
    mode=st.sampled_from(["zeros", "circular", "replicate"]),
)
def test_law_rows_of_any_geometry_reproduce_the_forward_pass(axes, kernel, stride, padding, dilation, groups, mode):
    kind = (nn.Conv1d, nn.Conv2d)[axes - 1]
    cut = [values[:axes] for values in (kernel, stride, padding, dilation)]
    layer = kind(4, 4, *cut, groups, bias=False, padding_mode=mode).double()
    inputs = inputs_for(kind, batch=2, dtype=torch.float64)
    outputs = layer(inputs).detach()
    for site in sites_of(layer):
        found = site.rows(inputs) @ site.part(site.weight.detach()).flatten(1).mT
        torch.testing.assert_close(found, flat_errors(outputs, site.group, groups))


@pytest.mark.parametrize("share", [0.3, 0.8, 1.0], ids=["basis", "complement", "full"])
@pytest.mark.parametrize(("kind", "options"), EVERY)
def test_invariant_09_the_projected_gradient_is_the_sum_over_projected_patches(kind, options, share):
    layer, inputs = built(kind, options), inputs_for(kind)
    outputs = layer(inputs)
    errors = drawn(*outputs.shape, seed=1)
    outputs.backward(errors)
    for site in sites_of(layer):
        basis = orthonormal(max(1, round(share * site.width)), site.width, seed=site.group, dtype=torch.float32)
        on_weight = smaller_projector(basis)(site.part(site.weight.grad).flatten(1))
        patches = slow_rows(layer, inputs, site.group)
        delta = flat_errors(errors, site.group, layer.groups).double()
        if len(basis) == site.width:
            assert torch.equal(on_weight, torch.zeros_like(on_weight))
        else:
            assert relative(on_weight, delta.mT @ outside(patches, basis)) < 1e-5


def backward(layer, inputs, errors):
    layer.zero_grad()
    inputs = inputs.clone().requires_grad_()
    outputs = layer(inputs)
    outputs.backward(errors)
    return outputs.detach(), inputs.grad, layer.weight.grad.clone(), None if layer.bias is None else layer.bias.grad


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("free", [False, True], ids=["basis", "complement"])
@pytest.mark.parametrize("options", OURS)
def test_our_layer_with_projectors_is_torchs_layer_with_its_gradient_projected(options, free, bias):
    ours, theirs, inputs = built(Conv2d, options, bias), built(nn.Conv2d, options, bias), inputs_for(nn.Conv2d)
    assert torch.equal(ours.weight, theirs.weight)
    bases = [orthonormal(max(1, s.width // 3), s.width, s.group, torch.float32) for s in sites_of(ours)]
    ours.projectors = [Projector(complement(basis), free=True) if free else Projector(basis) for basis in bases]
    errors = drawn(*theirs(inputs).shape, seed=1)
    outputs, input_gradient, weight_gradient, bias_gradient = backward(ours, inputs, errors)
    expected = backward(theirs, inputs, errors)
    torch.testing.assert_close(outputs, expected[0], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(input_gradient, expected[1], rtol=1e-6, atol=1e-6)
    if bias:
        torch.testing.assert_close(bias_gradient, expected[3], rtol=1e-6, atol=1e-5)
    for site, basis in zip(sites_of(theirs), bases, strict=True):
        wanted = outside(site.part(expected[2]).flatten(1), basis)
        assert relative(site.part(weight_gradient).flatten(1), wanted) < 1e-5


@pytest.mark.parametrize("options", OURS)
def test_invariant_10_a_projector_changes_the_weight_gradient_and_nothing_else(options):
    layer, inputs = built(Conv2d, options, bias=True), inputs_for(nn.Conv2d)
    errors, taken = drawn(*layer(inputs).shape, seed=1), []
    bases = [orthonormal(1, site.width, dtype=torch.float32) for site in sites_of(layer)]
    for projectors in ([None] * layer.groups, [Projector(basis) for basis in bases]):
        layer.projectors = projectors
        taken.append(backward(layer, inputs, errors))
    (outputs, input_gradient, free, bias), (same, same_gradient, held, same_bias) = taken
    assert torch.equal(outputs, same)
    assert torch.equal(input_gradient, same_gradient)
    assert torch.equal(bias, same_bias)
    assert not torch.allclose(free, held)


def test_a_group_without_a_projector_learns_freely_beside_one_that_has_it():
    layer, inputs = built(Conv2d, IMAGES["groups"]), inputs_for(nn.Conv2d)
    errors = drawn(*layer(inputs).shape, seed=1)
    layer.projectors = [None, None]
    *_, free, _ = backward(layer, inputs, errors)
    layer.projectors = [None, Projector(torch.eye(18))]
    *_, held, _ = backward(layer, inputs, errors)
    assert torch.equal(held[:4], free[:4])
    assert float(held[4:].abs().max()) < 1e-5 * float(free[4:].abs().max())


def test_a_protected_convolution_trains_under_autocast_as_an_unprotected_one_does():
    layer, inputs, taken = built(Conv2d, IMAGES["groups"]), inputs_for(nn.Conv2d), []
    for projectors in (None, [Projector(torch.eye(18)[:4])] * 2):
        layer.projectors = projectors
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = layer(inputs)
        layer.zero_grad()
        outputs.float().square().sum().backward()
        taken.append(layer.weight.grad.flatten(1))
    free, held = taken
    assert held.dtype == torch.float32
    assert float(held[:, :4].abs().max()) < 1e-2 * float(free.abs().max())
    torch.testing.assert_close(held[:, 4:], free[:, 4:], rtol=2**-5, atol=2**-6 * float(free.abs().max()))


@pytest.mark.parametrize("kind", [Conv2d, nn.Conv2d])
@pytest.mark.parametrize("trace_side", [False, True])
def test_every_group_has_a_subspace_of_its_own(kind, trace_side):
    torch.manual_seed(0)
    model = nn.Sequential(kind(4, 6, 3, groups=2, bias=False), nn.ReLU(), nn.Flatten(), Linear(6 * 9, 3))
    protection = protect(model, Eigen(), ListedSizes([[5, 18, 0]]), trace_side=trace_side)
    assert [site.name for site in protection.sites] == ["0[0]", "0[1]", "3"]
    old = torch.cat([torch.rand(20, 1, 1, 1).expand(20, 2, 5, 5), torch.rand(20, 2, 5, 5)], 1)
    protection.end_task(old)
    assert protection.ranks == {"0[0]": 1, "0[1]": 18, "3": 0}  # the first group sees one grey value everywhere
    (basis,) = protection.subspaces["0[0]"].basis
    torch.testing.assert_close(basis.abs(), torch.full((18,), 18**-0.5))
    model(torch.rand(7, 4, 5, 5)).square().sum().backward()
    protection.after_backward()
    first, second = model[0].weight.grad.flatten(1).split(3)
    assert float((first @ basis).norm() / first.norm()) < 1e-5
    assert torch.equal(second, torch.zeros_like(second)), "a full group stands still beside one that learns"


def three_plain_images():
    """Three images of one colour each: without structure in space, their patches span three dimensions in any layer."""
    return orthonormal(3, 4).abs()[:, :, None, None].expand(3, 4, 5, 5)


def convolutional(kind=Conv2d, seed=0):
    torch.manual_seed(seed)
    layers = [kind(4, 6, 3, bias=False), nn.Tanh(), kind(6, 8, 2, stride=2, bias=False), nn.Tanh(), nn.Flatten()]
    return nn.Sequential(*layers, Linear(8, 3)).double()


def learn(model, protection, inputs, call="after_backward", kind=torch.optim.SGD, steps=40, **options):
    optimizer = kind([p for p in model.parameters() if p.requires_grad], **({"lr": 0.05} | options))
    targets = torch.arange(len(inputs)) % 3
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        if call == "after_backward":
            protection.after_backward()
        optimizer.step()
        if call == "after_step":
            protection.after_step()


OPTIMISERS = [
    pytest.param("after_backward", torch.optim.SGD, {}, False, id="sgd"),
    pytest.param("after_backward", torch.optim.SGD, {"momentum": 0.9}, False, id="momentum"),
    pytest.param("after_backward", torch.optim.SGD, {"momentum": 0.9}, True, id="momentum, trace side"),
    pytest.param("after_step", torch.optim.SGD, {"weight_decay": 0.01}, False, id="decay"),
    pytest.param("after_step", torch.optim.Adam, {"lr": 0.01}, False, id="adam"),
]


@pytest.mark.parametrize(("call", "kind", "options", "trace_side"), OPTIMISERS)
@pytest.mark.parametrize("layers", [Conv2d, nn.Conv2d])
def test_invariant_11_what_lies_in_the_span_is_not_forgotten(layers, call, kind, options, trace_side):
    model, old, new = convolutional(layers), three_plain_images(), drawn(12, 4, 5, 5, dtype=torch.float64)
    protection = protect(model, Eigen(), ListedSizes([[36, 24, 8]]), trace_side=trace_side)
    learn(model, protection, old, call, kind, **options)
    protection.end_task(old)
    assert protection.ranks == {"0": 3, "2": 3, "5": 3}
    before, learned = model(old).detach(), model(new).detach()
    learn(model, protection, new, call, kind, **options)
    assert float((model(old).detach() - before).abs().max()) < 1e-10
    assert float((model(new).detach() - learned).abs().max()) > 0.1


def test_control_without_lateral_neurons_the_same_convolutions_forget():
    model, old = convolutional(), three_plain_images()
    protection = protect(model, sizes=NoRows())
    protection.end_task(old)
    before = model(old).detach()
    learn(model, protection, drawn(12, 4, 5, 5, dtype=torch.float64), momentum=0.9)
    assert float((model(old).detach() - before).abs().max()) > 0.1


def plain_cnn(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, padding_mode="reflect"),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, stride=2, padding="valid", groups=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32, 3),
    )


def test_a_plain_cnn_with_norms_and_biases_is_protected_under_adam():
    model, generator = plain_cnn(), torch.Generator().manual_seed(0)
    old, new = (torch.rand(24, 2, 6, 6, generator=generator) for _ in range(2))
    protection = protect(model, HebbianAccumulated(), EnergyShare(0.9))
    learn(model, protection, old, "after_step", torch.optim.Adam, lr=0.01)
    protection.end_task(old)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    learn(model, protection, new, "after_step", torch.optim.Adam, lr=0.01)
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, kept[name])}
    assert moved == {"0.weight", "3.weight", "7.weight"}
    for site in protection.sites:
        change = (site.part(site.weight.detach()) - site.part(kept[f"{site.layer}.weight"])).flatten(1)
        basis = protection.subspaces[site.name].basis
        assert 0 < len(basis) < site.width
        assert float((change @ basis.mT).norm() / change.norm()) < 1e-5


# How many rows a layer shows


def test_a_convolution_with_stride_two_shows_a_row_per_output_and_not_per_pixel():
    """Unfolding with stride 1 shows four times the rows, and another second moment."""
    layer = Conv2d(2, 3, 3, stride=2, padding=1)
    inputs = drawn(4, 2, 8, 8).abs() * torch.linspace(0, 1, 8)
    (site,) = sites_of(layer)
    rows, outputs = site.rows(inputs), layer(inputs)
    assert len(rows) == outputs.numel() // 3 == 4 * 4 * 4
    dense = convolution_rows(inputs, (3, 3), (1, 1), (1, 1), (1, 1))
    assert len(dense) == 4 * len(rows)
    moment, wrong = (found.mT @ found / len(found) for found in (rows, dense))
    assert relative(wrong, moment) > 0.05


LAYERS = [
    pytest.param(Linear(6, 3), (200, 6), id="linear"),
    pytest.param(nn.Conv2d(2, 3, 3, padding=1), (50, 2, 4, 4), id="convolution"),
    pytest.param(nn.Conv2d(2, 2, 3, padding=1, groups=2), (50, 2, 4, 4), id="groups"),
    pytest.param(nn.Conv1d(2, 3, 3, padding=1), (50, 2, 8), id="sequence"),
]


@pytest.mark.parametrize("max_rows", [1, 7, 64, 10_000, None])
@pytest.mark.parametrize(("layer", "shape"), LAYERS)
def test_never_more_rows_than_asked_each_of_them_real_and_chosen_by_the_seed(layer, shape, max_rows):
    inputs = drawn(*shape)
    for site in sites_of(layer):
        whole = site.rows(inputs)
        first, again, other = (site.rows(inputs, max_rows, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
        assert len(first) == min(len(whole), max_rows or len(whole))
        assert torch.equal(first, again)
        if max_rows is None or max_rows >= len(whole):
            assert torch.equal(first, whole), "all rows, in their order"
            continue
        assert not torch.equal(first, other)
        real = {tuple(row) for row in whole.tolist()}
        chosen = [tuple(row) for row in first.tolist()]
        assert set(chosen) <= real
        assert len(set(chosen)) == len(chosen), "no row twice"


@pytest.mark.parametrize(("kind", "options"), EVERY)
def test_no_more_patches_are_cut_than_four_times_what_is_asked(kind, options, monkeypatch):
    """Memory: a choice among few is made before the patches of all inputs are there."""
    cut, original = [], convolution_rows

    def counting(*arguments):
        rows = original(*arguments)
        cut.append(len(rows))
        return rows

    layer, inputs = built(kind, options), inputs_for(kind, batch=60)
    per_input = layer(inputs[:1])[0, 0].numel()
    monkeypatch.setattr(neuro.lateral.taps, "convolution_rows", counting)
    assert len(sites_of(layer)[0].rows(inputs, 10, torch.Generator().manual_seed(0))) == 10
    assert 40 <= cut[0] < 40 + per_input


@pytest.mark.parametrize("max_rows", [5, 30])
@pytest.mark.parametrize(("layer", "shape"), LAYERS)
def test_a_choice_of_rows_has_the_second_moment_of_all_rows_on_average(layer, shape, max_rows):
    """Samples and places differ widely in energy, so that any preference would show."""
    generator = torch.Generator().manual_seed(0)
    samples = torch.linspace(0.1, 2, shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    inputs = drawn(*shape) * samples * torch.linspace(0.5, 1.5, shape[-1])
    site = sites_of(layer)[-1]
    whole = site.rows(inputs)
    chosen = torch.cat([site.rows(inputs, max_rows, generator) for _ in range(6000 // max_rows)])
    moment, estimate = (rows.mT @ rows / len(rows) for rows in (whole, chosen))
    assert relative(estimate, moment) < 0.1
    torch.testing.assert_close(chosen.mean(0), whole.mean(0), rtol=0, atol=0.1)


def test_a_protection_that_chooses_rows_repeats_with_its_seed_and_counts_what_it_showed():
    inputs, bases, spent = drawn(30, 2, 6, 6).abs(), [], []
    for seed, max_rows in ((0, 40), (0, 40), (1, 40), (0, None)):
        protection = protect(plain_cnn(), Eigen(), ListedSizes([[4, 4, 4, 4]]), max_rows=max_rows, seed=seed)
        protection.end_task(inputs, batch_size=10)
        bases.append(protection.subspaces["0"].basis)
        spent.append(protection.operations.learning)
    assert torch.equal(bases[0], bases[1])
    assert not torch.equal(bases[0], bases[2])
    widths, rows = [18, 27, 27, 32], [3 * 40, 3 * 40, 3 * 40, 30]
    everything = [30 * 36, 30 * 4, 30 * 4, 30]
    for count, found in ((rows, spent[0]), (everything, spent[3])):
        assert found == sum(num * width**2 + 9 * width**3 for num, width in zip(count, widths, strict=True))
