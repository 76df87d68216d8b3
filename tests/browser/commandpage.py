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


def apply_quota(page: Page, queue: str, cpu: int) -> None:
    """Preview a quota with which one job would start, and apply it."""
    page.goto(f"{base(page)}#/whatif?set=clusterqueue%2F{queue}.cpu%3D{cpu}")
    expect(page.get_by_text("1 would start")).to_be_visible()
    page.get_by_role("button", name="Review and apply…").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"nominalQuota: '{cpu}'")
    page.get_by_role("button", name="Apply change").click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def base(page: Page) -> str:
    """The address of the page, to which views are appended."""
    return page.url.partition("#")[0]
