"""Scores of one sample, whose gradients say what parameters matter: log-probabilities of labels, length of the outputs.

A score sees one sample's logits [classes] and the rows that compete for it [classes]; rows that do not compete have
probability 0 and take no part.
"""

import torch
from torch import Tensor

from continual.objectives import masked_logits


def log_probabilities(logits: Tensor, active: Tensor) -> Tensor:
    """Give log p [B, classes], −∞ for rows that do not compete."""
    return masked_logits(logits, active).log_softmax(-1)


def root_shares(labels: Tensor, logits: Tensor, active: Tensor) -> Tensor:
    """Give √p(c|x) log p(c|x) of labels c [K], with the root held constant; 0 where one does not compete."""
    found = log_probabilities(logits[None], active)[0][labels]
    return torch.where(active[labels], found.detach().exp().sqrt() * found, 0.0)


def of_label(logits: Tensor, active: Tensor, label: Tensor) -> Tensor:
    """Give log p(label|x)."""
    return log_probabilities(logits[None], active)[0].gather(0, label[None])[0]


def of_likeliest_label(logits: Tensor, active: Tensor) -> Tensor:
    """Give log p(c|x) of the likeliest c."""
    return of_label(logits, active, masked_logits(logits[None], active)[0].detach().argmax())


def of_drawn_label(logits: Tensor, active: Tensor, uniform: Tensor) -> Tensor:
    """Give log p(c|x) of a c drawn from p by inverting its distribution function at a number in [0, 1)."""
    reached = log_probabilities(logits[None], active)[0].detach().to(uniform.dtype).exp().cumsum(0)
    return of_label(logits, active, (reached <= uniform * reached[-1]).sum().clamp(max=len(reached) - 1))


def squared_length(logits: Tensor, active: Tensor) -> Tensor:
    """Give ‖z‖² over the rows that compete."""
    return logits.masked_fill(~active, 0).square().sum()
