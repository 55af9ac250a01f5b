"""Graphormer (Ying et al. 2021): a Pre-LN transformer over the nodes of a graph and a virtual one that is read out.

Score of a pair: q·k/√K + spatial + edges, see `positions.graph`. Differences from the released code: distances beyond
the table share its last row instead of being cut off, the final norm is applied, and the head is one linear map.
"""

from torch import Tensor, nn

from transformers_core.blocks.stack import Stack
from transformers_core.graphs import GraphBatch
from transformers_core.masks import Mask
from transformers_core.types import Context, consecutive


class Graphormer(nn.Module):
    """Embedding, biases, layers, head.

    Args:
        embedding: maps graphs to [B, 1 + N, D], the virtual node first.
        bias: maps graphs to [B, A, 1 + N, 1 + N].
        stack: the layers.
        head: maps [B, D] to [B, C].
    """

    def __init__(self, embedding: nn.Module, bias: nn.Module, stack: Stack, head: nn.Module) -> None:
        super().__init__()
        self.embedding, self.bias, self.stack, self.head = embedding, bias, stack, head

    def nodes(self, graphs: GraphBatch) -> Tensor:
        """Give the vectors of the virtual node and of all others, [B, 1 + N, D]."""
        x = self.embedding(graphs)
        real = nn.functional.pad(graphs.valid, (1, 0), value=True)
        positions = consecutive(x.shape[1], x.device)
        return self.stack(x, Context(positions, positions, Mask(real), self.bias(graphs)))

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Classify graphs; give [B, C]."""
        return self.head(self.nodes(graphs)[:, 0])
