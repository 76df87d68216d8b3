"""Every object of an installation, in an order that `kubectl apply` can use.

The parts are in `crds`, `rbac`, `webhooks`, `visibility` and `deployment`; their parameters are `install.Install`.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

import yaml

from pykueue.api.core import Tree
from pykueue.api.install.crds import crds
from pykueue.api.install.deployment import configured, deployed, flow, namespaced
from pykueue.api.install.install import Install
from pykueue.api.install.rbac import rbac
from pykueue.api.install.visibility import visibility, visibility_flow
from pykueue.api.install.webhooks import webhooks

PARTS: Final[dict[str, Callable[[Install], tuple[Tree, ...]]]] = {
    "namespace": namespaced,
    "crds": lambda install: crds(install.namespace, install.service),
    "rbac": rbac,
    "flow": flow,
    "config": configured,
    "manager": deployed,
    "visibility": visibility,
    "webhooks": webhooks,
}
"""The parts of an installation. The webhooks are last, since from then on the server calls the manager."""
OPTIONAL: Final[dict[str, Callable[[Install], tuple[Tree, ...]]]] = {"visibility-apf": visibility_flow}
"""Parts that are printed only if they are named."""


class Writer(yaml.SafeDumper):
    """Writes YAML with long texts as blocks and without anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """Write repeated values out in full."""
        return True


def text_node(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A text, as a block if it has several lines."""
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Writer.add_representer(str, text_node)


def manifests(install: Install, only: Collection[str] = PARTS) -> tuple[Tree, ...]:
    """Every object of an installation, or of some of its parts."""
    return tuple(tree for part, make in (PARTS | OPTIONAL).items() if part in only for tree in make(install))


def rendered(trees: Iterable[Tree]) -> str:
    """The objects as one YAML text; the output is deterministic."""
    return "".join(f"---\n{yaml.dump(tree, Dumper=Writer, sort_keys=False, width=120)}" for tree in trees)
