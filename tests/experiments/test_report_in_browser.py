"""The page of a report in a browser: it opens without complaint, shows its figures, and nothing lies on anything."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from experiments import api
from experiments.engine.plan import Arm, Contrast, make_plan
from experiments.scenario import Scenario

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update"),
    *("--disable-background-networking", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr", "--v=0"),
]

PROBE = """
<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach(fold => fold.open = true);
  const parts = "h1, h2, h3, p, li, caption, th, td, figcaption, img, summary, dt, dd, pre";
  const seen = [...document.querySelectorAll(parts)]
    .filter(part => part.getClientRects().length)
    .map(part => ({part, box: part.getBoundingClientRect()}));
  const overlaps = [];
  seen.forEach((one, at) => seen.slice(at + 1).forEach(other => {
    if (one.part.contains(other.part)) return;
    const wide = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
    const high = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
    if (wide > 1 && high > 1) overlaps.push([one.part.textContent, other.part.textContent]);
  }));
  const found = document.createElement("pre");
  found.id = "found";
  found.textContent = JSON.stringify({
    overlaps: overlaps.slice(0, 5),
    wider: document.documentElement.scrollWidth - innerWidth,
    width: innerWidth,
    blank: [...document.images].filter(image => !image.naturalWidth).map(image => image.alt),
    images: document.images.length,
    lost: [...document.querySelectorAll("nav a")].filter(a => !document.querySelector(a.getAttribute("href"))).length,
  });
  document.body.append(found);
});
</script>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a small comparison in a small market."""
    base = Scenario.load().with_({"weeks": 4, "tenants.rows": 300})
    arms = [Arm("none", base.set("developer_cloud.cap_gpus", 0.0)), Arm("offer, with a comma and $1.99", base)]
    plan = make_plan(
        "in-a-browser", base, arms, seeds=2, contrasts=[Contrast("effect", arms[1].name, "none")], question="Is it so?"
    )
    results = api.carry_out(plan, out=tmp_path_factory.mktemp("page") / "out", workers=1)
    return (results.out / "report.html").read_text(encoding="utf-8")


def opened(page: str, width: int, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What the probe finds in a page, and what the browser complains about."""
    if CHROMIUM is None:
        print("no Chromium on this machine: the report is not opened in a browser")
        pytest.skip("no Chromium on this machine")
    copy = folder / "report.html"
    copy.write_text(page.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}/profile", f"--window-size={width},2000", "--dump-dom"]
    done = subprocess.run([*command, copy.as_uri()], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(html.unescape(re.findall(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)[0]))
    return found, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("width", [1200, 500])
def test_the_page_opens_without_complaint_and_nothing_overlaps(page: str, width: int, tmp_path: Path) -> None:
    found, complaints = opened(page, width, tmp_path)
    assert complaints == []
    assert (found["width"], found["overlaps"], found["blank"], found["lost"]) == (width, [], [], 0)
    assert found["wider"] <= 0
    assert found["images"] >= 7


def test_a_page_with_a_fault_is_noticed(page: str, tmp_path: Path) -> None:
    faults = '<p style="position: absolute; top: 0">over</p><img src="absent.png" alt="lost"><script>nothing()</script>'
    found, complaints = opened(page.replace("<header>", f"<header>{faults}"), 1200, tmp_path)
    assert found["overlaps"]
    assert found["blank"] == ["lost"]
    assert any("nothing is not defined" in line for line in complaints)
