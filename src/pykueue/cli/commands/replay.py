"""`pykueue replay`: rerun recorded decisions and report those that differ."""

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
    """Replay journals and compare the decisions.

    FILES are journals written with the option --journal of `pykueue manager` or `pykueue up`, including rotated files;
    each is replayed separately. The first decisions that differ from the recorded ones are printed. A journal in
    another version of the format is rejected.

    \b
    Example:
      pykueue replay journal.jsonl journal.jsonl.1

    Exit codes: 0, all decisions are the same; 1, some differ; 2, a file is not a journal or has another version.
    """
    differs = False
    for file in files:
        try:
            with Path(file).open("rb") as lines:
                # A manager that was killed may have left an incomplete last line.
                found = list(run_again(line for line in lines if line.endswith(b"\n")))
        except (OSError, JournalError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            click.echo(printable(f"{file}: {reason}"), err=True)
            sys.exit(2)
        for one in found[:SHOWN_MAX]:
            click.echo(f"{file}: line {one.line}")
            click.echo(f"  recorded {msgspec.json.encode(one.recorded).decode()}")
            click.echo(f"  replayed {msgspec.json.encode(one.replayed).decode()}")
        click.echo(f"{file}: {f'{len(found)} decisions differ' if found else 'all decisions are the same'}")
        differs = differs or bool(found)
    sys.exit(int(differs))
