"""Hooks of mkdocs, which run in the environment of `make docs`: names of headings, and no requests to other hosts."""

import re
from typing import Any, Final

SHIM: Final = "https://unpkg.com/iframe-worker/shim"
"""What the theme loads from another host so that search works in pages that are opened as files."""
OWN_SHIM: Final = "docs/site/iframe-worker.js"
POLICY: Final = "default-src 'self' file: data: blob: 'unsafe-inline'"
"""The browser itself refuses every request to another host; `file:` is for pages that are opened without a server."""


def slugify(visible: str, separator: str = "-") -> str:
    """The name of a heading, as on Git hosts: lower case, without punctuation, with a separator for each blank."""
    return re.sub(r"[^\w\- ]", "", visible.lower()).strip().replace(" ", separator)


def on_config(config: Any) -> Any:
    """Set how names are derived; YAML without tags of Python cannot name a function."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify
    return config


def on_post_page(output: str, page: Any, config: Any) -> str:
    """A page that loads nothing from other hosts."""
    return closed(output, "../" * page.url.count("/"))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for the page of the error 404."""
    return closed(output_content, "/") if template_name.endswith(".html") else output_content


def closed(html: str, base: str) -> str:
    """A page with a policy against requests to other hosts, and with our copy of the shim."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return re.sub(r"<head>", f"<head>{meta}", html.replace(SHIM, f"{base}{OWN_SHIM}"), count=1)
