"""Is every page in the navigation of the site, and does nothing on it come from another host?"""

import re
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.docsite import drawings
from tests.docsite.hooks import OWN_SHIM, POLICY, SHIM, on_config, on_post_page, on_post_template, slugify
from tests.docsite.loads import outside
from tests.docsite.pages import pages
from tests.docsite.source import assemble
from tests.storyfile import ROOT

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
PAGE = f'<html><head><meta http-equiv="Content-Security-Policy" content="{POLICY}">%s</head><body>%s</body></html>'


def entries(nav: Any) -> list[str]:
    """The pages of a navigation."""
    if isinstance(nav, str):
        return [nav]
    inner = nav.values() if isinstance(nav, dict) else nav
    return [page for one in inner for page in entries(one)]


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(entries(SITE["nav"])) == pages(ROOT)


def test_the_list_of_decisions_is_complete() -> None:
    text = (ROOT / "docs/adr/README.md").read_text()
    files = [file.name for file in (ROOT / "docs/adr").glob("0*.md")]
    assert [name for name in files if f"({name})" not in text] == []


def test_the_drawings_are_current() -> None:
    written = {file: file.read_text() for file in drawings.files()}
    assert written == drawings.files(), "draw them again: make pages"
    for text in written.values():
        ElementTree.fromstring(text)


def test_the_drawing_of_borrowing_shows_what_the_engine_did() -> None:
    found = drawings.story()
    assert found.quotas == {"left": 4, "right": 4}
    assert [(run.job, run.borrows, run.preempted) for run in found.runs][:2] == [
        ("left-1", False, False),
        ("left-2", True, True),
    ]
    assert "4 borrowed" in drawings.borrowing()


def test_the_drawing_of_fairness_shows_the_shares_that_its_page_explains() -> None:
    found = drawings.shares([10, 30, 50])
    assert [[ceil(values[at]) for values in found.values()] for at in range(3)] == [
        [858, 0, 0],
        [429, 286, 0],
        [143, 143, 143],
    ]
    page = (ROOT / "docs/fairness.md").read_text()
    assert [number for number in ("858", "429 and 286", "the share 143") if number not in page] == []


def test_the_input_of_the_site_has_pages_and_what_they_link_to(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("docs/images", "docs/site", "examples/one"):
        (root / name).mkdir(parents=True)
    (root / "docs/images/a.svg").write_text("<svg/>")
    (root / "examples/one/README.md").write_text("[queues](queues.yaml)")
    (root / "examples/one/queues.yaml").write_text("a: 1\n")
    (root / "docs/page.md").write_text("![a](images/a.svg) [one](../examples/one) [two](../examples/one/README.md)")
    assemble(root, tmp_path / "made")
    made = {file.relative_to(tmp_path / "made").as_posix() for file in (tmp_path / "made").rglob("*") if file.is_file()}
    assert made == {"docs/page.md", "docs/images/a.svg", "examples/one/README.md", "examples/one/queues.yaml"}
    text = (tmp_path / "made/docs/page.md").read_text()
    assert text == "![a](images/a.svg) [one](../examples/one/README.md) [two](../examples/one/README.md)"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        pytest.param("a.html", PAGE % ('<script src="https://x.org/a.js"></script>', ""), "https://x.org", id="script"),
        pytest.param("a.html", PAGE % ('<link rel="stylesheet" href="//x.org/a.css">', ""), "//x.org", id="style"),
        pytest.param("a.html", PAGE % ("", '<img srcset="https://x.org/a.png 2x">'), "https://x.org", id="picture"),
        pytest.param("a.html", PAGE % ("", '<p style="background: url(http://x.org/a)">'), "http://x.org", id="inline"),
        pytest.param("a.html", PAGE % ("", '<pre class="mermaid">'), "draw it as SVG", id="a diagram"),
        pytest.param("a.html", PAGE % ("", '<img src="gone.png">'), "gone.png, which is missing", id="a missing file"),
        pytest.param("a.html", "<html><head></head></html>", "has no policy", id="no policy"),
        pytest.param("a.css", '@import "https://x.org/a.css";', "https://x.org", id="import"),
        pytest.param("a.css", "@font-face { src: url(https://x.org/a.woff) }", "https://x.org", id="font"),
        pytest.param("javascripts/a.js", 'load("https://x.org/a.js")', "may load https://x.org", id="in a script"),
    ],
)
def test_a_load_from_another_host_is_found(name: str, text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    (found,) = outside(tmp_path)
    assert says in found


def test_links_and_files_of_the_site_are_fine(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("p { background: url(b.svg) }")
    (tmp_path / "a.html").write_text(
        PAGE
        % (
            '<link rel="stylesheet" href="a.css?1"><link rel="canonical" href="https://x.org/">',
            '<a href="https://x.org">',
        )
    )
    assert outside(tmp_path) == []


def test_the_hooks_close_every_page() -> None:
    page = SimpleNamespace(url="docs/tasks/quotas.html")
    made = on_post_page(f'<head><script src="{SHIM}">', page, None)
    assert (
        made == f'<head><meta http-equiv="Content-Security-Policy" content="{POLICY}"><script src="../../{OWN_SHIM}">'
    )
    assert POLICY in on_post_template("<head>", "404.html", None)
    assert on_post_template("<urlset>", "sitemap.xml", None) == "<urlset>"
    assert (ROOT / OWN_SHIM).is_file()


def test_headings_are_named_as_on_git_hosts() -> None:
    config = on_config(SimpleNamespace(mdx_configs={}))
    assert config.mdx_configs["toc"]["slugify"] is slugify


def test_the_tools_of_the_site_are_pinned_with_hashes() -> None:
    text = (ROOT / "requirements/docs.txt").read_text()
    packages = re.findall(r"^[a-z0-9-]+==.*$", text, re.MULTILINE)
    assert packages
    assert [one for one in packages if not re.search(rf"{re.escape(one)}\n +--hash=sha256:", text)] == []
    assert "--require-hashes -r requirements/docs.txt" in (ROOT / "Makefile").read_text()
