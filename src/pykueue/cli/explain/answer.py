"""The explanation of an object: from `query.pykueue.io` where it is served, else from what the object itself says."""

from typing import Final
from urllib.parse import quote

import msgspec

from pykueue.api.codec import decode_as
from pykueue.api.core import Tree
from pykueue.api.explanations import PastDecision, Sentence
from pykueue.api.names import WorkloadCondition
from pykueue.api.query import EXPLANATIONS, QUERY_GROUP, QUERY_VERSION
from pykueue.api.trees import mappings, member, text, whole
from pykueue.api.workload import Workload
from pykueue.base.clock import SystemClock
from pykueue.base.struct import Frozen, Wire
from pykueue.base.timers import timeout
from pykueue.bridge.sentences import condition, end_text, held_text
from pykueue.cli.explain.subject import CLUSTER_QUEUE, JOB, LOCAL_QUEUE, RESOURCES, WORKLOAD, Subject
from pykueue.cli.follow.reasons import Preemptors
from pykueue.cli.jobs.explained import unqueued
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.controllers.jobsummaries import queued
from pykueue.kube.client.http import Call, HttpKube
from pykueue.kube.port import DeniedError, KubeError, NotFoundError, UnansweredError

ROOT: Final = f"/apis/{QUERY_GROUP}/{QUERY_VERSION}"
LESS: Final = "; showing the state of the object instead"
UNSERVED: Final = f"this server does not provide {QUERY_GROUP}, like Kueue or an older pykueue{LESS}"
PATIENCE_SECONDS: Final = 10.0
"""A manager that is away is not waited for any longer; an API server tries to reach it for half a minute."""
UNKNOWN: Final = f"the manager has not processed it yet{LESS}"


class Told(Wire):
    """The parts of an answer that are printed."""

    tree: Sentence
    decisions: tuple[PastDecision, ...] = ()
    state: str = ""
    older_decisions: bool = False


class Explained(Frozen):
    """An explanation."""

    told: Told
    document: Tree
    """What json and yaml show."""
    note: str = ""
    """Why it is less than the server might know; empty if it is not."""


TOLD: Final = msgspec.json.Decoder(Told)


async def explained(kube: HttpKube, what: Subject) -> Explained:
    """The explanation of an object; raises `KubeError` if the server does not respond."""
    if what.kind == JOB and what.workload is None:
        return plain(what, Sentence("unqueued", await without_workload(kube, what.tree)), "")
    try:
        async with timeout(PATIENCE_SECONDS):
            body = await asked(kube, what)
    except TimeoutError:
        return await from_object(kube, what, f"the manager does not respond{LESS}")
    except NotFoundError as error:
        return await from_object(kube, what, UNKNOWN if is_about(error, what) else UNSERVED)
    except DeniedError as error:
        if error.code == UNAUTHORIZED:
            raise
        return await from_object(kube, what, f"you may not use this API: {error.message}{LESS}")
    except UnansweredError as error:
        if not error.code:
            raise
        return await from_object(kube, what, f"the manager does not respond: {error.message}{LESS}")
    return Explained(TOLD.decode(body), msgspec.json.decode(body))


async def asked(kube: HttpKube, what: Subject) -> bytes:
    """The answer of the server."""
    kind, name = (WORKLOAD, what.workload_name) if what.workload is not None else (what.kind, what.name)
    within = f"/namespaces/{quote(what.namespace)}" if what.namespace else ""
    plural = RESOURCES[kind].plural
    path = f"{ROOT}{within}/{plural}/{quote(name)}/{EXPLANATIONS}"
    return await kube.call(Call("GET", path, f"explain {plural} {name}", repeatable=True))


def is_about(error: KubeError, what: Subject) -> bool:
    """Whether an error says that the object is not known, rather than that the API is not served."""
    return f'"{what.workload_name or what.name}" not found' in error.message


def plain(what: Subject, tree: Sentence, note: str) -> Explained:
    """An explanation that only has sentences."""
    metadata: Tree = {"name": what.name, **({"namespace": what.namespace} if what.namespace else {})}
    document: Tree = {"metadata": metadata, "tree": msgspec.to_builtins(tree)}
    return Explained(Told(tree), document, note)


async def without_workload(kube: HttpKube, job: Tree) -> str:
    """Why a Job has no Workload."""
    if said := ended(job):
        return said
    if not text(job, "metadata", "labels", "kueue.x-k8s.io/queue-name"):
        return "has no queue name (label kueue.x-k8s.io/queue-name), so it is not queued"
    namespace, name = text(job, "metadata", "namespace"), text(job, "metadata", "name")
    key = f"{namespace}/{name}"
    why = (await unqueued(kube, namespace, {key})).get(key, "")
    return f"is not queued: {why}" if why else "is not queued: it has no Workload yet, or you may not read it"


def ended(job: Tree) -> str:
    """When and how a Job ended; empty if it has not."""
    for _, one in mappings(job, "status", "conditions"):
        if text(one, "type") in ("Complete", "Failed") and text(one, "status") == "True":
            how = end_text(text(one, "type"), text(one, "reason"), text(one, "message"))
            return f"finished at {text(one, 'lastTransitionTime')}: {how}"
    return ""


async def from_object(kube: HttpKube, what: Subject, note: str) -> Explained:
    """What the conditions of an object say."""
    if what.workload is None:
        return plain(what, queue_sentence(what), note)
    tree = what.workload
    found = queued(decode_as(Workload, tree), (), None, "")
    reserved = condition(tree, WorkloadCondition.QUOTA_RESERVED)
    why = held_text(tree) or found.message or found.reason
    if text(reserved, "status") == "False" and not held_text(tree):
        why = await Preemptors(kube, SystemClock()).said(reserved, tree) or why
    head = ended(what.tree) or (f"{found.state}: {why}" if why else f"{found.state}")
    lines = tuple(
        Sentence("condition", f"{text(one, 'lastTransitionTime')} {text(one, 'type')}={text(one, 'status')}: {said}")
        for _, one in sorted(mappings(tree, "status", "conditions"), key=lambda one: text(one[1], "lastTransitionTime"))
        if (said := text(one, "message") or text(one, "reason"))
    )
    return plain(what, Sentence("conditions", head, lines), note)


def queue_sentence(what: Subject) -> Sentence:
    """What a queue's own status says."""
    assert what.kind in (LOCAL_QUEUE, CLUSTER_QUEUE), "only queues have no Workload"
    active = condition(what.tree, "Active")
    state = "is active" if text(active, "status") == "True" else f"does not admit workloads: {text(active, 'message')}"
    counts = ", ".join(
        f"{whole(what.tree, 'status', f'{one}Workloads') or 0} {one}" for one in ("pending", "reserving", "admitted")
    )
    queue = text(what.tree, "spec", "clusterQueue")
    parts = [Sentence("queue", f"its workloads go to ClusterQueue {queue}")] if queue else []
    stop = member(what.tree, "spec", "stopPolicy")
    if isinstance(stop, str) and stop != "None":
        parts.append(Sentence("stopped", f"stopPolicy is {stop}"))
    return Sentence("queue", state, (*parts, Sentence("counts", f"workloads: {counts}")))
