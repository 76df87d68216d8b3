"""Parses condition messages, as `wording` writes them, back into reasons."""

import re
from collections.abc import Callable
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import QuantityError, amount_of, parse_quantity
from pykueue.engine.decisions import (
    FlavorMissing,
    Mismatch,
    NotNominated,
    Obstacle,
    OverCapacity,
    PodSetObstacles,
    PreemptionReason,
    Short,
    Unassigned,
    Uncovered,
    Untolerated,
)
from pykueue.engine.wording import CLAUSE

POD_SET: Final = re.compile(r"couldn't assign flavors to pod set (?P<name>\S+): ")
OBSTACLES: Final[tuple[tuple[Callable[..., Obstacle], re.Pattern[str]], ...]] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (Uncovered, r"resource (?P<resource>\S+) unavailable in ClusterQueue"),
        (FlavorMissing, r"flavor (?P<flavor>\S+) not found"),
        (
            Untolerated,
            r"untolerated taint {(?P<key>\S*) (?P<value>\S*) (?P<effect>\S*) <nil>} "
            r"in flavor (?P<flavor>[^\s,;]*[^\s,;.])",
        ),
        (Mismatch, r"flavor (?P<flavor>\S+) doesn't match node affinity"),
        (
            OverCapacity,
            r"insufficient quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), "
            r"previously considered podsets requests \((?P<earlier>[^)]+)\) "
            r"\+ current podset request \((?P<request>[^)]+)\) > maximum capacity \((?P<capacity>[^)]+)\)",
        ),
        (
            Short,
            r"insufficient unused quota for (?P<resource>\S+) in flavor (?P<flavor>\S+), (?P<missing>\S+) more needed",
        ),
        (
            NotNominated,
            r"skipping flavor (?P<flavor>\S+) as it is not found in the nomination mapping for resource "
            r"(?P<resource>[^\s,;]*[^\s,;.])",
        ),
    )
)
AMOUNTS: Final = ("earlier", "request", "capacity", "missing")
VICTIMS: Final = re.compile(r"\. Pending the preemption of (\d+) workload\(s\)")
PREEMPTED: Final = re.compile(
    r"Preempted to accommodate a workload \(UID: (?P<uid>\S+), JobUID: (?P<job>\S+)\) due to (?P<clause>[^;]+); "
    r"preemptor path: (?P<path>\S+); preemptee path: \S+"
)
UNKNOWN: Final = "UNKNOWN"


class Preemption(Frozen):
    """The preemptor of a workload, as far as the message states it."""

    uid: str
    """The preemptor's; empty where it is not known."""
    job_uid: str
    clause: PreemptionReason
    queue: str
    """The preemptor's ClusterQueue."""


def unassigned(message: str) -> Unassigned | None:
    """Why flavors do not fit; None where the message says something else."""
    found: list[PodSetObstacles] = []
    at = 0
    while head := POD_SET.match(message, at):
        at = head.end()
        obstacles: list[Obstacle] = []
        while one := obstacle(message, at):
            obstacles.append(one[0])
            at = one[1]
            if not message.startswith(", ", at):
                break
            at += 2
        found.append(PodSetObstacles(head["name"], tuple(obstacles)))
        if not obstacles or not message.startswith("; ", at):
            break
        at += 2
    victims = VICTIMS.match(message, at)
    if not found or (at if victims is None else victims.end()) != len(message):
        return None
    return Unassigned(tuple(found), victims=0 if victims is None else int(victims[1]))


def obstacle(message: str, at: int) -> tuple[Obstacle, int] | None:
    """The obstacle at this position of the message, and the position after it."""
    for kind, pattern in OBSTACLES:
        matched = pattern.match(message, at)
        if matched is None:
            continue
        words: dict[str, str] = matched.groupdict()
        numbers = [name for name in AMOUNTS if name in words]
        try:
            amounts = {name: amount_of(words["resource"], parse_quantity(words.pop(name))) for name in numbers}
        except QuantityError:
            return None
        return kind(**words, **amounts), matched.end()
    return None


def preemption(message: str) -> Preemption | None:
    """For whom a workload was preempted; None where the message says something else."""
    matched = PREEMPTED.fullmatch(message)
    clause = (
        None if matched is None else next((one for one, words in CLAUSE.items() if words == matched["clause"]), None)
    )
    if matched is None or clause is None:
        return None
    uid, job = ("" if matched[name] == UNKNOWN else matched[name] for name in ("uid", "job"))
    return Preemption(uid, job, clause, matched["path"].rpartition("/")[2])
