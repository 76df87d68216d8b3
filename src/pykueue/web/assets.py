"""The built page: the files of `static/`, in memory, with their compressed forms and ETags."""

import gzip
import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

from pykueue.base.struct import Frozen

STATIC: Final = Path(__file__).parent / "static"
INDEX: Final = "index.html"
ENTER_SCRIPT: Final = "enter.js"
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""Files of other types are not served."""
HASHED: Final = re.compile(r"-[A-Za-z0-9_-]{8,}\.[a-z0-9]+")
"""The end of a name that the build derives from the content."""
COMPRESSIBLE_MIN: Final = 512
"""Smaller files are not worth compressing."""


class Asset(Frozen):
    """A file of the page."""

    body: bytes
    compressed: bytes
    """With gzip; empty if that saves nothing."""
    media: str
    etag: str
    lasting: bool
    """Whether its name changes with its content, so that browsers may keep it."""


@lru_cache(maxsize=1)
def assets(folder: Path = STATIC) -> dict[str, Asset]:
    """The files by their path below the folder."""
    return {path.relative_to(folder).as_posix(): asset_of(path) for path in sorted(folder.rglob("*")) if served(path)}


def served(path: Path) -> bool:
    """Whether a file is one of the page's."""
    return path.suffix in TYPES and path.is_file()


def asset_of(path: Path) -> Asset:
    """A file, read and compressed."""
    body = path.read_bytes()
    compressed = gzip.compress(body, mtime=0) if len(body) >= COMPRESSIBLE_MIN else b""
    compressed = compressed if len(compressed) < len(body) else b""
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return Asset(body, compressed, TYPES[path.suffix], etag, HASHED.search(path.name) is not None)
