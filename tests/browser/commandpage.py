"""The page that `pykueue dashboard` serves, opened as a user opens it."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.cli.machine import SOON


@contextmanager
def opened(process: subprocess.Popen[str], browser: Browser) -> Iterator[Page]:
    """The page of a command that runs with `--no-browser`, opened by the file whose path it prints."""
    assert process.stdout is not None
    try:
        page = browser.new_context(locale="en-US").new_page()
        page.goto(Path(process.stdout.readline().strip()).as_uri())
        expect(page.get_by_role("region", name="Is it full?")).to_be_visible()
        yield page
        page.context.close()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SOON)


def base(page: Page) -> str:
    """The address of the page, to which views are appended."""
    return page.url.partition("#")[0]
