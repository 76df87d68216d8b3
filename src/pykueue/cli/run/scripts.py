"""Scripts with options in comments: which file is one, and how its options join those of the command line.

The first word of COMMAND is such a script if it names a file that starts with `#!` and has a line `#PYKUEUE …` or
`#SBATCH …` among the comments and empty lines at its top. Options of the command line take precedence over those of the
file, and lines of `#PYKUEUE` over lines of `#SBATCH`.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from pykueue.base.struct import Frozen
from pykueue.cli.serverstate import fail

READ_BYTES: Final = 64 * 1024
"""How much of a file is searched for options."""
LINE: Final = re.compile(r"#(PYKUEUE|SBATCH)\s+(.*)")
META: Final = "pykueue.script"
"""Where the script is kept for the command."""
EXCLUSIVE: Final = (("time", "timeout"), ("after", "after_ok"), ("memory", "memory_per_cpu"), ("name", "name_prefix"))
"""Options of which one on the command line replaces all in the file."""
ADDED: Final = frozenset(("env", "label"))
"""Options of which those on the command line are added to those in the file."""


class Directive(Frozen):
    """A line with options."""

    line: int
    slurm: bool
    text: str


class Script(Frozen):
    """A script with options in comments."""

    path: str
    interpreter: tuple[str, ...]
    directives: tuple[Directive, ...]

    @property
    def slurm(self) -> bool:
        """Whether it was written for Slurm."""
        return any(one.slurm for one in self.directives)

    def command(self, given: Iterable[str]) -> tuple[str, ...]:
        """The command that runs it: it need not be executable."""
        _, *arguments = given
        return (*self.interpreter, str(Path(self.path).absolute()), *arguments)


def script_at(word: str) -> Script | None:
    """The script that a word names; None if it is no file, or has no options."""
    path = Path(word)
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            content = file.read(READ_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return None
    return read_script(word, content)


def read_script(path: str, content: str) -> Script | None:
    """The script with this content; None if it has no options."""
    first, *rest = content.splitlines() or [""]
    if not first.startswith("#!") or not first[2:].strip():
        return None
    found = []
    for number, line in enumerate(rest, start=2):
        if match := LINE.fullmatch(line.rstrip()):
            found.append(Directive(number, match[1] == "SBATCH", match[2]))
        elif line.strip() and not line.startswith("#"):
            break
    # Linux passes everything after the interpreter as one argument.
    return Script(path, tuple(first[2:].strip().split(maxsplit=1)), tuple(found)) if found else None


def is_missing(word: str, path: str | None) -> bool:
    """Whether there is no file of this name, or no command in this PATH."""
    try:
        return not Path(word).exists() if "/" in word else shutil.which(word, path=path) is None
    except (OSError, ValueError):
        return False


def unrunnable(word: str) -> str:
    """A hint about a file of this name that does not run as a command; empty if there is none."""
    path = Path(word)
    try:
        if not path.is_file() or ("/" not in word and shutil.which(word) is not None):
            return ""
        with path.open("rb") as file:
            head = file.read(4)
    except (OSError, ValueError):
        return ""
    here = word if "/" in word else f"./{word}"
    if head[:2] != b"#!" and head != b"\x7fELF":
        return f"{word} has no #! line; if it does not start, name its interpreter: pykueue run … -- sh {here}"
    if not os.access(path, os.X_OK):
        return f"{word} is not executable; run `chmod +x {here}`, or name its interpreter: pykueue run … -- sh {here}"
    return "" if "/" in word else f"{word} is not in PATH; if you mean the file in this directory, write {here}"


class ScriptCommand(click.Command):
    """A command whose argument COMMAND may be a script with options of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, with the options of a script as defaults."""
        # Parsing consumes the list.
        given = self.make_parser(ctx).parse_args(list(args))[0].get("command")
        script = script_at(given[0]) if isinstance(given, tuple) and given else None
        if script is None:
            return super().parse_args(ctx, args)
        read = self.options_of(ctx, script)
        ctx.meta[META] = script
        ctx.default_map = read
        rest = super().parse_args(ctx, args)
        typed = {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
        for group in EXCLUSIVE:
            if typed & set(group):
                for name in set(group) & (set(read) - typed):
                    ctx.params[name] = () if isinstance(ctx.params[name], tuple) else None
        for name in ADDED & typed & set(read):
            ctx.params[name] = (*read[name], *ctx.params[name])
        return rest

    def options_of(self, ctx: click.Context, script: Script) -> dict[str, Any]:
        """The options of a script by parameter; exits with an error that names the line."""
        found: dict[str, Any] = {}
        for one in sorted(script.directives, key=lambda one: not one.slurm):
            at = f"{script.path}:{one.line}"
            kind = "#SBATCH" if one.slurm else "#PYKUEUE"
            try:
                words = shlex.split(one.text, comments=True)
                if one.slurm:
                    words = self.translate(words, at)
                read = self.make_parser(ctx).parse_args(words)[0]
            except (ValueError, click.UsageError) as error:
                text = error.format_message() if isinstance(error, click.UsageError) else error
                fail(f"{at}: {kind}: {text}")
            if isinstance(read.get("command"), tuple) and read["command"]:
                fail(f"{at}: {kind}: {read['command'][0]!r} is not an option")
            for name, value in read.items():
                if name not in ("command", "help"):
                    found[name] = [*found.get(name, ()), *value] if isinstance(value, list) else value
        return found

    def translate(self, words: list[str], at: str) -> list[str]:
        """The options of `pykueue run` for those of sbatch, with warnings."""
        from pykueue.cli.run.slurm import translated

        found: list[str] = []
        for one in translated(words):
            found += one.words
            if one.warning:
                click.echo(f"{at}: #SBATCH: {one.warning}", err=True)
        return found
