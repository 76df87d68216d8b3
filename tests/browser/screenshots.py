"""Pictures of each view, light and dark, some on a phone: `python -m tests.browser.screenshots FOLDER [NAME…]`."""

import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page

from dashboard.dev.server import KEY, WORLDS, DevServer, now
from tests.browser.chromium import chromium

VIEWS: Final = {
    "overview": ("small", ""),
    "overview-large": ("large", ""),
    "queue": ("small", "#/queue/vision"),
    "job": ("small", "#/job/vision/pretrain-large"),
    "what-if": ("small", "#/whatif?set=clusterqueue%2Fspeech.cpu%3D12"),
    "machine": ("small", "#/machine"),
    "jobs": ("small", "#/jobs"),
    "jobs-large": ("large", "#/jobs"),
}
"""The world and the address of each picture."""
WIDE: Final = {"width": 1280, "height": 800}
PHONE: Final = {"width": 360, "height": 740}
ON_A_PHONE: Final = ("overview", "jobs")
LOADED: Final = "() => !/load(ing|ed)…|estimating…/.test(document.body.innerText)"


def opened(
    browser: Browser,
    server: DevServer,
    address: str = "",
    watch: Callable[[Page], Page] = lambda page: page,
    **options: Any,
) -> Page:
    """The page at an address, with the key of a session."""
    context = browser.new_context(**{"locale": "en-US"} | options)
    context.add_init_script(f"localStorage.setItem('pykueue-key', {KEY!r})")
    page = watch(context.new_page())
    page.goto(server.url + address)
    return page


def take(browser: Browser, folder: Path, names: list[str]) -> None:
    """Write the pictures."""
    servers = {world: DevServer(WORLDS[world](now())) for world in {VIEWS[name][0] for name in names}}
    for name in names:
        world, address = VIEWS[name]
        sizes = {"": WIDE} | ({"-phone": PHONE} if name in ON_A_PHONE else {})
        for (suffix, size), scheme in product(sizes.items(), ("light", "dark")):
            page = opened(browser, servers[world], address, viewport=size, color_scheme=scheme)
            page.wait_for_selector("main .panel, main .table-box")
            page.wait_for_timeout(1000)
            page.wait_for_function(LOADED, timeout=60_000)
            page.screenshot(path=folder / f"{name}{suffix}-{scheme}.png")
            page.context.close()
    for server in servers.values():
        server.finish()


def main() -> None:
    """Write the pictures of all views, or of those that are named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        take(browser, folder, sys.argv[2:] or [*VIEWS])


if __name__ == "__main__":
    main()
