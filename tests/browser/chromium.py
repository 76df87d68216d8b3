"""A headless Chromium for tests of the page: Debian's, or the one that `make browser` has fetched."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Error, expect, sync_playwright

from tests.lacking import lacking
from tests.storyfile import ROOT

FETCHED: Final = ROOT / "build/chromium/chromium"
ABSENT: Final = "there is no chromium; `make browser` installs or fetches one"
ARGUMENTS: Final = (
    "--no-sandbox",
    "--no-zygote",
    "--disable-gpu",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
)

PATIENCE_MILLIS: Final = 30_000
"""How long a page may take to show what is expected, on a machine that does other work as well."""

expect.set_options(timeout=PATIENCE_MILLIS)


def program() -> Path | None:
    """The program, if there is one."""
    found = os.environ.get("PYKUEUE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found:
        return Path(found)
    return FETCHED if FETCHED.is_file() else None


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, started; raises `LookupError` if there is none."""
    found = program()
    if found is None:
        raise LookupError(ABSENT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*ARGUMENTS])
        try:
            yield browser
        finally:
            try:
                browser.close()
            except Error as error:
                print(f"chromium: did not close: {error}")


@contextmanager
def required() -> Iterator[Browser]:
    """The browser for a test, which is skipped where there is none; in CI it fails."""
    if program() is None:
        lacking(ABSENT)
    with chromium() as found:
        yield found
