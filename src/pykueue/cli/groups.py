"""A group of commands whose errors name the command or option that was probably meant."""

from difflib import get_close_matches
from typing import Any, Final

import click

INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as shells report it."""
OTHER_NAMES: Final = {
    "change": "set",
    "create": "add",
    "del": "remove",
    "delete": "remove",
    "edit": "set",
    "ls": "list",
    "new": "add",
    "renew": "rotate",
    "revoke": "remove",
    "rm": "remove",
    "show": "list",
    "update": "set",
    "validate": "check",
}
"""What other tools call the commands of our groups."""


class Group(click.Group):
    """A group that suggests commands and options; Ctrl-C ends it without a traceback."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command to run; for an unknown name, the error names the one that is meant."""
        name = args[0]
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command {name!r}.{self.suggestion(ctx, name)}")
        return super().resolve_command(ctx, args)

    def suggestion(self, ctx: click.Context, name: str) -> str:
        """What to type in place of an unknown command: one that is close, else all."""
        there = self.list_commands(ctx)
        other = OTHER_NAMES.get(name)
        near = [other] if other in there else get_close_matches(name, there, n=1)
        if near:
            return f" Did you mean pykueue {ctx.info_name} {near[0]}?"
        return f" Use one of: {', '.join(there)}."

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; errors about unknown options only name close ones."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            near = close_options(error.option_name, error.possibilities or ())
            raise click.NoSuchOption(error.option_name, error.message, near, error.ctx) from None
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


def close_options(typed: str, offered: list[str] | tuple[str, ...]) -> list[str]:
    """The options that begin as typed, else those that are close; dashes, which all share, do not count."""
    if begun := [one for one in offered if one.startswith(typed)]:
        return begun
    names = {one.lstrip("-"): one for one in offered}
    return [names[one] for one in get_close_matches(typed.lstrip("-"), names)]
