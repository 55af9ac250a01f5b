"""Graphormer and the norms over nodes: paths by hand, invariance, what is told apart and what is not."""

import pytest
import torch

from transformers_core.graphs import FAR, Graph, collated, shortest_paths
from transformers_core.norms.graph import GraphNorm, instance_norm, node_rms_norm
from transformers_core.presets.graphormer import graphormer
from transformers_core.presets.size import Size

SIZE = Size(width=16, heads=4, inner=16, layers=2, max_length=10)


def graph(edges, size, types=None, edge_types=None):
    nodes = torch.zeros(size, dtype=torch.int64) if types is None else torch.tensor(types)
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2)
    return Graph(nodes, pairs, None if edge_types is None else torch.tensor(edge_types, dtype=torch.int64))


def cycle(size, start=0):
    return [(start + i, start + (i + 1) % size) for i in range(size)]


def model(seed=0, **options):
    torch.manual_seed(seed)
    made = graphormer(SIZE, 5, 3, **options).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def breadth_first(adjacent, source):
    """Steps from a node, by a queue."""
    found, queue = {source: 0}, [source]
    while queue:
        here = queue.pop(0)
        for there in adjacent[here].nonzero().flatten().tolist():
            if there not in found:
                found[there] = found[here] + 1
                queue.append(there)
    return [found.get(node, FAR) for node in range(len(adjacent))]


def test_paths_are_those_of_a_search_in_breadth():
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        adjacent = torch.rand(12, 12, generator=generator) < 0.12
        adjacent = (adjacent | adjacent.T).fill_diagonal_(False)
        steps, _ = shortest_paths(adjacent)
        assert steps.tolist() == [breadth_first(adjacent, node) for node in range(12)]


def test_edges_along_a_path_stand_in_its_order():
    line = graph([(0, 1), (1, 2), (2, 3)], 4, edge_types=[4, 2, 0])
    batch = collated([line], max_path=3)
    assert batch.path[0, 0, 3].tolist() == [5, 3, 1]
    assert batch.path[0, 3, 0].tolist() == [1, 3, 5]
    assert batch.path[0, 1, 2].tolist() == [3, 0, 0]
    assert batch.distance[0].tolist() == [[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]]
    assert batch.degree[0].tolist() == [1, 2, 2, 1]


def test_renumbering_the_nodes_permutes_them_and_leaves_the_readout():
    edges, types = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 5)], [0, 1, 2, 3, 4, 0]
    order = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    place = torch.argsort(order)
    renumbered = graph([(int(place[a]), int(place[b])) for a, b in edges], 6, [types[i] for i in order.tolist()])
    one, other = collated([graph(edges, 6, types)]), collated([renumbered])
    network = model()
    torch.testing.assert_close(network(one), network(other), rtol=0, atol=1e-10)
    torch.testing.assert_close(network.nodes(one)[:, 1:][:, order], network.nodes(other)[:, 1:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("edge_types", [0, 3])
def test_a_graph_alone_and_in_a_padded_batch_get_one_answer(edge_types):
    def typed(edges, size):
        kinds = [i % 3 for i in range(len(edges))] if edge_types else None
        return graph(edges, size, [i % 5 for i in range(size)], kinds)

    small, large = typed([(0, 1), (1, 2)], 3), typed(cycle(7), 7)
    network = model(num_edge_types=edge_types)
    together = network(collated([small, large, typed([], 1)]))
    alone = torch.cat([network(collated([one])) for one in (small, large, typed([], 1))])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-10)


LADDER = ([(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)], 6)
TRIANGLES = ([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3)], 6)
SIX, TWO_THREES = (cycle(6), 6), (cycle(3) + cycle(3, 3), 6)
DECALIN = ([*cycle(6), (5, 6), (6, 7), (7, 8), (8, 9), (9, 0)], 10)
BICYCLOPENTYL = (cycle(5) + cycle(5, 5) + [(0, 5)], 10)


def colours(edges, size):
    """The colours that 1-WL ends with, as a multiset."""
    neighbours = [[] for _ in range(size)]
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    colour = [0] * size
    for _ in range(size):
        seen = [(colour[i], tuple(sorted(colour[j] for j in neighbours[i]))) for i in range(size)]
        names = {key: number for number, key in enumerate(sorted(set(seen)))}
        colour = [names[key] for key in seen]
    return sorted(colour)


@pytest.mark.parametrize("pair", [(LADDER, TRIANGLES), (SIX, TWO_THREES), (DECALIN, BICYCLOPENTYL)])
def test_graphs_that_colour_refinement_cannot_tell_apart_are_told_apart(pair):
    assert colours(*pair[0]) == colours(*pair[1])
    network = model()
    one, other = (network(collated([graph(*member)])) for member in pair)
    assert float((one - other).abs().max()) > 1e-4


