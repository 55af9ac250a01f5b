"""Report, page, figures, and the evaluation that a configuration describes."""

import json
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
import yaml
from contracts.smoothing import small_images, small_network
from scipy.special import ndtri

from continual.compose import config_folder
from continual.config import build
from continual.data.arrays import Test
from continual.errors import UserError
from continual.reports.style import DARK, LIGHT
from continual.robustness import (
    AboveRadii,
    CertificationReport,
    FixedSample,
    MixtureSequence,
    Smoothing,
    certify,
    load_certificates,
)
from continual.robustness.smoothing.figures import certified_curves, draws_per_image, figures_of, p_a_histograms
from continual.robustness.smoothing.page import write_page

FIXED = "continual.robustness.FixedSample"


def described():
    return yaml.safe_load((config_folder() / "robustness" / "smoothing.yaml").read_text())


def data(number=20):
    images = small_images(number)
    with torch.no_grad():
        labels = small_network()(images).argmax(1)
    labels[::4] = (labels[::4] + 1) % 4
    return images, labels


def report(**changes):
    return Smoothing(0.5, **({"rule": FixedSample(200), "radii": (0.3, 0.0, 0.1)} | changes))(small_network(), data())


def test_the_configuration_builds_an_evaluation_that_runs_once_sigma_is_given():
    evaluation = build(described() | {"sigma": 0.5, "num_samples": 6}, "robustness")
    assert isinstance(evaluation, Smoothing)
    assert evaluation.budget.rule == FixedSample(1000, 0.001)
    found = evaluation(small_network(), data())
    assert isinstance(found, CertificationReport)
    assert len(found.certificates) == 6
    assert found.radii == (0.0, 0.25, 0.5, 0.75, 1.0)


@pytest.mark.parametrize("sigma", [None, 0, 0.0, -1])
def test_the_configuration_alone_says_in_one_sentence_that_sigma_is_missing(sigma):
    with pytest.raises(UserError, match="robustness: sigma") as caught:
        build(described() | {"sigma": sigma}, "robustness")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"rule": {"_target_": FIXED, "n": 5, "alpha": 0.001}},
            "nothing can be certified",
        ),
        ({"rule": {"_target_": FIXED, "n": 500, "alpha": 2}}, r"must lie in \(0, 1\)"),
        ({"num_samples": 0}, "num_samples must be a whole number of at least 1"),
        ({"radii": [-0.5]}, "radii must be finite numbers >= 0"),
    ],
)
def test_bad_settings_are_one_sentence(change, sentence):
    with pytest.raises(UserError, match=sentence):
        build(described() | {"sigma": 0.5} | change, "robustness")


def test_a_part_of_a_dataset_in_bytes_is_certified_in_zero_to_one():
    images, labels = data()
    bytes_ = (images * 255).round().to(torch.uint8)
    part = Test(bytes_.numpy(), labels.numpy())
    found = Smoothing(0.5, FixedSample(200))(small_network(), part)
    own = certify(small_network(), bytes_.float() / 255, 0.5, labels, rule=FixedSample(200))
    assert found.certificates.rows == own.rows


def test_an_evaluation_goes_on_in_its_file(tmp_path):
    file = tmp_path / "kept.jsonl"
    evaluation = Smoothing(0.5, FixedSample(200))
    first = evaluation(small_network(), data(), file)
    assert load_certificates(file) == first.certificates
    assert evaluation(small_network(), data(), file).certificates == first.certificates


def test_the_table_says_ceiling_budget_and_all_rates():
    found = report()
    text = found.table()
    ceiling = ndtri(0.001 ** (1 / 200))
    assert f"ceiling radius {0.5 * ceiling:.4f} = {ceiling:.4f} sigma" in text
    assert "sigma 0.5, FixedSample, n0 100, n 200, alpha 0.001, seed 0" in text
    assert f"ACR {found.average_certified_radius:.4f}" in text
    assert f"abstains on {found.certificates.abstention_rate:.3f}" in text
    assert found.radii == (0.0, 0.1, 0.3)
    for radius, accuracy in zip(found.radii, found.certified_accuracy, strict=True):
        assert accuracy == np.mean(found.certificates.correct & (found.certificates.radii >= radius))
        assert f"{radius:8.4g} {accuracy:9.3f}" in text


