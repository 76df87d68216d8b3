"""Is the committed bundle what the sources build, small, and free of ways by which data could become markup?"""

import filecmp
import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.lacking import lacking
from tests.storyfile import ROOT

DASHBOARD: Final = ROOT / "dashboard"
STATIC: Final = ROOT / "src/pykueue/web/static"
BUNDLE_KIB_MAX: Final = 150
MARKUP: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerously|createContextualFragment|\beval\("
)
INLINE: Final = re.compile(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", re.IGNORECASE)
EXACT: Final = re.compile(r"\d+\.\d+\.\d+")


def files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_bundle_is_small() -> None:
    sizes = {name: len(gzip.compress(path.read_bytes(), mtime=0)) for name, path in files(STATIC).items()}
    assert sum(sizes.values()) <= BUNDLE_KIB_MAX * 1024, sizes


def test_nothing_in_the_sources_makes_markup_of_text() -> None:
    sources = [path for path in (DASHBOARD / "src").rglob("*") if path.suffix in (".ts", ".tsx")]
    assert len(sources) > 20
    assert [str(path) for path in sources if MARKUP.search(path.read_text())] == []


def test_the_pages_have_no_inline_scripts_or_styles_and_ask_no_other_host() -> None:
    pages = [path.read_text() for name, path in files(STATIC).items() if name.endswith(".html")]
    assert pages
    assert [page for page in pages if INLINE.search(page)] == []
    styles = [path.read_text() for name, path in files(STATIC).items() if name.endswith(".css")]
    assert [text for text in (*pages, *styles) if "//" in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)] == []


def test_versions_are_exact_and_the_lock_file_names_no_host() -> None:
    package = json.loads((DASHBOARD / "package.json").read_text())
    versions = package["dependencies"] | package["devDependencies"]
    assert {name: version for name, version in versions.items() if not EXACT.fullmatch(version)} == {}
    assert sorted(package["dependencies"]) == ["preact", "uplot"]
    lock = json.loads((DASHBOARD / "package-lock.json").read_text())
    assert [name for name, one in lock["packages"].items() if "resolved" in one] == []
    assert [name for name, one in lock["packages"].items() if name and "integrity" not in one] == []


def npm(folder: Path, *words: str) -> None:
    done = subprocess.run(["npm", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.slow("installs npm packages and builds")
def test_a_fresh_build_gives_the_committed_files(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        lacking("there is no npm, which builds the page")
    # A copy with the same layout: the build writes beside its sources.
    copy = tmp_path / "dashboard"
    shutil.copytree(DASHBOARD, copy, ignore=shutil.ignore_patterns("node_modules", "dev", "__pycache__"))
    npm(copy, "ci", "--no-audit", "--no-fund")
    npm(copy, "run", "check")
    npm(copy, "test")
    npm(copy, "run", "build")
    built, committed = files(tmp_path / "src/pykueue/web/static"), files(STATIC)
    assert [*built] == [*committed], "run `make page` and commit what it writes"
    differ = [name for name in built if not filecmp.cmp(built[name], committed[name], shallow=False)]
    assert differ == [], "run `make page` and commit what it writes"
