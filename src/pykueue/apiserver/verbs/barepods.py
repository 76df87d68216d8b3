"""Refuses Pods that would run outside the quota.

Only Jobs are queued. A Pod that anyone but the controllers of this server creates holds no quota, whatever owner it
names, and takes capacity from jobs that do.
"""

from typing import Final

from pykueue.api.core import Tree
from pykueue.api.names import Annotation, Label
from pykueue.api.trees import mapping, text
from pykueue.apiserver.verbs.admission import AdmissionCall
from pykueue.apiserver.wire.statuserrors import forbidden

OUTSIDE: Final = (
    "only Jobs are queued here, plain pods and pod groups are not yet, so this pod would run outside the quota; "
    "create a Job instead"
)
OUTSIDE_ALLOWED: Final = (
    "this pod runs outside the quota: only Jobs are queued here, plain pods and pod groups are not yet"
)


def names_queue(pod: Tree) -> bool:
    """Whether a Pod names a queue or a pod group."""
    labels, annotations = mapping(pod, "metadata", "labels"), mapping(pod, "metadata", "annotations")
    return any(labels.get(key) for key in (Label.QUEUE, Label.POD_GROUP)) or bool(annotations.get(Annotation.POD_GROUP))


def judge(call: AdmissionCall) -> tuple[str, ...]:
    """Warnings about a Pod that a user writes; raises `StatusError` to refuse it."""
    if not call.served.strategy.takes_capacity:
        return ()
    queued = names_queue(call.new)
    if call.operation == "UPDATE" and (not queued or (call.old is not None and names_queue(call.old))):
        return ()
    if queued or not call.who.admin:
        raise forbidden(call.served.resource, text(call.new, "metadata", "name"), OUTSIDE)
    return (OUTSIDE_ALLOWED,)
