"""Groups of commands: names that a command is also known by, and suggestions for unknown ones."""

from collections.abc import Iterable, Mapping
from typing import Final

import click

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "admissioncheck": ("ac", "admissionchecks"),
    "clusterqueue": ("cq", "clusterqueues"),
    "cohort": ("co", "cohorts"),
    "localqueue": ("lq", "localqueues"),
    "pods": ("po", "pod"),
    "resourceflavor": ("rf", "resourceflavors"),
    "topology": ("topo", "topologies"),
    "workload": ("kwl", "kueueworkload", "kueueworkloads", "workloads", "wl"),
    "workloadpriorityclass": ("wpc", "workloadpriorityclasses"),
}
"""Other names of each type of object: the first is the short one. They are kueuectl's, the plurals, and `wl`."""


def close(name: str, choices: Iterable[str]) -> str:
    """The choice that a misspelt name is close to; empty if none is."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, [*choices], n=1)), "")


def full_name(name: str) -> str:
    """The name of a type of object, given any of its names; the same text if it is unknown."""
    lowered = name.lower()
    return next((full for full, others in ALIASES.items() if lowered == full or lowered in others), name)


class ByType(click.Group):
    """A group with one command for each type of object, which may be called by any name of the type."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command for this type."""
        return super().get_command(ctx, full_name(cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command to run; for an unknown type, the error names the one that is meant."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            known = [one for full in self.commands for one in (full, *ALIASES.get(full, ()))]
            near = close(name, known)
            wanted = f"Did you mean {ctx.command_path} {full_name(near)}?" if near else f"Use {listed(self.commands)}."
            ctx.fail(f"No such command {name!r}. {wanted}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their short names."""
        rows = []
        for name, command in self.commands.items():
            short = "".join(f", {one}" for one in ALIASES.get(name, ())[:1])
            rows.append((f"{name}{short}", command.get_short_help_str(limit=formatter.width)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def listed(names: Iterable[str]) -> str:
    """The names as the end of a sentence: `a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
