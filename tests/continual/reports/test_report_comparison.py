"""Comparisons: intervals that agree with scipy, pairs on equal seeds, and refusals that name what differs."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from continual.metrics import AccuracyMatrices
from continual.reports import compare, comparison_tables
from continual.reports.formatting import with_interval
from continual.reports.grouping import flat, read_groups


def stored(folder, metric):
    return json.loads((folder / "metrics.json").read_text())[metric]


def test_runs_are_grouped_by_everything_but_seeds_in_the_order_given(seeded_runs):
    groups = read_groups(list(seeded_runs.values()))
    assert [group.name for group in groups] == ["naive", "ewc", "hlop", "joint"]
    assert [[run.seed for run in group.runs] for group in groups] == [[0, 1, 2]] * 4


@pytest.mark.parametrize("metric", ["acc_final", "bwt", "forgetting"])
def test_intervals_agree_with_scipy(seeded_runs, metric):
    group = read_groups([seeded_runs["hlop", seed] for seed in (2, 0, 1)])[0]
    values = [stored(seeded_runs["hlop", seed], metric) for seed in (0, 1, 2)]
    interval = group.interval(metric)
    low, high = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high))


def test_differences_are_paired_by_seed_and_use_only_common_seeds(seeded_runs):
    naive, hlop = read_groups(
        [seeded_runs["naive", seed] for seed in (0, 1)] + [seeded_runs["hlop", s] for s in (2, 1, 0)]
    )
    difference = hlop.difference("acc_final", naive)
    pairs = [stored(seeded_runs["hlop", s], "acc_final") - stored(seeded_runs["naive", s], "acc_final") for s in (0, 1)]
    assert difference.num_values == 2
    assert difference.mean == pytest.approx(np.mean(pairs))
    low, high = stats.t.interval(0.95, 1, loc=np.mean(pairs), scale=stats.sem(pairs))
    assert (difference.low, difference.high) == (pytest.approx(low), pytest.approx(high))
    (other,) = read_groups([seeded_runs["hlop", 2]])
    assert other.difference("acc_final", naive) is None


def test_the_page_shows_strategies_intervals_and_differences(seeded_runs, tmp_path):
    path = compare(list(seeded_runs.values()), tmp_path / "out")
    assert path == tmp_path / "out" / "comparison.html"
    page = path.read_text(encoding="utf-8").replace("\u00a0", " ")
    for group in read_groups(list(seeded_runs.values())):
        assert f'<th scope="row">{group.name}</th><td class="number">3</td>' in page
        text = with_interval("acc_final", group.interval("acc_final")).replace("\u00a0%", "")
        assert f">{text}<" in page
    assert "Strategy less naive on the seeds both ran" in page
    assert "Each strategy less each other" in page
    assert "strategy._target_" in page
    assert page.count('src="data:image/png;base64,') == 4
    assert "http://" not in page
    assert sorted(p.name for p in (tmp_path / "out" / "figures").iterdir()) == [
        "comparison_matrices.png",
        "comparison_mean_accuracy.png",
        "comparison_rank_growth.png",
        "comparison_tradeoffs.png",
    ]


def test_one_seed_has_no_interval_and_without_naive_no_difference_is_made_up(seeded_runs, tmp_path):
    page = compare([seeded_runs["hlop", 0], seeded_runs["ewc", 0]], tmp_path / "two.html").read_text(encoding="utf-8")
    assert "A row of one run has no interval" in page
    assert "there is none" in page
    assert "±</" not in page
    assert " ± " not in page.split("What happened")[0].replace("tasks) ± half width", "")


def test_groups_of_one_strategy_are_told_apart_by_what_differs(fake_run):
    folders = [fake_run(f"r{k}", strategy="ewc", num_tasks=2, changes={"strategy.strength": k}) for k in (1, 10)]
    assert [group.name for group in read_groups(folders)] == ["ewc (strength=1)", "ewc (strength=10)"]


def test_names_that_look_like_markup_stay_words(fake_run, tmp_path):
    folders = [
        fake_run("a", strategy="naive", num_tasks=2),
        fake_run("b", strategy="ewc", num_tasks=2, changes={"strategy.note": "<script>$x"}),
        fake_run("c", strategy="ewc", num_tasks=2, changes={"strategy.note": "</table>"}),
    ]
    page = compare(folders, tmp_path / "out").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;$x" in page


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data.name": "fashion", "data.size": 32}, "data.size: None and 32"),
        ({"scenario.blur": 0.5}, "scenario.blur"),
        ({"data": "fashion"}, "data: None and fashion"),
    ],
)
def test_runs_of_other_tasks_are_refused_with_the_keys(fake_run, changes, words):
    folders = [fake_run("a", num_tasks=2), fake_run("b", num_tasks=2, strategy="naive", changes=changes)]
    with pytest.raises(ValueError, match="must solve the same tasks") as caught:
        read_groups(folders)
    assert words in str(caught.value)


def test_another_number_of_tasks_or_mode_is_refused(fake_run):
    with pytest.raises(ValueError, match=r"number of tasks.*scenario\.num_tasks.*test samples of all tasks"):
        read_groups([fake_run("a", num_tasks=2), fake_run("b", num_tasks=3)])
    with pytest.raises(ValueError, match=r"mode: domain and class"):
        read_groups([fake_run("c", num_tasks=2), fake_run("d", num_tasks=2, mode="class")])


def test_a_label_the_names_of_tasks_and_the_device_may_differ(fake_run):
    changes = {"scenario.label": "the same under another label", "device": "cuda", "experiment": "other"}
    other = fake_run("b", num_tasks=2, seed=1, changes=changes, names=["first", "second"])
    assert [len(group.runs) for group in read_groups([fake_run("a", num_tasks=2), other])] == [2]


def test_unfinished_repeated_and_no_runs_are_refused(fake_run):
    finished = fake_run("a", num_tasks=2)
    with pytest.raises(ValueError, match="has not finished"):
        read_groups([finished, fake_run("b", num_tasks=2, seed=1, finished=False)])
    with pytest.raises(ValueError, match="counted once"):
        read_groups([finished, finished])
    with pytest.raises(ValueError, match="at least one"):
        read_groups([])


def test_flat_keys_are_dotted():
    assert flat({"a": {"b": 1, "c": {"d": [2]}}, "e": {}}) == {"a.b": 1, "a.c.d": [2], "e": {}}


def test_a_seed_that_one_side_lacks_pairs_nothing_and_its_runs_are_averaged(fake_run):
    def runs(strategy, seed, sampler):
        changes = {"strategy.sampler_seed": sampler} if sampler is not None else {}
        return fake_run(f"{strategy}{seed}{sampler}", strategy=strategy, seed=seed, num_tasks=2, changes=changes)

    with_sampler = [runs("hlop", seed, sampler) for seed in (0, 1) for sampler in (0, 1)]
    hlop, naive = read_groups([*with_sampler, *(runs("naive", seed, None) for seed in (0, 1, 2))])
    difference = hlop.difference("acc_final", naive)
    assert difference.num_values == 2
    values = {seed: np.mean(hlop.values("acc_final")[2 * seed : 2 * seed + 2]) for seed in (0, 1)}
    assert difference.mean == pytest.approx(
        np.mean([values[seed] - naive.values("acc_final")[seed] for seed in (0, 1)])
    )


def test_orders_that_give_tasks_other_sizes_may_be_compared(fake_run):
    folders = [fake_run(str(order), num_tasks=2, changes={"scenario.order_seed": order}) for order in (0, 1)]
    swapped = AccuracyMatrices.load(folders[1] / "accuracy_matrix.npz")
    replace(swapped, counts=np.array([900, 1100])).save(folders[1] / "accuracy_matrix.npz")
    assert [len(group.runs) for group in read_groups(folders)] == [2]


def test_differences_between_all_pairs_turn_their_sign_with_the_order_and_have_no_diagonal(seeded_runs):
    groups = read_groups([seeded_runs[name, seed] for name in ("naive", "hlop", "joint") for seed in (0, 1, 2)])
    content = comparison_tables.each_to_each(groups)
    cells = [row[1:] for row in content.rows]
    assert [cells[k][k] for k in range(3)] == ["–"] * 3
    assert cells[1][0] == "+" + cells[0][1].removeprefix("−")
    difference = groups[1].difference("acc_final", groups[0])
    assert cells[1][0] == with_interval("bwt", difference)


def test_a_table_with_backward_transfer_has_learning_accuracy_beside_it(fake_run):
    folder = fake_run(num_tasks=2)
    metrics = json.loads((folder / "metrics.json").read_text())
    (folder / "metrics.json").write_text(json.dumps(metrics | {"acc_learning": None}))
    head = comparison_tables.quality(read_groups([folder])).head
    assert head[head.index("backward transfer") - 1] == "learning accuracy"


def test_a_title_of_many_strategies_stays_short(fake_run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["continual.reports.compare"], "illustrations", lambda groups: [])
    folders = [fake_run(f"s{k}", strategy=f"strategy{k:02d}", num_tasks=2, spiking=False) for k in range(20)]
    page = compare(folders, tmp_path / "out").read_text(encoding="utf-8")
    assert "strategy05 and 14 more on permuted_digits</h1>" in page