def test_graphs_with_the_same_distances_everywhere_are_not():
    """Rook's graph and Shrikhande's: strongly regular alike, so no reader of distances alone can tell."""
    cells = [(a, b) for a in range(4) for b in range(4)]
    rook = [(i, j) for i in range(16) for j in range(i) if (cells[i][0] == cells[j][0]) != (cells[i][1] == cells[j][1])]
    near = {(0, 1), (1, 0), (1, 1), (0, 3), (3, 0), (3, 3)}
    shrikhande = [
        (i, j)
        for i in range(16)
        for j in range(i)
        if ((cells[i][0] - cells[j][0]) % 4, (cells[i][1] - cells[j][1]) % 4) in near
    ]
    assert len(rook) == len(shrikhande) == 48
    network = model()
    one, other = (network(collated([graph(edges, 16)])) for edges in (rook, shrikhande))
    torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_nodes_that_no_path_joins_attend_through_a_row_of_their_own():
    apart = collated([graph([(0, 1), (2, 3)], 4)])
    assert apart.distance[0, 0].tolist() == [0, 1, FAR, FAR]
    network = model()
    before = network(apart)
    with torch.no_grad():
        network.bias.spatial.weight[SIZE.max_length + 1] += 1
    assert not torch.allclose(network(apart), before)
    whole = collated([graph([(0, 1), (1, 2), (2, 3)], 4)])
    changed = network(whole)
    with torch.no_grad():
        network.bias.spatial.weight[SIZE.max_length + 1] += 1
    torch.testing.assert_close(network(whole), changed)


def test_long_paths_share_the_last_row_and_large_degrees_too():
    line = collated([graph([(i, i + 1) for i in range(20)], 21)])
    assert torch.isfinite(model()(line)).all()
    star = collated([graph([(0, i) for i in range(1, 100)], 100)])
    assert torch.isfinite(model(max_degree=8)(star)).all()


def test_a_graph_of_one_node_is_taken_and_one_of_none_is_refused():
    assert model()(collated([graph([], 1)])).shape == (1, 3)
    with pytest.raises(ValueError, match="Graph 1 has no nodes"):
        collated([graph([], 1), graph([], 0)])
    with pytest.raises(ValueError, match="at least one graph"):
        collated([])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: graph([(0, 3)], 3), "pairs"),
        (lambda: graph([(0, 1)], 2, edge_types=[1, 2]), "1 edges and 2"),
    ],
)
def test_edges_that_do_not_fit_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        collated([wrong()])


def test_types_are_asked_for_where_they_are_read():
    with pytest.raises(ValueError, match="Node types must be below 5"):
        model()(collated([graph([(0, 1)], 2, [0, 7])]))
    with pytest.raises(ValueError, match="reads edge types"):
        model(num_edge_types=3)(collated([graph([(0, 1)], 2)]))
    with pytest.raises(ValueError, match="Either all graphs"):
        collated([graph([(0, 1)], 2), graph([(0, 1)], 2, edge_types=[0])])


def test_without_queries_and_keys_and_with_only_neighbours_it_averages_neighbours():
    network = model()
    block = network.stack.layers[0].sublayers[0].sublayer
    with torch.no_grad():
        for projection in (block.projections.query, block.projections.key):
            projection.weight.zero_()
            projection.bias.zero_()
        network.bias.spatial.weight.fill_(-1e9)
        network.bias.spatial.weight[1] = 0
        network.bias.virtual.fill_(-1e9)
    batch = collated([graph([(0, 1), (1, 2), (1, 3)], 4, [0, 1, 2, 3])])
    x = network.embedding(batch)
    bias = network.bias(batch)
    weights = bias[0, 0].softmax(-1)[1:, 1:]
    wanted = torch.tensor([[0, 1, 0, 0], [1 / 3, 0, 1 / 3, 1 / 3], [0, 1, 0, 0], [0, 1, 0, 0]], dtype=weights.dtype)
    torch.testing.assert_close(weights, wanted)
    assert x.shape == (1, 5, 16)


def nodes(seed=0, dtype=torch.float64):
    return torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(seed), dtype=dtype) + 2


def test_a_whole_shift_is_instance_norm_and_none_is_root_mean_square():
    x = nodes()
    wanted = torch.nn.functional.instance_norm(x.transpose(1, 2), eps=1e-6).transpose(1, 2)
    torch.testing.assert_close(instance_norm(4).double()(x), wanted, rtol=0, atol=1e-12)
    rms = x / (x.square().mean(1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(node_rms_norm(4).double()(x), rms, rtol=0, atol=1e-12)
    assert not any(p.requires_grad for n, p in instance_norm(4).named_parameters() if n == "shift")
    assert GraphNorm(4).shift.requires_grad


def test_statistics_are_of_a_graphs_own_real_nodes():
    x, valid = nodes(), torch.tensor([[True] * 6, [True] * 4 + [False] * 2, [True] + [False] * 5])
    norm = GraphNorm(4, 0.7).double()
    whole = norm(x, valid)
    for row, count in enumerate((6, 4, 1)):
        torch.testing.assert_close(whole[row, :count], norm(x[row : row + 1, :count])[0])
    order = torch.randperm(6)
    torch.testing.assert_close(norm(x[:, order], valid[:, order]), whole[:, order])


def test_constant_features_and_single_nodes_have_the_stated_values():
    constant = torch.full((1, 5, 4), -3.0, dtype=torch.float64)
    torch.testing.assert_close(GraphNorm(4, 1.0).double()(constant), torch.zeros_like(constant))
    half = GraphNorm(4, 0.5).double()(constant)
    torch.testing.assert_close(half, -torch.ones_like(constant), rtol=1e-5, atol=0)
    torch.testing.assert_close(GraphNorm(4, 1.0).double()(constant[:, :1]), torch.zeros(1, 1, 4, dtype=torch.float64))


def test_half_precision_is_summed_in_single():
    x = nodes(dtype=torch.float32).to(torch.bfloat16)
    torch.testing.assert_close(GraphNorm(4)(x).float(), GraphNorm(4)(x.float()), rtol=0.02, atol=0.02)
