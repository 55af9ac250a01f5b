"""The initial weights papers ask for, drawn from a generator of the caller."""

import torch
from torch import nn


@torch.no_grad()
def initialise_normal(model: nn.Module, generator: torch.Generator, deviation: float = 0.02) -> None:
    """Draw weights of all linear maps and embeddings from N(0, deviation²); offsets are 0 (BERT, TUPE, Graphormer)."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            module.weight.normal_(0.0, deviation, generator=generator)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.zero_()


@torch.no_grad()
def initialise_xavier(model: nn.Module, generator: torch.Generator) -> None:
    """Draw linear maps Xavier-uniformly and embeddings from N(0, 1/D); offsets are 0 (Macaron's translation)."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.Embedding):
            module.weight.normal_(0.0, module.embedding_dim**-0.5, generator=generator)
