"""What do the tests of the page share? A browser, a server with made-up data, and a page that may report no error."""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pytest
from playwright.sync_api import Browser, Page

from dashboard.dev.server import WORLDS, DevServer, now
from tests.browser import chromium
from tests.browser.screenshots import opened

Open: TypeAlias = Callable[..., Page]
"""Opens a server's page at an address; other arguments are options of a browser context."""

EXPECTED: Final = ("Failed to load resource", "net::ERR_")
"""What a browser writes into its console about refused calls."""
PHONE: Final = {"width": 360, "height": 740}


@pytest.fixture
def browser() -> Iterator[Browser]:
    # One for each test: while a browser is connected, no other event loop can run in this thread.
    with chromium.required() as found:
        yield found


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[DevServer]:
    """A server of the world that `@pytest.mark.parametrize("server", [...], indirect=True)` names, or of the lab."""
    served = DevServer(WORLDS[getattr(request, "param", "small")](now()))
    yield served
    served.finish()


@pytest.fixture
def open_page(browser: Browser, server: DevServer) -> Iterator[Open]:
    problems: list[str] = []

    def watched(page: Page) -> Page:
        page.on("pageerror", lambda error: problems.append(f"{page.url}: {error}"))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
        return page

    def open_(address: str = "", **options: Any) -> Page:
        page = opened(browser, server, address, watch=watched, **options)
        page.wait_for_selector("main h1, main .empty")
        return page

    yield open_
    for context in browser.contexts:
        context.close()
    assert [one for one in problems if not any(part in one for part in EXPECTED)] == []
