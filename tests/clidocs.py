"""Print docs/cli.md: the help of all commands. `make cli-docs` writes it, and a test compares."""

from collections.abc import Iterator

import click

from pykueue.cli.main import ALIASES, cli

HEAD = """# Commands

The help of every command, as `pykueue COMMAND --help` prints it. This page is generated: `make cli-docs`.
"""
WIDTH = 100


def page() -> str:
    """The whole page."""
    settings = {**cli.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    root = click.Context(cli, info_name="pykueue", **settings)
    return "\n".join([HEAD, *sections(cli, root, 2)])


def sections(group: click.Group, above: click.Context, level: int) -> Iterator[str]:
    """A section for each command of a group, and for those below it."""
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        assert command is not None, name
        ctx = click.Context(command, info_name=name, parent=above, terminal_width=WIDTH, max_content_width=WIDTH)
        ctx.formatter_class = click.HelpFormatter
        also = [other for other, meant in ALIASES.items() if meant == name and above.parent is None]
        names = "".join(f" (or `pykueue {one}`)" for one in also)
        yield f"{'#' * level} {ctx.command_path}{names}\n\n```text\n{help_of(command, ctx)}\n```\n"
        if isinstance(command, click.Group):
            yield from sections(command, ctx, level + 1)


def help_of(command: click.Command, ctx: click.Context) -> str:
    """The help without spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in command.get_help(ctx).splitlines())


if __name__ == "__main__":
    print(page(), end="")
