"""Where a node stands in its graph (Graphormer: Ying, Cai, Luo, Zheng, Ke, He, Shen, Liu 2021).

    centrality        h_i ← E[x_i] + z[deg_i]                         undirected: one table of degrees
    spatial           b[φ_ij], one number a head for every length of the shortest path
    edges             c_ij = (1/ℓ) Σ_{p<=ℓ} E[e_p] W_p, over the first ℓ = min(φ_ij, P) edges of one shortest path
    virtual node      stands first, at every node's side: one number a head replaces spatial and edge terms of its pairs

Both biases are data about pairs and the same for all layers. Pairs that no path joins have a row of their own: they do
attend. Longer paths than the table share its last row. Where several shortest paths carry different edges, c depends on
which is taken, so outputs are invariant under renumbering only without edge types or with unique paths.
"""

import torch
from torch import Tensor, nn

from transformers_core.graphs import FAR, GraphBatch


class GraphEmbedding(nn.Module):
    """Map nodes to vectors and put the virtual node before them.

    Args:
        num_types: node types.
        max_degree: largest degree with a row of its own; larger ones share the last.
        width: D.
    """

    def __init__(self, num_types: int, max_degree: int, width: int) -> None:
        super().__init__()
        self.types = nn.Embedding(num_types + 1, width, padding_idx=0)
        self.degrees = nn.Embedding(max_degree + 1, width)
        self.virtual = nn.Parameter(torch.zeros(width))
        nn.init.normal_(self.virtual, std=0.02)

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Give [B, 1 + N, D].

        Raises:
            ValueError: if a node's type has no row.
        """
        if int(graphs.nodes.max()) >= self.types.num_embeddings:
            raise ValueError(
                f"Node types must be below {self.types.num_embeddings - 1}, got {int(graphs.nodes.max()) - 1}."
            )
        degrees = graphs.degree.clamp(max=self.degrees.num_embeddings - 1)
        x = self.types(graphs.nodes) + self.degrees(degrees)
        return torch.cat((self.virtual.expand(len(x), 1, -1), x), 1)


class GraphBias(nn.Module):
    """Biases of all pairs, the virtual node's among them.

    Args:
        heads: A.
        max_distance: longest path with a row of its own.
        num_edge_types: of edges; 0 leaves the edge term out.
        max_path: P, edges of a path that are read.
    """

    def __init__(self, heads: int, max_distance: int = 20, num_edge_types: int = 0, max_path: int = 5) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.spatial = nn.Embedding(max_distance + 2, heads)  # lengths 0..max, and no path
        self.virtual = nn.Parameter(torch.zeros(heads))
        self.edges = nn.Embedding(num_edge_types + 1, heads, padding_idx=0) if num_edge_types else None
        self.steps = nn.Parameter(torch.zeros(max_path, heads, heads)) if num_edge_types else None
        for part in (self.spatial.weight, self.virtual, self.steps):
            if part is not None:
                nn.init.normal_(part, std=0.02)

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Give [B, A, 1 + N, 1 + N].

        Raises:
            ValueError: if edges are to be read and the graphs have no edge types.
        """
        distance = graphs.distance
        row = torch.where(distance == FAR, self.max_distance + 1, distance.clamp(max=self.max_distance))
        pairs = self.spatial(row) + self.edge_term(graphs)
        batch, nodes, _, heads = pairs.shape
        whole = self.virtual.expand(batch, nodes + 1, nodes + 1, heads).clone()
        whole[:, 1:, 1:] = pairs
        return whole.movedim(-1, 1)

    def edge_term(self, graphs: GraphBatch) -> Tensor:
        """Give c, [B, N, N, A], or 0 where edges are not read."""
        if self.edges is None or self.steps is None:
            return torch.zeros((), device=graphs.nodes.device)
        if graphs.path is None:
            raise ValueError("This model reads edge types, and the graphs have none; give Graph(edge_types=...).")
        path = graphs.path[..., : self.steps.shape[0]]
        mixed = torch.einsum("bijph,phk->bijk", self.edges(path), self.steps[: path.shape[-1]])
        return mixed / (path > 0).sum(-1, keepdim=True).clamp(min=1)
