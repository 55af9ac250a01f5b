"""Every YAML fits the constructor it names.

Checked for each description with a `_target_`, at any depth: the target may be imported; every key is a keyword of it;
every keyword without default is given, unless the runner injects it; every keyword of one of our own constructors
appears, so that `--cfg` shows all there is to set (torch's constructors have more than anybody wants to see; of those
only the keys given are checked). Not checked: that a value equals the constructor's default.
"""

import inspect

import pytest
import yaml
from tiny_runs import composed, described, launch, records_of

from continual.api import run_config
from continual.compose import GROUPS, choices, compose, config_folder
from continual.config import NOT_HASHED, RunConfig, resolve

INJECTED = {
    "scenario": {"dataset"},
    "stream": {"sequence"},
    "model": {"input_shape", "num_classes"},
    "optimizer": {"params"},
    "schedule": {"optimizer"},
}
FILES = [(group, choice) for group in GROUPS if group not in ("experiment", "debug") for choice in choices(group)]


def descriptions(node, path):
    """Every dict with a `_target_`, with its path."""
    if isinstance(node, dict):
        if "_target_" in node:
            yield path, node
        for key, value in node.items():
            yield from descriptions(value, f"{path}.{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from descriptions(value, f"{path}[{index}]")


def misfits(node, path, injected):
    """What does not fit, as sentences; the outermost target alone gets injected keywords."""
    target = resolve(node["_target_"], path)
    parameters = inspect.signature(target).parameters
    given = set(node) - {"_target_"}
    named = {key for key, entry in parameters.items() if entry.kind not in (entry.VAR_KEYWORD, entry.VAR_POSITIONAL)}
    required = {key for key in named if parameters[key].default is inspect.Parameter.empty}
    found = [f"{path}: unknown {key}" for key in sorted(given - named)]
    found += [f"{path}: injected {key} is given" for key in sorted(given & injected)]
    found += [f"{path}: missing {key}" for key in sorted(required - given - injected)]
    if not node["_target_"].startswith("torch."):
        found += [f"{path}: {key} does not appear" for key in sorted(named - given - injected)]
    return found


def content_of(group, choice):
    """The description a choice stands for; some choose parts or set keys beside their own."""
    if group in ("model", "rule", "stream"):
        return compose([f"{group}={choice}"])[group]
    return yaml.safe_load((config_folder() / group / f"{choice}.yaml").read_text())


@pytest.mark.parametrize(("group", "choice"), FILES)
def test_every_yaml_binds_to_its_constructor(group, choice):
    content = content_of(group, choice)
    parts = list(descriptions(content, group))
    assert parts, "a choice without _target_ builds nothing"
    assert parts[0][0] == group, "the outermost level has no _target_"
    found = [
        sentence
        for path, node in parts
        for sentence in misfits(node, path, INJECTED.get(group, set()) if path == group else set())
    ]
    assert found == []


def test_the_check_itself_finds_each_kind_of_misfit():
    node = {"_target_": "neuro.neurons.LIF", "tau": 2.0, "taau": 3.0}
    assert misfits(node, "n", set()) == [
        "n: unknown taau",
        "n: reset does not appear",
        "n: surrogate does not appear",
        "n: threshold does not appear",
    ]
    assert misfits({"_target_": "torch.optim.SGD"}, "o", set()) == ["o: missing params"]
    assert misfits({"_target_": "torch.optim.SGD", "params": 1}, "o", {"params"}) == ["o: injected params is given"]


def test_every_folder_is_a_group_and_every_group_has_a_choice():
    assert {path.name for path in config_folder().iterdir() if path.is_dir()} == set(GROUPS)
    assert all(choices(group) for group in GROUPS)


def test_the_composed_configuration_has_the_keys_of_run_config():
    keys = set(compose(["strategy=hlop"]))
    assert keys == set(RunConfig.__dataclass_fields__)
    assert set(NOT_HASHED) < keys


@pytest.mark.parametrize("experiment", choices("experiment"))
def test_every_experiment_composes_and_binds(experiment):
    description = compose([f"experiment={experiment}"])
    assert description["name"] == experiment
    found = [
        sentence
        for group in ("data", "scenario", "stream", "model", "strategy", "rule", "optimizer", "schedule")
        for path, node in descriptions(description[group], group)
        for sentence in misfits(node, path, INJECTED.get(group, set()) if path == group else set())
    ]
    assert found == []


@pytest.mark.parametrize("experiment", [name for name in choices("experiment") if name.startswith("permuted")])
def test_every_permuted_experiment_runs_one_task_tiny(experiment, tmp_path):
    for strategy in ("naive", "hlop"):
        chosen = (f"experiment={experiment}", "scenario.num_tasks=1", f"strategy={strategy}")
        assert launch(tmp_path, *chosen).matrices.num_tasks == 1


@pytest.mark.parametrize(
    ("experiment", "smaller"),
    [
        ("split_fashion_hlop", ["data=digits", "model.channels=[4,4,4]"]),
        ("five_offline_hlop", ["model.width=2", "model.time_steps=2", "scenario.samples_per_task=20", "epochs=1"]),
    ],
)
def test_every_convolutional_experiment_runs_tiny(experiment, smaller, tmp_path):
    tasks = "scenario.num_tasks=2"
    description = compose([f"experiment={experiment}", "strategy=hlop", tasks, f"output={tmp_path}", *smaller])
    assert run_config(description).matrices.num_tasks == 2


OWN_FILES = {"five_datasets"}  # runs in test_published_presets.py, on files in the official layouts
PLUS = {"superclasses": ("scenario.groups=[[0,1,2,3,4],[5,6,7,8,9]]",)}


@pytest.mark.parametrize("scenario", [name for name in choices("scenario") if name not in OWN_FILES])
@pytest.mark.parametrize("mode", ["task", "domain", "class"])
def test_every_scenario_runs_in_every_mode(scenario, mode, tmp_path):
    chosen = (f"scenario={scenario}", f"scenario.mode={mode}", *PLUS.get(scenario, ()))
    result = launch(tmp_path, *chosen, "strategy=hlop")
    assert result.metrics["mode"] == mode
    assert 0 <= result.metrics["acc_final"] <= 1


SMALL = {
    "cnn": ("model.channels=[4,4]",),
    "resnet18": ("model.width=2",),
    "vgg": ("model.plan=[4,pool,4]",),
    "mlp": (),
    "lenet": ("model.channels=[4,4]", "model.kernels=[3,2]", "model.hidden=[8]"),
    "vision_transformer": ("model.patch=4", "model.width=8", "model.heads=2", "model.inner=8"),
    "alexnet_style": ("model.channels=[4,4]", "model.kernels=[3,2]", "model.hidden=[8]"),
}


@pytest.mark.parametrize("choice", choices("optimizer"))
def test_every_optimiser_runs(choice, tmp_path):
    assert launch(tmp_path, f"optimizer={choice}", "strategy=hlop").matrices.num_tasks == 2


@pytest.mark.parametrize("choice", choices("model"))
def test_every_model_runs(choice, tmp_path):
    small = SMALL.get(choice, SMALL.get(choice.partition("_")[2], ()))
    assert launch(tmp_path, f"model={choice}", *small, "strategy=hlop").matrices.num_tasks == 2


@pytest.mark.parametrize("choice", choices("rule"))
@pytest.mark.parametrize("error_path", choices("error_path"))
def test_every_rule_runs_with_every_error_path(choice, error_path, tmp_path):
    result = launch(tmp_path, f"rule={choice}", f"error_path={error_path}", "strategy=hlop")
    assert result.matrices.num_tasks == 2


@pytest.mark.parametrize("choice", [c for c in choices("neuron") if not c.startswith("dsr")])
def test_every_neuron_runs(choice, tmp_path):
    assert launch(tmp_path, f"neuron={choice}", "strategy=hlop").matrices.num_tasks == 2


@pytest.mark.parametrize(
    ("schedule", "rates"), [("constant", [0.4, 0.4]), ("step", [0.4, 0.2]), ("cosine", [0.4, 0.2])]
)
def test_a_schedule_sets_the_rate_and_starts_afresh_with_each_task(schedule, rates, tmp_path):
    result = launch(tmp_path, "strategy=naive", f"schedule={schedule}", "epochs=2", "optimizer.lr=0.4")
    found = [line["learning_rate"] for line in records_of(result.folder) if line["event"] == "epoch"]
    assert found == pytest.approx(rates * 2)


def test_the_tiny_runs_of_these_tests_are_described_as_hydra_would():
    overrides = ("strategy=hlop", "scenario=split", "scenario.mode=class", "epochs=2", "model.hidden=[7,5]", "seed=2")
    assert described(*overrides) == composed(*overrides)
