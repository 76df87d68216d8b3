"""Find what a built site would load from other hosts: `python -m tests.docsite.loads build/site` fails if there is any.

Links that a reader follows are no loads.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from tests.docsite.hooks import POLICY

OUTSIDE: Final = re.compile(r"(?:https?:)?//", re.IGNORECASE)
SCHEME: Final = re.compile(r"//|[a-z][a-z0-9+.-]*:", re.IGNORECASE)
LOADING: Final = ("src", "srcset", "poster", "data", "action", "background")
"""Attributes that make a browser load something, or send something, whatever the element is."""
IN_STYLES: Final = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s;]+)", re.IGNORECASE)
IN_SCRIPTS: Final = re.compile(r"[\"'`]((?:https?:)?//[^\"'`\s]*\.[^\"'`\s]*)[\"'`]")
NEVER_LOADED: Final[Mapping[str, str]] = {
    "https://unpkg.com/mermaid@": "only for diagrams of mermaid, and no page has one",
    "https://unpkg.com/resize-observer-polyfill": "only for browsers of before 2020",
    "https://api.github.com/": "only with a repo_url in mkdocs.yml, and there is none",
    "https://gitlab.com/": "only with a repo_url in mkdocs.yml, and there is none",
}
"""Addresses in the scripts of the theme, by how they begin, with the reason why nothing is requested from them."""


class Loads(HTMLParser):
    """Collects what a page loads from other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.local: list[str] = []
        """What it loads from the site itself."""
        self.policies: list[str] = []
        self.diagrams = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at the attributes of an element."""
        given = {name: value or "" for name, value in attrs}
        self.diagrams |= "mermaid" in given.get("class", "").split()
        if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(given.get("content", ""))
        loading = [given[name] for name in LOADING if name in given]
        if tag == "link" and "canonical" not in given.get("rel", ""):
            loading.append(given.get("href", ""))
        self.found += [value for value in loading if OUTSIDE.match(value.strip())]
        self.local += [value for value in loading if value and not SCHEME.match(value.strip())]
        self.found += IN_STYLES.findall(given.get("style", ""))


def loads(file: Path, site: Path) -> Iterator[str]:
    """What a file of the site makes a browser load from other hosts, and what is missing to prevent it."""
    text = file.read_text(errors="replace")
    match file.suffix:
        case ".html":
            page = Loads()
            page.feed(text)
            yield from (f"loads {found}" for found in page.found)
            yield from (f"loads {found}, which is missing" for found in page.local if not exists(found, file, site))
            if page.policies != [POLICY]:
                yield "has no policy against loads from other hosts"
            if page.diagrams:
                yield "has a diagram of mermaid, for which the theme loads a script; draw it as SVG"
        case ".css":
            yield from (f"loads {found}" for found in IN_STYLES.findall(text))
        case ".js" if file.parent.name == "javascripts":
            for found in IN_SCRIPTS.findall(text):
                if not any(found.startswith(known) for known in NEVER_LOADED):
                    yield f"may load {found}; say in NEVER_LOADED why it does not"


def exists(found: str, page: Path, site: Path) -> bool:
    """Whether a page finds a file of the site."""
    name = unquote(found.partition("#")[0].partition("?")[0])
    return (site / name[1:] if name.startswith("/") else page.parent / name).exists()


def outside(site: Path) -> list[str]:
    """Every load from other hosts of a site, with the file."""
    files = sorted(file for file in site.rglob("*") if file.suffix in (".html", ".css", ".js"))
    return [f"{file.relative_to(site)}: {found}" for file in files for found in loads(file, site)]


if __name__ == "__main__":
    wrong = outside(Path(sys.argv[1]))
    print("\n".join(wrong), file=sys.stderr)
    sys.exit(1 if wrong else 0)
