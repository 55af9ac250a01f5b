"""Graphs as padded batches: what Graphormer reads of them, computed once when a batch is made.

Axes: B graphs, N nodes of the largest, P steps of a path. Node and edge types count from 0; index 0 of every table is
kept for padding, so types are stored one higher.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

FAR = -1
"""Distance of two nodes that no path joins."""


class Graph(NamedTuple):
    """One undirected graph.

    Attributes:
        nodes: type of each node, [N], int64, 0 or more.
        edges: pairs of nodes, [E, 2], each edge once or in both directions.
        edge_types: of each pair, [E], int64, 0 or more; None where edges are alike.
    """

    nodes: Tensor
    edges: Tensor
    edge_types: Tensor | None = None


class GraphBatch(NamedTuple):
    """Graphs side by side.

    Attributes:
        nodes: types plus 1, 0 for padding, [B, N].
        degree: of each node, [B, N].
        distance: steps of the shortest path, `FAR` where there is none, [B, N, N].
        path: types plus 1 of the edges along one shortest path, 0 behind its end, [B, N, N, P]; None without types.
        valid: which nodes are real, [B, N].
    """

    nodes: Tensor
    degree: Tensor
    distance: Tensor
    path: Tensor | None
    valid: Tensor


def collated(graphs: Sequence[Graph], max_path: int = 5) -> GraphBatch:
    """Pad graphs to a batch.

    Args:
        graphs: at least one, each with at least one node; all with edge types or none.
        max_path: P, steps of a path whose edges are kept.

    Raises:
        ValueError: for no graph, one without nodes, edges that name absent nodes, or types on some graphs alone.
    """
    if not graphs:
        raise ValueError("A batch needs at least one graph, got none.")
    for number, graph in enumerate(graphs):
        check_graph(graph, number)
    typed = [graph.edge_types is not None for graph in graphs]
    if any(typed) != all(typed):
        raise ValueError("Either all graphs of a batch have edge types or none has.")
    size = max(len(graph.nodes) for graph in graphs)
    nodes = torch.zeros(len(graphs), size, dtype=torch.int64)
    degree, distance = torch.zeros_like(nodes), torch.full((len(graphs), size, size), FAR)
    path = torch.zeros(len(graphs), size, size, max_path, dtype=torch.int64) if all(typed) else None
    for row, graph in enumerate(graphs):
        length, types = len(graph.nodes), edge_matrix(graph)
        steps, following = shortest_paths(types > 0)
        nodes[row, :length], degree[row, :length] = graph.nodes + 1, (types > 0).sum(1)
        distance[row, :length, :length] = steps
        if path is not None:
            path[row, :length, :length] = edges_on_paths(types, steps, following, max_path)
    valid = nodes > 0
    return GraphBatch(nodes, degree, distance, path, valid)


def check_graph(graph: Graph, number: int) -> None:
    """Refuse a graph without nodes, or with edges to nodes that are not there.

    Raises:
        ValueError: naming the graph.
    """
    size = len(graph.nodes)
    if size == 0:
        raise ValueError(f"Graph {number} has no nodes; leave it out.")
    edges = graph.edges
    if (
        edges.ndim != 2
        or edges.shape[-1] != 2
        or (edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < size)
    ):
        raise ValueError(f"Edges of graph {number} must be pairs [E, 2] of its nodes 0..{size - 1}.")
    if graph.edge_types is not None and graph.edge_types.shape != edges.shape[:1]:
        raise ValueError(f"Graph {number} has {len(edges)} edges and {len(graph.edge_types)} edge types.")


def edge_matrix(graph: Graph) -> Tensor:
    """Give edge types plus 1, [N, N], symmetric; 1 for every edge where there are no types, 0 for no edge."""
    found = torch.zeros(len(graph.nodes), len(graph.nodes), dtype=torch.int64)
    types = torch.zeros(len(graph.edges), dtype=torch.int64) if graph.edge_types is None else graph.edge_types
    sources, ends = graph.edges.unbind(1)
    found[sources, ends] = found[ends, sources] = types + 1
    return found.fill_diagonal_(0)


def shortest_paths(adjacent: Tensor) -> tuple[Tensor, Tensor]:
    """Find all shortest paths (Floyd and Warshall).

    Args:
        adjacent: [N, N] of booleans, symmetric.

    Returns:
        Steps [N, N], `FAR` where there is no path, and the node that follows i on the way to j [N, N].
    """
    size = len(adjacent)
    steps = torch.where(adjacent, 1.0, torch.inf).fill_diagonal_(0.0)
    following = torch.arange(size).expand(size, size).clone()
    for middle in range(size):
        through = steps[:, middle, None] + steps[None, middle]
        shorter = through < steps
        steps = torch.where(shorter, through, steps)
        following = torch.where(shorter, following[:, middle, None], following)
    return torch.where(steps.isinf(), FAR, steps.nan_to_num(posinf=0).long()), following


def edges_on_paths(types: Tensor, steps: Tensor, following: Tensor, max_path: int) -> Tensor:
    """List the edge types along one shortest path of every pair, [N, N, P], 0 behind its end."""
    size = len(types)
    ends = torch.arange(size).expand(size, size)
    here, listed = ends.T.clone(), []
    for step in range(max_path):
        there = following[here, ends]
        on_path = steps > step
        listed.append(torch.where(on_path, types[here, there], 0))
        here = torch.where(on_path, there, here)
    return torch.stack(listed, -1)
