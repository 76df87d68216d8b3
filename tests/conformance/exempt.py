"""Where may the embedded API answer otherwise than kube-apiserver, and why? Each place is listed."""

import re
from collections.abc import Iterable, Iterator

from pykueue.base.struct import Frozen


class Exempt(Frozen):
    """A place where the answers may differ."""

    chapter: str
    what: str
    """The call in words."""
    where: str
    """A pattern that the path of the difference begins with."""
    why: str


NO_PROTOBUF = "we do not speak it, and say so"
NOT_READY = "no node lifecycle controller is here to take the taint off again"
WHOLE_OBJECT = "the text repeats the object as Go prints it"
NO_UID = "our users have names and no other identity"
OUTSIDE_QUOTA = "an administrator is warned that a pod of its own runs outside the quota"
SUSPENDED_SOON = "our Job controller may write the condition a moment later, so a suspended Job shows as such before"

PODS = (
    ("delete", "a pod on a node"),
    ("delete", "a pod without a node"),
    ("jobs", "a guaranteed pod"),
    ("jobs", "a pod of the system's class"),
    ("jobs", "a pod that may not be placed yet"),
    ("jobs", "a pod with its defaults"),
    ("patch", "a pod to be merged by keys"),
    ("server", "a pod"),
    ("status", "a pod"),
    ("tables", "a pod that failed"),
    ("tables", "a pod that prepares"),
    ("tables", "a pod that runs"),
    ("tables", "a pod whose image is missing"),
    ("tables", "pods"),
)
"""The calls that create a pod, by chapter."""

EXEMPT: tuple[Exempt, ...] = (
    *(Exempt(chapter, what, "warnings: too much; ours .*outside the quota", OUTSIDE_QUOTA) for chapter, what in PODS),
    Exempt("jobs", "nor the template", r"body\.(message|details\.causes)", WHOLE_OBJECT),
    Exempt("jobs", "a command may not", r"body\.(message|details\.causes)", WHOLE_OBJECT),
    Exempt("jobs", "a node may not be chosen by hand", r"body\.(message|details\.causes)", WHOLE_OBJECT),
    Exempt("patch", "strategic on what cannot change", r"body\.(message|details\.causes)", WHOLE_OBJECT),
    Exempt("read", "a form that nobody has", r"body\.message", NO_PROTOBUF),
    Exempt("read", "an unknown shape", r"body\.message", NO_PROTOBUF),
    Exempt("server", "who am I", r"body\.status\.userInfo\.uid", NO_UID),
    Exempt("status", "a node", r"body\.spec\.taints", NOT_READY),
    Exempt("status", "its status", r"body\.spec\.taints", NOT_READY),
    Exempt("tables", "a node", r"body\.spec\.taints", NOT_READY),
    Exempt("tables", "jobs as lines", r"body\.rows\.0\.cells\.1: ours 'Suspended'", SUSPENDED_SOON),
)

OVER_TLS: tuple[Exempt, ...] = (
    *EXEMPT,
    Exempt("read", "an odd verb", "code|type|body", "the parser of HTTP refuses a verb that HTTP does not have"),
)
"""The same where a client stands behind a socket."""


def unexcused(chapter: str, found: Iterable[tuple[str, str]], exempt: tuple[Exempt, ...]) -> Iterator[str]:
    """Of differences, each with the call, those that nothing excuses; and excuses that nothing needs."""
    rules = [one for one in exempt if one.chapter == chapter]
    used = set()
    for what, line in found:
        excuses = [one for one in rules if one.what == what and re.match(one.where, line)]
        used.update(excuses)
        if not excuses:
            yield f"{what}: {line}"
    for one in rules:
        if one not in used:
            yield f"{one.what}: {one.where}: agrees by now; take it out of EXEMPT"
