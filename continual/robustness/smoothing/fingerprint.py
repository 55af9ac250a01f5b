"""A network's fingerprint, so that a certificate is not taken for another network's.

SHA-256 over everything behind a callable that decides its answers and can be seen: weights and buffers by name, dtype,
shape and content, the layers' own descriptions, and the plain numbers and texts they hold, such as a threshold. What a
callable does around its modules is not seen.
"""

import hashlib

import torch
from torch import Tensor, nn

from continual.robustness.guard import networks_behind
from continual.robustness.target import Target

_PASSING = ("training", "seed")
"""Attributes that change without the network changing: the mode, and where a stochastic part's stream starts."""


def fingerprint(target: Target) -> str | None:
    """Give 16 hexadecimal digits that name the network, or None if no module is found behind the callable.

    Args:
        target: the network, and how it is asked.
    """
    networks = networks_behind(target.model, target.networks)
    if not networks:
        return None
    digest = hashlib.sha256(f"{target.classes and list(target.classes)} {target.stochastic};".encode())
    for network in networks:
        digest.update(str(network).encode())
        for path, module in network.named_modules():
            digest.update(f"{path} {type(module).__qualname__} {_settings(module)};".encode())
        for name, tensor in sorted(network.state_dict().items()):
            if isinstance(tensor, Tensor):
                digest.update(f"{name} {tensor.dtype} {list(tensor.shape)};".encode())
                digest.update(bytes_of(tensor))
    return digest.hexdigest()[:16]


def _settings(module: nn.Module) -> list[tuple[str, str]]:
    plain = (bool, int, float, str)
    held = vars(module).items()
    return sorted((k, repr(v)) for k, v in held if isinstance(v, plain) and k not in _PASSING and k[:1] != "_")


def bytes_of(tensor: Tensor) -> bytes:
    """Give a tensor's content as it lies in memory, row by row."""
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def checksum_of_image(image: Tensor, label: int | None) -> str:
    """Give 16 hexadecimal digits that name an image with its label."""
    about = f"{image.dtype} {list(image.shape)} {label};".encode()
    return hashlib.sha256(about + bytes_of(image)).hexdigest()[:16]