def test_a_report_of_an_early_stop_gives_no_acr():
    found = report(rule=MixtureSequence(400), goal=AboveRadii([0.0, 0.1]))
    assert np.isnan(found.average_certified_radius)
    assert found.as_dict()["acr"] is None
    assert "ACR not given, because sampling stopped early" in found.table()


def test_saved_files_hold_what_the_report_says(tmp_path):
    found = report()
    folder = found.save(tmp_path / "out")
    plain = json.loads((folder / "certification.json").read_text())
    assert plain["acr"] == found.average_certified_radius
    assert plain["ceiling"] == found.certificates.budget.ceiling
    assert [point["accuracy"] for point in plain["curve"]] == list(found.certified_accuracy)
    assert plain["budget"] == found.certificates.budget.describe()
    assert load_certificates(folder / "certificates.jsonl") == found.certificates
    assert (folder / "certificates.tsv").exists()
    assert sorted(path.name for path in (folder / "figures").iterdir()) == ["certified_accuracy.png", "p_a.png"]


def test_the_worst_class_and_its_certified_accuracy_are_found():
    certificates = report().certificates
    labels, right = certificates.column("label"), certificates.correct & (certificates.radii >= 0.1)
    by_class = {int(label): right[labels == label].mean() for label in np.unique(labels)}
    worst, share = certificates.worst_class(0.1)
    assert share == min(by_class.values()) == by_class[worst]


def compared():
    model, (images, labels) = small_network(), data()
    mixture = certify(model, images, 0.5, labels, rule=MixtureSequence(400), goal=AboveRadii([0.0, 0.1, 0.2]))
    return {"fixed <b>": certify(model, images, 0.5, labels, rule=FixedSample(200)), "mixture $x$": mixture}


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_figures_draw_what_was_found(theme):
    named = compared()
    fixed, mixture = named.values()
    curves = certified_curves(named, theme).axes[0]
    heights = curves.lines[0].get_ydata()
    assert heights[0] == pytest.approx(100 * fixed.certified_accuracy(0))
    assert heights[-1] == 0
    stated = curves.lines[2]
    assert stated.get_xdata().tolist() == [0.0, 0.1, 0.2]
    assert stated.get_ydata() == pytest.approx([100 * mixture.certified_accuracy(r) for r in (0, 0.1, 0.2)])
    bars = p_a_histograms(named, theme)
    counted = [sum(patch.get_height() for patch in axes.patches) for axes in bars.axes]
    assert all(total >= 20 for total in counted)
    draws = draws_per_image(named, theme).axes[0].lines[1]
    assert draws.get_xdata().max() == mixture.column("draws").max()
    assert draws_per_image({"fixed": fixed}, theme) is None


def test_figures_need_no_labels_where_they_show_no_accuracy():
    named = {"a": certify(small_network(), small_images(4), 0.5, rule=FixedSample(100))}
    assert certified_curves(named, LIGHT) is None
    assert set(figures_of(named)) == {"p_a"}
    with pytest.raises(ValueError, match="Accuracy needs labels"):
        _ = next(iter(named.values())).correct


def test_the_page_is_whole_and_escapes_names(tmp_path):
    page = write_page(compared(), (0.0, 0.1), tmp_path).read_text()
    assert "fixed &lt;b&gt;" in page
    assert "fixed <b>" not in page
    assert page.count("<figure") == 3
    assert "ceiling radius" in page
    opened = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: opened.append(tag)
    parser.feed(page)
    assert "script" not in opened
