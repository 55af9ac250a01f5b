"""The page in a real browser: no error, nothing asked of the network, and the figures on the screen in both themes."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib.image import imread

from continual.reports.style import DARK, LIGHT

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine; Debian has it as the package chromium"),
]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1280,2400",
    "--enable-logging=stderr",
]


def visit(page, folder, *more):
    """Open a page with a new profile and no host name resolvable; return console lines, its requests, the picture."""
    folder.mkdir()
    log, picture = folder / "net.json", folder / "page.png"
    command = [
        BROWSER, *FLAGS, "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={log}", f"--screenshot={picture}", *more, page.resolve().as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    events = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    # The browser's own start-up requests have "not an origin" as their initiator; a page's have an origin.
    asked = {
        entry["url"]
        for entry in events
        if "url" in entry and entry.get("initiator", "not an origin") != "not an origin"
    }
    return console, asked, imread(picture)[..., :3]


def share_of(image, colour):
    wanted = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return float((np.abs(image - wanted).max(axis=-1) < 0.02).mean())


def test_the_page_is_quiet_and_its_figures_are_seen(reported_run, tmp_path):
    console, asked, image = visit(reported_run / "report.html", tmp_path / "light")
    assert console == []
    assert asked == set()
    assert share_of(image, LIGHT.accent) > 1e-4  # the outlines of the diagonal: the heat map was decoded
    assert share_of(image, LIGHT.paper) > 0.3


def test_dark_readers_get_dark_figures(reported_run, tmp_path):
    console, asked, image = visit(
        reported_run / "report.html", tmp_path / "dark", "--blink-settings=preferredColorScheme=0"
    )
    assert (console, asked) == ([], set())
    assert share_of(image, DARK.accent) > 1e-4
    assert share_of(image, DARK.paper) > 0.3
    assert share_of(image, LIGHT.paper) < 0.05


def test_the_check_itself_sees_errors_requests_and_missing_figures(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text('<html><body><img src="http://figures.invalid/x.png"><script>missing()</script></body></html>')
    console, asked, image = visit(bad, tmp_path / "bad")
    assert any("missing is not defined" in line for line in console)
    assert asked == {"http://figures.invalid/x.png"}
    assert share_of(image, LIGHT.accent) == 0.0
