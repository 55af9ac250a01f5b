"""The page of one run: everything inside, nothing from outside, nothing unescaped, nothing missing without a word."""

import base64
import io
import json
import re
from html.parser import HTMLParser

import pytest
from matplotlib.image import imread

from continual.energy import estimated_energy
from continual.reports import write_report

OUTSIDE = re.compile(
    r"""(?:src|href|srcset|action|data)\s*=\s*["']?\s*(?!data:)[^"'\s>]+|url\(|@import|https?://""", re.IGNORECASE
)
VOID = {"meta", "link", "img", "source", "br", "hr", "input"}


class Outline(HTMLParser):
    """Check that tags nest, and collect what the tests ask for."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


def outline(path):
    parser = Outline()
    parser.feed(path.read_text(encoding="utf-8"))
    assert parser.open == []
    return parser


def markup_of(page):
    """Keep tags and styles; escaped text holds no angle bracket, so what is left is all that a browser obeys."""
    styles = re.findall(r"<style>.*?</style>", page, re.DOTALL)
    return " ".join([*re.findall(r"<[^>]*>", page), *styles])


def test_the_page_refers_to_nothing_outside_itself(reported_run):
    page = (reported_run / "report.html").read_text(encoding="utf-8")
    assert OUTSIDE.search(markup_of(page)) is None
    assert OUTSIDE.search(markup_of('<p>a</p><img src="x.png">'))  # the pattern does find what it looks for
    assert OUTSIDE.search("<a href=https://a.example>")
    assert OUTSIDE.search("body { background: url(x.png) }")


def test_hostile_strings_are_words_and_not_markup(reported_run):
    parsed = outline(reported_run / "report.html")
    assert "script" not in parsed.tags
    assert all(not key.startswith("on") for _, attributes in parsed.attributes for key in attributes)
    assert parsed.tags.count("img") == 5
    assert "<script>alert(1)</script>" in parsed.text
    assert '"><img src=x onerror=alert(2)>' in parsed.text
    assert "</pre><script>x" in parsed.text


def test_figures_are_inside_in_both_themes_and_beside_as_files(reported_run):
    parsed = outline(reported_run / "report.html")
    images = [attributes for tag, attributes in parsed.attributes if tag == "img"]
    sources = [attributes for tag, attributes in parsed.attributes if tag == "source"]
    files = sorted(path.name for path in (reported_run / "figures").iterdir())
    assert files == [f"{name}.png" for name in (
        "accuracy_matrix", "accuracy_over_time", "layer_activity", "spike_raster", "training_curves"
    )]  # fmt: skip
    assert len(images) == len(sources) == len(files)
    inside = {base64.b64decode(attributes["src"].split(",")[1]) for attributes in images}
    assert inside == {path.read_bytes() for path in (reported_run / "figures").iterdir()}
    for attributes in sources:
        assert attributes["media"] == "(prefers-color-scheme: dark)"
        dark = imread(io.BytesIO(base64.b64decode(attributes["srcset"].split(",")[1])))
        assert dark[0, 0, :3].max() < 0.3


def test_the_page_is_accessible(reported_run):
    parsed = outline(reported_run / "report.html")
    assert ("html", {"lang": "en"}) in parsed.attributes
    assert parsed.tags.count("h1") == 1
    assert parsed.tags.count("main") == 1
    assert all(len(attributes["alt"]) > 30 for tag, attributes in parsed.attributes if tag == "img")
    assert parsed.tags.count("figcaption") == 5
    scopes = [attributes.get("scope") for tag, attributes in parsed.attributes if tag == "th"]
    assert set(scopes) == {"col", "row"}
    assert parsed.tags.count("caption") == parsed.tags.count("table")


def test_headlines_tables_and_glossary_say_the_numbers_of_the_files(reported_run):
    text = outline(reported_run / "report.html").text
    metrics = json.loads((reported_run / "metrics.json").read_text())
    assert f"{100 * metrics['acc_final']:.1f} %" in text
    tile = text[text.index("learning accuracy") : text.index("forgetting")]
    assert "backward transfer" in tile  # never apart
    assert f"{100 * metrics['acc_learning']:.1f} %" in tile
    for words in ("126 k", "41.3 s", "3.00 µJ", "estimate", "hidden.1", "45.9 %", "96.60 %", "tau: 2.0", "palimpsest"):
        assert words in text
    for title in ("captured energy", "worst-case accuracy", "forward transfer", "… task aware, … task agnostic"):
        assert title in text


def test_a_page_can_be_written_of_a_run_that_recorded_little(fake_run):
    folder = fake_run(strategy="naive", spiking=False, num_tasks=1)
    metrics = json.loads((folder / "metrics.json").read_text())
    kept = {key: value for key, value in metrics.items() if key in ("mode", "acc_final", "bwt", "undefined")}
    (folder / "metrics.json").write_text(json.dumps(kept))
    (folder / "records.jsonl").write_text(json.dumps({"event": "run_end", "seconds": 1.0}) + "\n")
    parsed = outline(write_report(folder))
    assert sorted(path.stem for path in (folder / "figures").iterdir()) == ["accuracy_matrix", "accuracy_over_time"]
    assert "needs at least two tasks" in parsed.text
    assert "strategy not recorded" in parsed.text
    assert "Versions and machine The run recorded neither." in parsed.text
    assert "Layers, after the last task" not in parsed.text


def test_an_interrupted_run_says_so(fake_run):
    assert "not finished" in outline(write_report(fake_run(num_tasks=2, finished=False, spiking=False))).text


def test_writing_twice_leaves_the_same_files(fake_run):
    folder = fake_run(num_tasks=2, spiking=False)
    before = write_report(folder).read_bytes()
    names = sorted(path.name for path in folder.rglob("*"))
    assert write_report(folder).read_bytes() == before
    assert sorted(path.name for path in folder.rglob("*")) == names


def test_energy_is_the_stated_sum_and_absent_without_counts():
    assert estimated_energy(1000, 100) == pytest.approx((4.6 * 100 + 0.9 * 1000) * 1e-12)
    assert estimated_energy(1000, None) == pytest.approx(0.9e-9)
    assert estimated_energy(None, None) is None
