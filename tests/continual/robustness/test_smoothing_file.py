"""The file of a certification: interrupted it goes on to the same bytes, and it is refused where it does not belong."""

import json

import numpy as np
import pytest
import torch
from contracts.smoothing import poisson_target, small_images, small_network, spiking

from continual.robustness import (
    AboveRadii,
    FixedSample,
    Looks,
    MixtureSequence,
    Target,
    WithinTolerance,
    certify,
    load_certificates,
)
from continual.robustness.smoothing import save_certificates
from continual.robustness.smoothing.fingerprint import fingerprint


def run(path, model=None, images=None, sigma=0.5, labels=None, **settings):
    images = small_images(7) if images is None else images
    settings = {"rule": FixedSample(300), "batch_size": 200} | settings
    return certify(small_network() if model is None else model, images, sigma, labels, file=path, **settings)


@pytest.mark.parametrize("make", [small_network, spiking, poisson_target], ids=["relu", "spiking", "poisson"])
@pytest.mark.parametrize(
    ("rule", "goal", "most"),
    [(FixedSample(300), None, 14), (MixtureSequence(800), AboveRadii([0.0, 0.3]), 30)],
    ids=["fixed", "mixture"],
)
def test_an_interrupted_certification_goes_on_to_the_same_bytes(make, rule, goal, most, tmp_path, monkeypatch):
    settings = {"rule": rule, "goal": goal}
    whole = run(tmp_path / "whole", make(), **settings)
    target = make()
    target = target if isinstance(target, Target) else Target(target)
    calls, ask = [0], Target.ask

    def interrupted(self, images, through=None):
        calls[0] += 1
        if calls[0] > most:
            raise KeyboardInterrupt
        return ask(self, images, through)

    with monkeypatch.context() as patch:
        patch.setattr(Target, "ask", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "part", target, **settings)
    part = (tmp_path / "part").read_bytes()
    assert 1 < part.count(b"\n") < 8
    resumed = run(tmp_path / "part", target, **settings)
    assert (tmp_path / "part").read_bytes() == (tmp_path / "whole").read_bytes()
    assert resumed.rows == whole.rows


def test_a_torn_last_line_is_cut_off_and_made_again(tmp_path):
    whole = run(tmp_path / "a")
    content = (tmp_path / "a").read_bytes()
    for length in (len(content) - 1, len(content) - 40, len(content) // 2, 10):
        (tmp_path / "b").write_bytes(content[:length])
        assert run(tmp_path / "b").rows == whole.rows
        assert (tmp_path / "b").read_bytes() == content


def test_a_finished_file_is_read_and_nothing_is_asked_again(tmp_path, monkeypatch):
    whole = run(tmp_path / "a")
    asked = []
    monkeypatch.setattr(Target, "ask", lambda self, images, through=None: asked.append(len(images)) or torch.eye(4)[:2])
    assert run(tmp_path / "a").rows == whole.rows
    assert sum(asked) <= 20  # the first question, about shape and steadiness


def test_more_images_may_join_a_file(tmp_path):
    run(tmp_path / "a", images=small_images(7)[:3])
    assert run(tmp_path / "a").rows == run(tmp_path / "b").rows
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def other_threshold():
    model = spiking()
    changed = [module for module in model.modules() if hasattr(module, "threshold")]
    assert changed
    for module in changed:
        module.threshold = 0.9
    return model


def test_a_file_of_another_network_is_refused_by_its_hash(tmp_path):
    run(tmp_path / "a")
    with pytest.raises(ValueError, match=r"certificates of another network .*hash to"):
        run(tmp_path / "a", small_network(seed=1))
    with pytest.raises(ValueError, match="certificates of another network"):
        run(tmp_path / "a", Target(small_network(), classes=[0, 1]))
    other = small_network()
    other[2] = torch.nn.Tanh()
    with pytest.raises(ValueError, match="certificates of another network"):
        run(tmp_path / "a", other)
    run(tmp_path / "b", spiking())
    with pytest.raises(ValueError, match="certificates of another network"):
        run(tmp_path / "b", other_threshold())


def test_a_fingerprint_names_weights_and_not_modes():
    first = fingerprint(Target(small_network()))
    assert first == fingerprint(Target(small_network().train()))
    assert first == fingerprint(Target(small_network().forward))
    nudged = small_network()
    with torch.no_grad():
        nudged[1].weight[0, 0] += 1e-6
    assert first != fingerprint(Target(nudged))
    assert fingerprint(Target(lambda images: images.flatten(1))) is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"sigma": 0.25}, "sigma 0.5 there, 0.25 now"),
        ({"rule": FixedSample(301)}, "n 300 there, 301 now"),
        ({"rule": FixedSample(300, 0.01)}, "alpha 0.001 there, 0.01 now"),
        ({"n0": 64}, "n0 100 there, 64 now"),
        ({"seed": 1}, "seed 0 there, 1 now"),
        ({"rule": Looks((100, 300)), "goal": AboveRadii([0.1])}, "rule FixedSample there, Looks now"),
        ({"images": small_images(7).double(), "model": small_network(dtype=torch.float64)}, "another"),
    ],
)
def test_a_file_of_another_budget_is_refused(change, named, tmp_path):
    run(tmp_path / "a")
    with pytest.raises(ValueError, match=named):
        run(tmp_path / "a", **change)


