"""What stands still from the second task on, because no projection can protect it.

A projection keeps updates out of what old inputs span, so it needs a presynaptic side. Biases, norm statistics and
affine parameters, embeddings and thresholds have none: they are frozen. Of the head, rows that the current task does
not train stand still, and so do shared biases.
"""

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor, nn

from neuro.lateral.taps import WeightSite


class HeadRows(NamedTuple):
    """Rows of the head in the current task, each [classes] of booleans.

    Attributes:
        shared: trained by an earlier task too, so updates to them are projected.
        active: trained now; all others stand still.
        projected: whose updates are projected, where that is not `shared`.
    """

    shared: Tensor
    active: Tensor
    projected: Tensor | None = None

    @property
    def to_project(self) -> Tensor:
        """Rows whose updates are projected."""
        return self.shared if self.projected is None else self.projected

    def still(self, parameter: Tensor) -> Tensor:
        """Give which rows of a head parameter stand still: inactive ones, and shared ones of a bias."""
        return ~self.active if parameter.ndim > 1 else ~self.active | self.shared


def last_linear(model: nn.Module) -> str:
    """Give the name of the last linear layer, which is the head unless the user names another.

    Raises:
        ValueError: if there is none.
    """
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not names:
        raise ValueError("The network has no linear layer that could be its head; name the head's module.")
    return names[-1]


def freeze_unprotected(model: nn.Module, sites: Iterable[WeightSite], head: nn.Module) -> list[str]:
    """Freeze every parameter that is neither a protected weight nor the head's, and all norm statistics.

    Statistics stay frozen however often the model's mode is switched.

    Returns:
        Names of the frozen parameters.
    """
    frozen = unprotected_parameters(model, sites, head)
    for name in frozen:
        parameter = model.get_parameter(name)
        parameter.requires_grad_(False)
        parameter.grad = None
    freeze_statistics(model)
    return frozen


def unprotected_parameters(model: nn.Module, sites: Iterable[WeightSite], head: nn.Module) -> list[str]:
    """Name every parameter that is neither a protected weight nor the head's."""
    trained = {id(site.weight) for site in sites} | {id(parameter) for parameter in head.parameters(recurse=False)}
    return [name for name, parameter in model.named_parameters() if id(parameter) not in trained]


def freeze_statistics(model: nn.Module) -> None:
    """Keep every norm layer's running statistics as they are, however often the model's mode is switched."""
    for module in model.modules():
        if getattr(module, "track_running_stats", False) and not hasattr(module, "keeps_statistics"):
            module.keeps_statistics = module.register_forward_pre_hook(_in_evaluation_mode)  # pyright: ignore[reportArgumentType]


def _in_evaluation_mode(module: nn.Module, _inputs: object) -> None:
    module.eval()
