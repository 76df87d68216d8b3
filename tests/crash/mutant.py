"""Would the auditor notice? `python -m tests.crash.mutant NAME manager …` runs our manager, broken in one place.

`make mutants` tries all of `tests.mutants.table` in one process; these are found under the load of a crash run too.
"""

import sys

from pykueue.cli.main import main
from tests.mutants.table import MUTANTS as ALL

MUTANTS = {
    name: ALL[name]
    for name in (
        "greedy",
        "hasty",
        "forgetful",
        "impatient",
        "generous",
        "silent",
        "leaky",
        "hopeful",
        "untidy",
        "uncounting",
    )
}

if __name__ == "__main__":
    MUTANTS[sys.argv.pop(1)].breaks()
    main()