def test_noise_of_another_version_of_torch_is_not_mixed_in(tmp_path, monkeypatch):
    run(tmp_path / "a", images=small_images(7)[:3])
    monkeypatch.setattr(torch, "__version__", "99.0")
    with pytest.raises(ValueError, match=r"another noise \(torch .* there, 99.0 now\)"):
        run(tmp_path / "a")


def test_a_file_of_other_images_or_labels_is_refused(tmp_path):
    labels = torch.zeros(7, dtype=torch.long)
    run(tmp_path / "a", labels=labels)
    with pytest.raises(ValueError, match="under index 0 the certificate of another image or label"):
        run(tmp_path / "a", images=small_images(7, seed=2), labels=labels)
    with pytest.raises(ValueError, match="under index 2 the certificate of another image or label"):
        run(tmp_path / "a", labels=torch.tensor([0, 0, 1, 0, 0, 0, 0]))


def test_a_callable_without_a_network_cannot_have_a_file(tmp_path):
    with pytest.raises(ValueError, match=r"No network was found behind the callable.*networks=\[…\]"):
        run(tmp_path / "a", lambda images: images.flatten(1)[:, :4])
    found = certify(lambda images: images.flatten(1)[:, :4], small_images(2), 0.5, rule=FixedSample(100))
    assert found.network is None


def test_what_is_no_file_of_certificates_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes"
    path.write_text("my notes\n")
    for read in (lambda: run(path), lambda: load_certificates(path)):
        with pytest.raises(ValueError, match="is no file of certificates, or a damaged one"):
            read()
    path.write_text("one line that does not end")
    with pytest.raises(ValueError, match="is no file of certificates"):
        run(path)
    assert path.read_text() == "one line that does not end"
    path.write_text(json.dumps({"certificates": 99}) + "\n")
    with pytest.raises(ValueError, match="format 99 where 1 is read"):
        run(path)
    assert path.read_text().startswith('{"certificates": 99}')


@pytest.mark.parametrize(
    ("rule", "goal"),
    [
        (FixedSample(300, 0.01), None),
        (Looks((100, 300)), AboveRadii([0.0, 0.5])),
        (MixtureSequence(300, every=50), WithinTolerance(0.1)),
    ],
)
def test_certificates_survive_their_file(rule, goal, tmp_path):
    found = run(tmp_path / "a", rule=rule, goal=goal, labels=torch.tensor([0, 1, 2, 3, 0, 1, 2]))
    loaded = load_certificates(tmp_path / "a")
    assert loaded == found
    assert save_certificates(found, tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes()
    assert load_certificates(tmp_path / "b") == found
    head = json.loads((tmp_path / "a").read_text().splitlines()[0])
    assert head["budget"] == found.budget.describe()
    assert {"sigma", "n0", "alpha", "seed"} <= set(head["budget"])
    assert head["network"] == found.network
    assert head["versions"]["torch"] == torch.__version__


def test_the_usual_table_can_be_read_by_name(tmp_path):
    labels = torch.tensor([0, 1, 2, 3, 0, 1, 2])
    found = run(None, labels=labels)
    lines = (found.write_table(tmp_path / "t.tsv")).read_text().splitlines()
    assert lines[0].split("\t") == ["idx", "label", "predict", "radius", "correct", "draws"]
    columns = np.array([line.split("\t") for line in lines[1:]], float).T
    assert columns[0].tolist() == list(range(7))
    assert columns[2].tolist() == found.predicted.tolist()
    assert columns[3] == pytest.approx(found.radii, rel=1e-5)
    assert columns[4].tolist() == found.correct.astype(float).tolist()
