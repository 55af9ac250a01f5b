"""A ViT layer that is a given convolution: to rounding, at borders too, and through the switch of phases."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformers_core.attention.convolutional import (
    PatchAttention,
    TokenConvolution,
    begin_attention_phase,
    neighbour_matrices,
    patch_reach,
)
from transformers_core.models.vit import patches, unpatch
from transformers_core.presets.convolutional_vit import convolutional_vit
from transformers_core.presets.size import Size
from transformers_core.types import Context, consecutive

CASES = [(1, 3, 9), (1, 5, 25), (2, 3, 9), (2, 5, 9), (4, 3, 9), (4, 9, 9), (2, 7, 25)]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def made(side, kernel_size, dtype=torch.float64, sharpness=40.0, channels=(2, 3), grid=(3, 4)):
    torch.manual_seed(0)
    convolution = nn.Conv2d(*channels, kernel_size, padding=kernel_size // 2).to(dtype)
    layer = PatchAttention.from_conv2d(convolution, side, grid, generator(), sharpness)
    images = torch.randn(2, channels[0], grid[0] * side, grid[1] * side, generator=generator(1), dtype=dtype)
    return convolution, layer, images, grid


def applied(layer, images, side, grid):
    here = consecutive(grid[0] * grid[1], images.device)
    return unpatch(layer(patches(images, side), Context(here, here)), grid, side)


@pytest.mark.parametrize(("side", "kernel_size", "heads"), CASES)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_the_layer_is_the_convolution_to_rounding(side, kernel_size, heads, dtype, bound):
    convolution, layer, images, grid = made(side, kernel_size, dtype)
    assert layer.heads == heads == (2 * patch_reach(kernel_size, side) + 1) ** 2
    assert (applied(layer, images, side, grid) - convolution(images)).abs().max() < bound


def test_border_pixels_of_an_image_of_ones_are_those_of_zero_padding():
    convolution, layer, images, grid = made(2, 3)
    ones = torch.ones_like(images)
    found, expected = applied(layer, ones, 2, grid), convolution(ones)
    assert torch.allclose(found, expected, atol=1e-12)
    assert not torch.allclose(expected[0, 0, 0], expected[0, 0, 2], atol=1e-3)  # the border is not the inside


def test_the_error_falls_as_the_exponential_of_the_sharpness():
    errors = []
    for sharpness in (5.0, 10.0, 20.0):
        convolution, layer, images, grid = made(2, 3, sharpness=sharpness)
        errors.append((applied(layer, images, 2, grid) - convolution(images)).abs().max().log().item())
    assert (errors[0] - errors[1]) / 5 == pytest.approx(1.0, abs=0.1)
    assert (errors[1] - errors[2]) / 10 == pytest.approx(1.0, abs=0.1)


def test_patches_larger_than_the_picture_leave_one_patch_alone():
    convolution, layer, images, grid = made(4, 5, grid=(1, 1))
    assert torch.allclose(applied(layer, images, 4, grid), convolution(images), atol=1e-12)


def test_a_tied_order_of_pixels_is_what_the_matrices_speak():
    weight = torch.zeros(1, 1, 3, 3)
    weight[0, 0, 1, 2] = 1.0  # the picture moves left by one pixel
    matrices = neighbour_matrices(weight, 2)
    own, right = matrices[4], matrices[5]
    assert own.nonzero().tolist() == [[1, 0], [3, 2]]
    assert right.nonzero().tolist() == [[0, 1], [2, 3]]


def test_all_weights_learn_after_the_switch():
    _, layer, images, grid = made(2, 3, sharpness=10.0)
    with torch.no_grad():
        layer.projections.query.weight += 1e-3
    applied(layer, images, 2, grid).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_queries_learn_from_zero_because_keys_are_not():
    _, layer, images, grid = made(2, 3, sharpness=5.0)
    applied(layer, images, 2, grid).square().sum().backward()
    assert layer.projections.query.weight.grad.abs().max() > 0


def test_switching_the_phase_of_a_network_keeps_its_function():
    torch.manual_seed(0)
    model = convolutional_vit(Size(width=16, inner=32, layers=4), (3, 12, 12), 2, 5)
    images = torch.rand(4, 3, 12, 12, generator=generator())
    before = model(images)
    assert begin_attention_phase(model, generator(), sharpness=20.0) == 4
    assert not [m for m in model.modules() if isinstance(m, TokenConvolution)]
    assert torch.allclose(model(images), before, atol=1e-4)
    assert begin_attention_phase(model, generator()) == 0


def operator_of(weight, size):
    """The convolution as (query pixel, key pixel) x (in, out)."""
    inputs = weight.shape[1]
    basis = torch.eye(inputs * size * size, dtype=weight.dtype).view(-1, inputs, size, size)
    out = F.conv2d(basis, weight, padding=1).view(inputs, size * size, weight.shape[0], size * size)
    return out.permute(3, 1, 0, 2).flatten(2).flatten(0, 1)


def test_a_convolution_needs_as_many_content_free_heads_as_it_has_independent_taps():
    weight = torch.randn(4, 4, 3, 3, generator=generator(), dtype=torch.float64)
    operator = operator_of(weight, 6)
    assert torch.linalg.matrix_rank(operator) == 9
    values = torch.linalg.svdvals(operator)
    left, sizes, right = torch.linalg.svd(operator, full_matrices=False)
    for heads in (3, 8):
        nearest = (left[:, :heads] * sizes[:heads]) @ right[:heads]
        assert (operator - nearest).square().sum().item() == pytest.approx(values[heads:].square().sum().item())


@pytest.mark.parametrize(
    "options", [{"stride": 2}, {"dilation": 2}, {"groups": 2}, {"padding": 0}, {"padding_mode": "circular"}]
)
def test_other_convolutions_are_refused(options):
    convolution = nn.Conv2d(2, 4, 3, **{"padding": 1, **options})
    with pytest.raises(ValueError, match="square odd kernels with stride 1"):
        PatchAttention.from_conv2d(convolution, 2, (2, 2), generator())
    with pytest.raises(ValueError, match="square odd kernels"):
        TokenConvolution(convolution, 2, (2, 2))


def test_wrong_grids_and_widths_are_refused():
    with pytest.raises(ValueError, match="K odd is needed"):
        neighbour_matrices(torch.zeros(1, 1, 4, 4), 2)
    _, layer, images, _ = made(2, 3)
    here = consecutive(2, images.device)
    with pytest.raises(ValueError, match=r"\(3, 4\) patches was announced, got 2"):
        layer(torch.zeros(1, 2, 8).double(), Context(here, here))
    with pytest.raises(ValueError, match="must be a multiple"):
        convolutional_vit(Size(width=18), (3, 8, 8), 4, 5)
    assert math.isclose(patch_reach(7, 2), 2)


@pytest.mark.slow
def test_two_phases_of_training_lower_the_loss_in_both():
    torch.manual_seed(0)
    model = convolutional_vit(Size(width=16, inner=32, layers=2), (1, 8, 8), 2, 2)
    images = torch.rand(64, 1, 8, 8, generator=generator())
    targets = (images[:, 0, :4].mean((1, 2)) > images[:, 0, 4:].mean((1, 2))).long()
    losses = []
    for phase in range(2):
        if phase:
            begin_attention_phase(model, generator())
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(60):
            loss = F.cross_entropy(model(images), targets)
            optimizer.zero_grad(), loss.backward(), optimizer.step()
            losses.append(loss.item())
    assert losses[59] < 0.7 * losses[0]
    assert losses[60] == pytest.approx(losses[59], abs=0.1)
    assert losses[-1] < losses[60]
