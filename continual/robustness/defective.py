"""Defective convolution (Luo, Cai, Zhang, Xu, Jin, Wang, He 2019): some neurons of the bottom layers never speak.

    z = M · BN(conv(x)) + (1 − M) · c,      then the non-linearity

M is a mask over channel and place, drawn once before training and never again: it is architecture, the same in training
and evaluation, over all tasks and all time steps, and part of the state dict. Exactly ⌊(1 − p) K H W⌋ of its entries
are defective, p being the share that is kept; nothing is rescaled. Batch norm sees what is later masked. The shape of
the mask makes the input's resolution part of the model, so another one is refused. In a spiking network a defective
place receives the constant as its current at every tick; with c = 0 it never fires.

It is a way to train networks that rely less on texture, not a defence: against adaptive white-box attacks it has to be
expected to fall like any network that was trained without adversarial images. The authors' repository
(tiangeluo/DefectiveCNN, MIT licence) mentions a Chinese patent, 202110577422.5; find out what it means for you before
you ship this layer. The code here is written from the formula.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from continual.robustness.guard import left_as_found

MaskDraw = Callable[[Sequence[int], float, torch.Generator], Tensor]
"""From a shape [K, H, W], the share that is kept and a generator to a mask of zeros and ones, [K, H, W]."""


def independent_mask(shape: Sequence[int], keep: float, generator: torch.Generator) -> Tensor:
    """Draw ⌊(1 − keep) K H W⌋ defective places anywhere in [K, H, W], without replacement."""
    total = math.prod(shape)
    mask = torch.ones(total)
    mask[torch.randperm(total, generator=generator)[: _defects(total, keep)]] = 0
    return mask.view(*shape)


def shared_mask(shape: Sequence[int], keep: float, generator: torch.Generator) -> Tensor:
    """Draw ⌊(1 − keep) H W⌋ defective places in [H, W], the same in all K channels."""
    return independent_mask((1, *shape[1:]), keep, generator).expand(*shape).clone()


def _defects(total: int, keep: float) -> int:
    """Give ⌊(1 − keep) · total⌋ without losing one to the rounding of 1 − keep."""
    return math.floor((1 - keep) * total + 1e-9)


class Defects(nn.Module):
    """A layer's output with defective places.

    Example:
        >>> import torch
        >>> mask = independent_mask((2, 3, 3), 0.5, torch.Generator().manual_seed(0))
        >>> layer = Defects(torch.nn.Conv2d(1, 2, 3, padding=1), mask)
        >>> int((layer(torch.rand(1, 1, 3, 3)) == 0).sum())
        9

    Args:
        layer: gives [B, K, H, W]; a convolution, or the norm behind it.
        mask: 1 where a neuron works, 0 where it is defective, [K, H, W].
        constant: c, what a defective place gives.

    Raises:
        ValueError: if the mask is no [K, H, W] of zeros and ones, or the constant is not finite.
    """

    mask: Tensor

    def __init__(self, layer: nn.Module, mask: Tensor, constant: float = 0.0) -> None:
        super().__init__()
        if mask.ndim != 3 or not bool(((mask == 0) | (mask == 1)).all()):
            raise ValueError(f"A mask [K, H, W] of zeros and ones is needed, got the shape {list(mask.shape)}.")
        if not math.isfinite(constant):
            raise ValueError(f"constant must be finite, got {constant}.")
        self.layer, self.constant = layer, float(constant)
        self.register_buffer("mask", mask.bool())

    def forward(self, inputs: Tensor) -> Tensor:
        """Give [B, K, H, W], c at every defective place.

        Raises:
            ValueError: if the layer's output has another shape than the mask.
        """
        outputs = self.layer(inputs)
        if outputs.shape[1:] != self.mask.shape:
            raise ValueError(
                f"The mask was drawn for {list(self.mask.shape)}, this input gives {list(outputs.shape[1:])}. Masks "
                f"make the resolution part of the model; resize the input, or draw new masks and train again."
            )
        return outputs.masked_fill(~self.mask, self.constant)

    def extra_repr(self) -> str:
        """Show how many places are defective."""
        return f"defective={int((~self.mask).sum())}/{self.mask.numel()}, constant={self.constant}"


def make_defective(
    model: nn.Module,
    inputs: Tensor,
    keep: float,
    generator: torch.Generator,
    draw: MaskDraw = independent_mask,
    constant: float = 0.0,
    stages: int = 2,
) -> list[str]:
    """Make the bottom stages of any CNN defective, in place; plain or spiking.

    A site is every batch norm of two-dimensional maps, which stands before the non-linearity whether it comes behind
    its convolution (CNN, VGG, ResNet) or ahead of one (pre-activation); in a network without, every convolution. A
    stage is a resolution: the first `stages` different sizes of maps, in the order of the forward pass. A ResNet-18 on
    32x32 images has ten sites in two stages, projection shortcuts included.

    Args:
        model: changed in place; each site is wrapped in `Defects`.
        inputs: at least one image of the resolution the model is for, [B, ...]; the values do not matter.
        keep: p, the share of places that work, in [0, 1]; each site draws its own mask.
        generator: on the CPU.
        draw: how a mask is drawn: `independent_mask` or `shared_mask`.
        constant: c, what a defective place gives.
        stages: resolutions from the bottom that become defective.

    Returns:
        The names of the sites that were wrapped.

    Raises:
        ValueError: if keep is outside [0, 1], stages below 1, there is no site, a site runs at two resolutions, or the
            model is defective already.
    """
    if not 0 <= keep <= 1:
        raise ValueError(f"keep must lie in [0, 1], got {keep}.")
    if stages < 1:
        raise ValueError(f"stages must be at least 1, got {stages}.")
    if any(isinstance(module, Defects) for module in model.modules()):
        raise ValueError("The model is defective already; masks are drawn once, before training.")
    shapes = map_shapes(model, inputs)
    resolutions = list(dict.fromkeys(shape[1:] for shape in shapes.values()))[:stages]
    chosen = [name for name, shape in shapes.items() if shape[1:] in resolutions]
    for name in chosen:
        owner, _, own = name.rpartition(".")
        layer = model.get_submodule(name)
        wrapped = Defects(layer, draw(shapes[name], keep, generator), constant).train(layer.training)
        setattr(model.get_submodule(owner), own, wrapped.to(inputs.device))
    return chosen


def map_shapes(model: nn.Module, inputs: Tensor) -> dict[str, tuple[int, ...]]:
    """Give the shape [K, H, W] of every site's output by name, in the order of a forward pass.

    Args:
        model: left as it was found.
        inputs: [B, ...].

    Raises:
        ValueError: if there is no site, or one gives maps of two shapes.
    """
    modules = dict(model.named_modules())
    norms = {name: module for name, module in modules.items() if isinstance(module, nn.BatchNorm2d)}
    sites = norms or {name: module for name, module in modules.items() if isinstance(module, nn.Conv2d)}
    if not sites:
        raise ValueError("The model has no two-dimensional convolution or batch norm to make defective.")
    found: dict[str, tuple[int, ...]] = {}

    def note(name: str, outputs: Tensor) -> None:
        shape = tuple(outputs.shape[1:])
        if found.setdefault(name, shape) != shape:
            raise ValueError(f"Layer {name!r} gives maps of {found[name]} and of {shape}; a mask needs one shape.")

    def hook(name: str) -> Callable[..., None]:
        return lambda module, arguments, outputs: note(name, outputs)

    hooks = [site.register_forward_hook(hook(name)) for name, site in sites.items()]
    try:
        with left_as_found([model], 0), torch.no_grad():
            model(inputs[:1])
    finally:
        for handle in hooks:
            handle.remove()
    return found
