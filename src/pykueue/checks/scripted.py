"""A provisioning class for experiments, whose requests state their outcome in their parameters."""

import re
from collections.abc import Mapping
from typing import Final

from pykueue.api.checks import ProvisioningRequest
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, Seconds, after
from pykueue.checks.provisioning import made_at, since, true
from pykueue.checks.requeststatus import Answer, StatusUpdate, pod_count

SCRIPTED: Final = "scripted.pykueue.io"
DELAY: Final = "delaySeconds"
FAILURES: Final = "failures"
MAX_PODS: Final = "maxPods"
EXPIRE: Final = "expireAfterSeconds"
REVOKE: Final = "revokeAfterSeconds"
DETAILS: Final = "details"
NUMBERS: Final = (DELAY, FAILURES, MAX_PODS, EXPIRE, REVOKE)
KNOWN: Final = (*NUMBERS, DETAILS)
DIGITS_MAX: Final = 9
SHOWN_MAX: Final = 63
DETAILS_MAX: Final = 64
"""The most details that a status can hold."""
NEAR_SECONDS: Final = 10
"""A remaining time this short is not announced again."""
NUMBERED: Final = re.compile(r"-([1-9][0-9]{0,5})$")


class Script(Frozen):
    """The outcome of a request."""

    delay: Seconds = Seconds(0)
    failures: int = 0
    """How many first attempts fail."""
    max_pods: int | None = None
    """A request for more pods fails."""
    expires: Seconds | None = None
    revoked: Seconds | None = None
    details: Mapping[str, str] = {}


def as_scripted(request: ProvisioningRequest, now: Instant) -> Answer:
    """The answer to a request of this class."""
    update = StatusUpdate(request, now)
    if any(true(request, kind) is not None for kind in ("Failed", "CapacityRevoked")):
        return update.answer()
    script, wrong = read_script(request.spec.parameters)
    if wrong:
        update.set_condition("Failed", True, "BadParameters", "; ".join(wrong))
        return update.answer()
    provisioned = true(request, "Provisioned")
    if provisioned is not None:
        return afterwards(update, script, since(provisioned, now))
    update.accept()
    due = after(made_at(request, now), script.delay)
    if now < due:
        left, again = announced(script.delay, due, now)
        update.set_condition("Provisioned", False, "Provisioning", f"ETA {duration_text(left)}")
        return update.answer(again)
    if why := failure(request, script):
        update.set_condition("Failed", True, "ScriptedFailure", why)
        return update.answer()
    update.set_condition("Provisioned", True, "Provisioned", "Capacity is provisioned, as the script says")
    update.detail(script.details)
    return afterwards(update, script, now)


def failure(request: ProvisioningRequest, script: Script) -> str:
    """Why a request fails; empty if it does not."""
    attempt, count = attempt_in(request.name), pod_count(request)
    if attempt <= script.failures:
        return f"Attempt {attempt} fails, as the first {script.failures} do by the script"
    if script.max_pods is not None and count > script.max_pods:
        return f"Capacity for {script.max_pods} of {count} pods is all that the script has"
    return ""


def afterwards(update: StatusUpdate, script: Script, provisioned: Instant) -> Answer:
    """What happens to provisioned capacity: its booking expires, or it is revoked."""
    again: Instant | None = None
    for length, kind, reason, message in (
        (script.expires, "BookingExpired", "CapacityReservationTimeExpired", "Capacity reservation time is expired"),
        (script.revoked, "CapacityRevoked", "ScriptedRevocation", "Capacity is revoked, as the script says"),
    ):
        if length is None:
            continue
        at = after(provisioned, length)
        if at <= update.now:
            update.set_condition(kind, True, reason, message)
        else:
            again = at if again is None else min(again, at)
    return update.answer(again)


def announced(delay: Seconds, due: Instant, now: Instant) -> tuple[Seconds, Instant]:
    """The announced remaining time, and when to announce less: the whole delay at first, then half, and so on."""
    left = delay
    while True:
        less = Seconds(left // 2)
        if less < NEAR_SECONDS:
            return left, due
        at = after(due, Seconds(-less))
        if now < at:
            return left, at
        left = less


def duration_text(seconds: Seconds) -> str:
    """A duration in minutes and seconds."""
    minutes, rest = divmod(seconds, 60)
    parts = [f"{minutes} min"] if minutes else []
    return " ".join([*parts, *([f"{rest} s"] if rest or not minutes else [])])


def attempt_in(name: str) -> int:
    """The attempt number at the end of a request's name; 1 if there is none."""
    found = NUMBERED.search(name)
    return 1 if found is None else int(found[1])


def read_script(parameters: Mapping[str, str]) -> tuple[Script, tuple[str, ...]]:
    """Parse the parameters, and list what is wrong with them."""
    wrong = [
        f'parameter "{name[:SHOWN_MAX]}" is not known; write one of: {", ".join(KNOWN)}'
        for name in sorted(parameters)
        if name not in KNOWN
    ]
    numbers = {name: number(parameters, name, wrong) for name in NUMBERS if name in parameters}
    script = Script(
        Seconds(numbers.get(DELAY, 0)),
        numbers.get(FAILURES, 0),
        numbers.get(MAX_PODS),
        seconds(numbers.get(EXPIRE)),
        seconds(numbers.get(REVOKE)),
        read_details(parameters.get(DETAILS, ""), wrong),
    )
    return script, tuple(wrong)


def seconds(count: int | None) -> Seconds | None:
    """A number as a length of time."""
    return None if count is None else Seconds(count)


def number(parameters: Mapping[str, str], name: str, wrong: list[str]) -> int:
    """A parameter that is a whole number."""
    text = parameters[name]
    if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX:
        return int(text)
    wrong.append(f'parameter "{name}": {text[:SHOWN_MAX]!r} is not a whole number; write digits alone, as in "30"')
    return 0


def read_details(text: str, wrong: list[str]) -> dict[str, str]:
    """Parse the details about the nodes."""
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, is_pair, value = part.partition("=")
        if not key.strip() or not is_pair:
            wrong.append(f'parameter "{DETAILS}": {part[:SHOWN_MAX]!r} is not a pair; write key=value,key=value')
        else:
            found[key.strip()] = value.strip()
    if len(found) > DETAILS_MAX:
        wrong.append(f'parameter "{DETAILS}": has {len(found)} pairs; write {DETAILS_MAX} at most')
    return found
