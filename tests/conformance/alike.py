"""In what may two servers differ? In what each makes up for itself; all else is compared.

| what | how it is compared |
| --- | --- |
| identities (`uid`) | numbered as they appear: the same one is the same one |
| versions of objects (`resourceVersion`) | numbered as they appear, so that a write that changes nothing is seen |
| versions of lists and bookmarks, tokens of pages | that they are there: they count the writes of the whole server |
| times | that they are there, to the second or finer |
| ends of made up names | their length and their letters |
| the resources of a version, the causes of a refusal | as sets: a real server lists them in any order |
| managed fields | as a set: a real server lists them by time |
| descriptions of columns | that they are there: nobody prints them |
| the server's address | that it is there |
| ages in tables | that they are there |
| who created a Job or Pod | left out: an annotation of ours, by which a pod runs as the user who asked for it |
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from pykueue.api.names import Annotation

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
STATED = ("2026-01-02T03:0", "2001-01-01T00:00:00Z")
"""Times that a call states itself: they must come back as they were."""
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
OWN_UID = "11111111-2222-3333-4444-555555555555"
"""An identity that a call states itself."""
GENERATE = re.compile(r'"generateName": *"([^"]*)"')
MADE_UP = "[bcdfghjklmnpqrstvwxz2456789]{5}"
LONGEST = 58
"""Letters of the beginning that are kept."""
VERSION = re.compile(r'(ResourceVersion in record \(|"resourceVersion\\*":\\*")(\d+)')
"""Where a message tells of a version."""
STAMP = re.compile(rf'\\?"{re.escape(Annotation.CREATOR)}\\?":\\?"[^"\\]*\\?",?')
"""Our annotation, where a message shows an object."""
EMPTY = re.compile(r',\\?"annotations\\?":\{\}')
FIRST = re.compile(r'(\\?"f:annotations\\?":\{)\\?"\.\\?":\{\},?')
"""Who brought the first annotation: never the client, where there is one of ours before."""
AGE = re.compile(r"^(\d+[smhdy])+$|^<invalid>$|^<unknown>$")


class Plain:
    """Makes the answers of one chapter comparable, in their order."""

    def __init__(self) -> None:
        self.starts: set[str] = set()
        """How names begin that were to be made up."""
        self.uids: dict[str, str] = {}
        self.versions: dict[str, str] = {}

    def answer(self, tree: dict[str, Any]) -> dict[str, Any]:
        """An answer without what differs from server to server."""
        tree = {**tree, "body": without_creator(tree["body"])}
        made: dict[str, Any] = self.plain(tree)
        return made

    def asked(self, body: str) -> None:
        """Note how a name begins that a call wants made up."""
        self.starts.update(start[:LONGEST] for start in GENERATE.findall(body))

    def plain(self, node: Any, key: str = "", of_list: bool = False) -> Any:
        if isinstance(node, dict):
            # Lists, tables and bookmarks have versions of the whole server.
            inside = of_list or ("metadata" in node and any(one in node for one in ("items", "rows")))
            inside = inside or node.get("type") == "BOOKMARK"
            return {
                name: self.plain(value, name, inside and name in ("metadata", "object", "resourceVersion"))
                for name, value in node.items()
            }
        if isinstance(node, list):
            made = [self.plain(value, key, False) for value in node]
            as_set = key in ("managedFields", "causes") or (key == "resources" and is_told(node))
            return sorted(made, key=lambda one: json.dumps(one, sort_keys=True)) if as_set else made
        return self.text(node, key, of_list) if isinstance(node, str) else node

    def text(self, text: str, key: str, of_list: bool) -> str:
        if key == "resourceVersion" and text:
            return "(a version)" if of_list else self.numbered(self.versions, text, "version")
        if key == "continue" and text:
            return "(a token)"
        if key == "description":
            return "(a description)"
        if key == "serverAddress":
            return "(an address)"
        if key == "cells" and AGE.match(text):
            return "(an age)"
        text = TIME.sub(timeless, text)
        text = VERSION.sub(lambda told: told[1] + self.numbered(self.versions, told[2], "version"), text)
        for start in self.starts:
            text = re.sub(f"(?<={re.escape(start)}){MADE_UP}(?![a-z0-9])", "(made up)", text)
        return UID.sub(lambda uid: uid[0] if uid[0] == OWN_UID else self.numbered(self.uids, uid[0], "uid"), text)

    @staticmethod
    def numbered(known: dict[str, str], value: str, word: str) -> str:
        return known.setdefault(value, f"({word} {len(known) + 1})")


def timeless(found: re.Match[str]) -> str:
    """A time as a word, unless a call has stated it."""
    if found[0].startswith(STATED):
        return found[0]
    return "(a fine time)" if found[1] else "(a time)"


def is_told(node: list[Any]) -> bool:
    """Whether these are the resources that a version of a group serves."""
    return all(isinstance(one, dict) and "verbs" in one and "namespaced" in one for one in node)


def without_creator(node: Any) -> Any:
    """A tree without the annotation of ours, and without what holds nothing else."""
    if isinstance(node, list):
        return [without_creator(value) for value in node]
    if isinstance(node, str):
        return FIRST.sub(r"\1", EMPTY.sub("", STAMP.sub("", node)))
    if not isinstance(node, dict):
        return node
    made = {}
    for key, value in node.items():
        if key in (Annotation.CREATOR, f"f:{Annotation.CREATOR}"):
            continue
        kept = without_creator(value)
        if key == "f:annotations":
            kept = {name: one for name, one in kept.items() if name != "."}
        if kept == value or kept not in ({}, {".": {}}):
            made[key] = kept
    return made


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Where two trees differ, one line each."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            here = f"{path}.{key}" if path else key
            if key not in ours:
                yield f"{here}: missing; theirs {theirs[key]!r}"
            elif key not in theirs:
                yield f"{here}: too much; ours {ours[key]!r}"
            else:
                yield from differences(theirs[key], ours[key], here)
    elif isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            yield f"{path}: {len(ours)} elements, theirs {len(theirs)}: ours {ours!r}; theirs {theirs!r}"
            return
        for number, (their, our) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(their, our, f"{path}.{number}")
    elif theirs != ours or type(theirs) is not type(ours):
        yield f"{path}: ours {ours!r}; theirs {theirs!r}"
