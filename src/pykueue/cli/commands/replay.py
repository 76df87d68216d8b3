"""Would it decide the same again? `pykueue replay`: a journal, run once more."""

import sys
from pathlib import Path
from typing import Final

import click
import msgspec

from pykueue.base.text import printable
from pykueue.engine.record.journal import JournalError
from pykueue.engine.record.journal import replay as run_again

SHOWN_MAX: Final = 10


@click.command()
@click.argument("files", nargs=-1, required=True)
def replay(files: tuple[str, ...]) -> None:
    """Decide again, from journals, and compare.

    Each of FILES is run once more, and the first places are shown at which another decision comes out. A journal is
    what `pykueue manager --journal FILE` writes; each file, those set aside included, stands for itself.
    The first line of a journal is the version of its format; a journal of another version is refused.

    \b
    Example:
      pykueue replay journal.jsonl journal.jsonl.1

    Exit codes: 0, the same decisions; 1, others; 2, a file is no journal, or has another format version.
    """
    differs = False
    for file in files:
        try:
            with Path(file).open("rb") as lines:
                # A manager that was killed may have been in the middle of its last line.
                found = list(run_again(line for line in lines if line.endswith(b"\n")))
        except (OSError, JournalError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            click.echo(printable(f"{file}: {reason}"), err=True)
            sys.exit(2)
        for one in found[:SHOWN_MAX]:
            click.echo(f"{file}: line {one.line}")
            click.echo(f"  recorded {msgspec.json.encode(one.recorded).decode()}")
            click.echo(f"  replayed {msgspec.json.encode(one.replayed).decode()}")
        click.echo(f"{file}: {f'{len(found)} decisions differ' if found else 'the same decisions'}")
        differs = differs or bool(found)
    sys.exit(int(differs))
