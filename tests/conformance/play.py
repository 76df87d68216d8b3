"""What does a server answer to a chapter? Its calls are made one after the other, and each answer is kept as a tree."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pykueue.base.struct import Frozen
from tests.conformance.alike import Plain
from tests.conformance.steps import Chapter, Step, filled, found

Tree = dict[str, Any]

AGENT = "conformance"
TRIES = 100


class Asked(Frozen):
    """A call as it is made."""

    verb: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    events: int = 0
    """How many lines of the answer are read, where it is one that does not end by itself."""


class Answer(Frozen):
    """What came back."""

    code: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Server:
    """Something that answers: how, and how an administrator proves to be one there."""

    def __init__(self, answer: Callable[[Asked], Answer], token: str, pause: Callable[[], None]) -> None:
        self.answer = answer
        self.token = token
        self.pause = pause
        """Lets some time pass before the same is asked again."""

    def play(self, chapter: Chapter) -> list[Tree]:
        """The answers to a chapter's calls, in their order, made comparable."""
        known = {"ns": chapter.namespace}
        self.made("POST", "/api/v1/namespaces", {"metadata": {"name": chapter.namespace}})
        plain = Plain()
        told = []
        for step in chapter.steps:
            plain.asked(step.body)
            tree = self.asked(step, known)
            for name, path in step.keep.items():
                values = found(tree["body"], path)
                if not values:
                    raise AssertionError(f"{chapter.name}: {step.what}: no {path} to keep in {tree}")
                known[name] = str(values[0])
            told.append({"what": step.what, **plain.answer(tree)})
        return told

    def made(self, verb: str, target: str, body: Tree) -> None:
        """Do something that is not compared."""
        self.answer(Asked(verb, target, self.headers("application/json", "", None), json.dumps(body).encode()))

    def headers(self, accept: str, content_type: str, token: str | None) -> dict[str, str]:
        token = self.token if token is None else token
        return {
            "Accept": accept,
            "User-Agent": AGENT,
            **({"Content-Type": content_type} if content_type else {}),
            **({"Authorization": f"Bearer {token}"} if token else {}),
        }

    def asked(self, step: Step, known: Mapping[str, str]) -> Tree:
        """What came back, as a tree; asked again as long as the step wants it."""
        target = filled(step.target, known)
        verb = step.verb
        if verb == "WATCH":
            verb, target = "GET", f"{target}{'&' if '?' in target else '?'}watch=1"
        headers = self.headers(step.accept, step.type if step.body else "", step.token)
        call = Asked(verb, target, headers, filled(step.body, known).encode(), step.events)
        for _ in range(TRIES):
            answer = self.answer(call)
            # Nobody sees the body of an answer to HEAD.
            answer = Answer(answer.code, answer.headers, b"") if verb == "HEAD" else answer
            tree = read(answer, stream=step.verb == "WATCH")
            if not awaited(step, tree):
                return tree
            self.pause()
        raise AssertionError(f"{step.what}: does not come: {tree}")


def awaited(step: Step, tree: Tree) -> bool:
    """Whether this is not yet the answer that the step waits for."""
    if step.until is not None:
        inside = tree["body"] if isinstance(tree["body"], dict) else {}
        return step.until.value not in found({**tree, **inside}, step.until.path)
    return step.patient and tree["code"] in (404, 429, 503)


def read(answer: Answer, *, stream: bool) -> Tree:
    """An answer as a tree: its code, what the headers say that matters, and its body."""
    types = [value for name, value in answer.headers if name.lower() == "content-type"]
    warnings = [value for name, value in answer.headers if name.lower() == "warning"]
    tree: Tree = {"code": answer.code, "type": types[0] if types else ""}
    if warnings:
        tree["warnings"] = warnings
    tree["body"] = body(answer.body, stream=stream and answer.code == 200)
    return tree


def body(data: bytes, *, stream: bool) -> Any:
    """A body as a tree, or as a text where it is none."""
    try:
        if stream:
            return [json.loads(line) for line in data.splitlines() if line]
        return json.loads(data) if data else ""
    except ValueError:
        return data.decode(errors="replace")
