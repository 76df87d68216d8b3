"""Run kubectl against the server that our own rule chooses, for commands that it does better."""

import os
import shutil
from collections.abc import Sequence
from typing import NoReturn

import click

from pykueue.cli.kueuectl.typenames import ALIASES, full_name
from pykueue.cli.serverstate import fail

CHOOSING = ("kubeconfig", "context", "data")


class PassedOn(click.Command):
    """A command whose words go to kubectl as they are; it shows our own help if that is the first word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take all words."""
        if not ctx.resilient_parsing and (not args or args[0] in ctx.help_option_names):
            return super().parse_args(ctx, ["--help"])
        ctx.params = {"words": tuple(args)}
        return []


def split(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The options that choose a server, and the other words."""
    chosen: dict[str, str] = {}
    rest: list[str] = []
    left = [*words]
    while left:
        word = left.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if word == "--":
            rest += [word, *left]
            break
        if not word.startswith("--") or name not in CHOOSING:
            rest.append(word)
        elif equals:
            chosen[name] = value
        elif left:
            chosen[name] = left.pop(0)
        else:
            fail(f"Option {word!r} requires an argument.")
    return chosen, rest


def qualified(word: str) -> str:
    """A type of Kueue with its group: newer versions of Kubernetes have a Workload of their own."""
    typed, slash, name = word.partition("/")
    full = full_name(typed)
    if full not in ALIASES or full == "pods":
        return word
    plural = next(one for one in ALIASES[full] if one.endswith("s") and not one.startswith("kueue"))
    return f"{plural}.kueue.x-k8s.io{slash}{name}"


def run(verb: str, words: Sequence[str]) -> NoReturn:
    """Replace this process by kubectl; exits with code 1 if it is not installed."""
    choosing, rest = split(words)
    program = shutil.which("kubectl")
    if program is None:
        fail(
            f"`pykueue {verb}` runs `kubectl {verb}`, and kubectl is not on PATH; install it, or use `pykueue "
            "list`, which does not need kubectl and prints objects with -o yaml",
            1,
        )
    from pykueue.cli.target import VARIABLE, chosen

    target = chosen(choosing.get("kubeconfig"), choosing.get("context"), choosing.get("data"))
    context = ["--context", target.context] if target.context else []
    files = [os.path.abspath(file) for file in target.files]
    server = ["--kubeconfig", files[0]] if len(files) == 1 else []
    environment = {**os.environ, VARIABLE: os.pathsep.join(files)}
    # The first word is the type, unless options come before it.
    named = [qualified(rest[0]), *rest[1:]] if rest else []
    os.execve(program, ["kubectl", *server, *context, verb, *named], environment)
