"""Graphormer (Ying et al. 2021): Pre-LN, feed-forward of the model's width, GELU, one bias for all layers."""

from torch import nn

from transformers_core.blocks.stack import Stack
from transformers_core.models.graphormer import Graphormer
from transformers_core.norms.token import LayerNorm
from transformers_core.positions.graph import GraphBias, GraphEmbedding
from transformers_core.presets.size import Size, repeated
from transformers_core.presets.standard import standard_layer
from transformers_core.residual import pre_norm


def graphormer(
    size: Size, num_node_types: int, num_classes: int, num_edge_types: int = 0, max_degree: int = 64
) -> Graphormer:
    """Make a Graphormer; `size.max_length` is the longest path with a bias of its own.

    Args:
        size: widths and counts; the paper's feed-forward has inner = width.
        num_node_types: of nodes.
        num_classes: rows of the head.
        num_edge_types: of edges; 0 reads none.
        max_degree: largest degree with a row of its own.
    """
    place = pre_norm(size.width, size.dropout)
    stack = Stack(repeated(size, lambda: standard_layer(size, place)), None, LayerNorm(size.width))
    bias = GraphBias(size.heads, size.max_length, num_edge_types)
    embedding = GraphEmbedding(num_node_types, max_degree, size.width)
    return Graphormer(embedding, bias, stack, nn.Linear(size.width, num_classes))
