"""Run CI's steps, and repeat what failed by chance: `python3 -m tests.ci check facts ... --in-time crash-short bench`.

Each step is a `make` target. Two kinds of failure get a second run, alone, at the end of their step:

* tests of a pytest target, when pytest itself ended in order (exit code 1);
* a program that missed nothing but time bounds (exit code `Outcome.LATE`).

CI prints both results and lists what needed the second run. It fails when a second run fails, when more than
`REPEATS_MAX` needed one in a step, and at any other failure. Steps after `--in-time` start only within the first
`START_SECONDS`: on a machine that is several times slower than usual, CI ends with what it could run, and says what it
left out, instead of being killed. Standard library only: this runs before `.venv` exists.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.outcome import Outcome

PYTEST_TARGETS: Final = frozenset({"test", "slow", "e2e"})
REPEATS_MAX: Final = 8
"""A shared machine that is slow for minutes misses several time bounds; a defect fails more, or fails again."""
IN_TIME: Final = "--in-time"
START_SECONDS: Final = 55 * 60
"""Within which the last step starts, so that it ends within 90 minutes on a slow machine; usually all take 45."""
TESTS_FAILED: Final = 1
"""The exit code of a pytest run that went to its end with failed tests."""
CACHE: Final = Path("build/ci")
FAILURE: Final = re.compile(r"^make(?:\[\d+\])?: \*\*\* \[[^]]*?([\w-]+)\] Error (\d+)", re.MULTILINE)
"""How GNU make reports the target that failed and the exit code of its command."""


class Repeat(NamedTuple):
    """Something that failed once, and what its second run gave."""

    step: str
    name: str
    passed: bool

    def __str__(self) -> str:
        return f"{self.name} (make {self.step}): failed, then {'passed' if self.passed else 'failed again'}"


def cache_of(target: str) -> Path:
    """Where a pytest target keeps the list of its failed tests."""
    return CACHE / target


def make(goal: str, arguments: str, root: Path) -> tuple[bool, str]:
    """Run a make goal with `ARGS`, show its output as it comes, and return whether it passed and what it printed on
    standard error."""
    # `-k`: independent targets of a step still run after one fails, so that one run shows every failure.
    command = ["make", "--no-print-directory", "-k", goal, *([f"ARGS={arguments}"] if arguments else [])]
    told = []
    with subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            told.append(line)
    return process.returncode == 0, "".join(told)


def failed_tests(target: str, root: Path) -> list[str]:
    """The ids of the tests that failed in the last run of a pytest target."""
    file = root / cache_of(target) / "v/cache/lastfailed"
    return sorted(json.loads(file.read_text())) if file.exists() else []


def to_repeat(failures: Mapping[str, int], root: Path) -> dict[str, list[str]] | None:
    """What may run again, by target: its failed tests, or itself. None if anything failed for good."""
    found: dict[str, list[str]] = {}
    for target, code in failures.items():
        names = failed_tests(target, root) if target in PYTEST_TARGETS and code == TESTS_FAILED else []
        if code == Outcome.LATE:
            names = [target]
        if not names:
            return None
        found[target] = names
    return found


def run_step(step: str, root: Path) -> tuple[bool, list[Repeat]]:
    """Run a step: whether it passed, and what had to be repeated for that."""
    passed, told = make(step, arguments_of(step), root)
    if passed:
        return True, []
    failures = {target: int(code) for target, code in FAILURE.findall(told)}
    # A target whose prerequisite failed is not reported as an error of its own, so an empty report explains nothing.
    repeatable = to_repeat(failures, root) if failures else None
    if repeatable is None:
        return False, []
    count = sum(map(len, repeatable.values()))
    if count > REPEATS_MAX:
        print(f"--- {count} failures in make {step} are too many to repeat (at most {REPEATS_MAX})", flush=True)
        return False, []
    repeats: list[Repeat] = []
    for target, names in repeatable.items():
        print(f"--- once more, alone: make {target}: {', '.join(names)}", flush=True)
        again = f"-n 0 --last-failed --last-failed-no-failures=none {arguments_of(target)}"
        passed, _ = make(target, again if target in PYTEST_TARGETS else "", root)
        still = set(failed_tests(target, root)) if target in PYTEST_TARGETS else set() if passed else set(names)
        repeats += [Repeat(step, name, name not in still) for name in names]
        if not passed:
            return False, repeats
    return True, repeats


def arguments_of(step: str) -> str:
    """`ARGS` that let a pytest target record its failures; a step without one ignores them."""
    target = "test" if step == "check" else step
    return f"-o cache_dir={cache_of(target)}" if target in PYTEST_TARGETS else ""


def run(steps: list[str], root: Path) -> int:
    """Run the steps in order up to the first that fails; returns the exit code."""
    start = time.monotonic()
    repeats: list[Repeat] = []
    left_out: list[str] = []
    passed = True
    took: dict[str, float] = {}
    in_time = steps.index(IN_TIME) if IN_TIME in steps else len(steps)
    for step in [*steps[:in_time], *steps[in_time + 1 :]]:
        began = time.monotonic()
        if step in steps[in_time:] and began - start > START_SECONDS:
            left_out.append(step)
            continue
        print(f"\n=== make {step} ({began - start:.0f} s so far)", flush=True)
        passed, found = run_step(step, root)
        took[step] = time.monotonic() - began
        repeats += found
        if not passed:
            print(f"\n=== make {step} failed", flush=True)
            break
    print("\n=== " + ", ".join(f"{step} {seconds:.0f} s" for step, seconds in took.items()), flush=True)
    for repeat in repeats:
        print(f"repeated: {repeat}")
    for step in left_out:
        print(f"NOT RUN: make {step}: the steps before it took {START_SECONDS // 60} minutes")
    if passed:
        print(
            f"\n=== {'all' if not left_out else 'all that ran'} passed in {time.monotonic() - start:.0f} s", flush=True
        )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], Path.cwd()))
