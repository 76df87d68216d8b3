"""The closed list of what the page may ask a server, each with the rights of the session's user."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from pykueue.api.core import Tree
from pykueue.api.previews import CLUSTER_PREVIEW, Preview, PreviewSpec
from pykueue.api.query import CLUSTER_PREVIEWS, QUERY_GROUP, QUERY_VERSION
from pykueue.api.trees import Tree as Looked
from pykueue.api.trees import mapping, mappings, text, whole
from pykueue.cli.dashboard.edits import NAME, apply, diff_of, edited
from pykueue.cli.dashboard.life import life
from pykueue.cli.explain.answer import explained
from pykueue.cli.explain.lines import plain_lines
from pykueue.cli.explain.subject import JOB, KINDS, Subject, SubjectError, subject_of
from pykueue.cli.follow.job import RAN
from pykueue.cli.formats import yaml_text
from pykueue.cli.jobend import pods_of
from pykueue.cli.jobs.chosen import Chosen, Missing, Named, found
from pykueue.cli.jobs.estimates import NO_QUERIES, NOT_SERVED, estimate_of
from pykueue.cli.jobs.logs import place
from pykueue.cli.jobs.verbs import VERBS, cancelled, done_to_jobs, workloads_of
from pykueue.cli.objects import everything
from pykueue.cli.queues.reading import permitted
from pykueue.cli.serverstate import UNAUTHORIZED
from pykueue.kube.client.http import Call, HttpKube, path_of, query
from pykueue.kube.port import EVENTS, PODS, KubeError, NotFoundError, Resource, UnansweredError
from pykueue.web.pages import PLAIN, Asked, PageCall, Said, WebError

CANCEL: Final = "cancel"
ACTS: Final = (CANCEL, "hold", "release")
TAIL_DEFAULT: Final = 1_000
TAIL_MAX: Final = 10_000
PODS_MAX: Final = 20
"""Pods of a job of which output is shown."""
LOG_BYTES: Final = 256 * 1024
"""The most bytes of output; a browser takes long to show more."""
TAILS: Final = ("100", "10", "1")
"""Fewer lines, for output that has more bytes."""
EVENTS_MAX: Final = 100
ETA_QUERY: Final = "arrivals=ignored&runs=40"
ITEMS_MAX: Final = 50
NO_MANAGER: Final = "the manager does not respond; it may be restarting, so try again"
UNREACHED: Final = ("error trying to reach service", "service unavailable")
"""How an API server begins to say that it cannot reach the manager, which answers in its place."""

Kubes: TypeAlias = Callable[[Asked], HttpKube]
"""The server as the user of a session sees it."""


def calls_of(kubes: Kubes, rejected: Callable[[str], None] | None = None) -> dict[str, PageCall]:
    """The calls by name; `rejected` is called when the server rejects the credentials."""

    def call(answer: Callable[[HttpKube, Asked], Awaitable[object]]) -> Callable[[Asked], Awaitable[Said]]:
        async def answered(asked: Asked) -> Said:
            try:
                made = await answer(kubes(asked), asked)
            except KubeError as error:
                if error.code == UNAUTHORIZED and rejected is not None:
                    rejected(error.message)
                raise refusal(error) from error
            except (Missing, SubjectError) as error:
                raise WebError(404, str(error)) from None
            return made if isinstance(made, Said) else Said(msgspec.json.encode(made))

        return answered

    return {
        "explain": PageCall("GET", call(explain)),
        "eta": PageCall("GET", call(eta)),
        "history": PageCall("GET", call(history)),
        "job": PageCall("GET", call(job)),
        "logs": PageCall("GET", call(logs)),
        "diff": PageCall("GET", call(diff)),
        "preview": PageCall("POST", call(preview)),
        "act": PageCall("POST", call(act), acts=True),
        "apply": PageCall("POST", call(applied), acts=True),
    }


def refusal(error: KubeError) -> WebError:
    """An error of the server as the page gets it."""
    if isinstance(error, UnansweredError) and error.code not in (429, 503):
        return WebError(503, "the server does not respond; try again", 1)
    said = error.message or error.reason
    if error.code >= 500 and said.startswith(UNREACHED):
        said = NO_MANAGER
    return WebError(error.code or 502, said, 1 if error.code in (429, 503) else 0)


def name_in(asked: Asked, field: str = "name", *, optional: bool = False) -> str:
    """A name in the query; raises `WebError` if it is not one."""
    found = asked.one(field)
    return found if optional and not found else checked_name(field, found)


def checked_name(field: str, given: str) -> str:
    """The name of an object; raises `WebError` if it is missing or malformed."""
    if not NAME.fullmatch(given):
        raise WebError(400, f"{field}: {given!r} is not the name of an object" if given else f"{field} is missing")
    return given


async def explain(kube: HttpKube, asked: Asked) -> object:
    """Why a job waits, or who holds a queue."""
    kind = asked.one("kind")
    if kind not in KINDS:
        raise WebError(400, f"kind: use one of {', '.join(KINDS)}")
    namespace = name_in(asked, "namespace", optional=kind == "clusterqueue")
    about = await subject_of(kube, namespace, (kind,), name_in(asked))
    answer = await explained(kube, about)
    lines = [*plain_lines(about.title, answer.told.tree), *([f"Note: {answer.note}"] if answer.note else [])]
    return {"lines": lines, "object": answer.document, "note": answer.note}


async def eta(kube: HttpKube, asked: Asked) -> object:
    """When a job starts."""
    namespace = name_in(asked, "namespace")
    about = await found(kube, namespace, Named(name_in(asked)))
    workloads = await workloads_of(kube, namespace, [about])
    if workloads is None:
        raise WebError(403, f"you may not list the Workloads of namespace {namespace}, and estimates are of those")
    try:
        one = await estimate_of(kube, about, text(workloads.get(about.uid, {}), "metadata", "name"), ETA_QUERY)
    except NotFoundError as error:
        if QUERY_GROUP not in error.message:
            raise WebError(404, NOT_SERVED) from None
        raise
    if one is None:
        raise WebError(404, "the job has no Workload yet, so it is not in line")
    return one.status


async def history(kube: HttpKube, asked: Asked) -> object:
    """The life of a job."""
    about = await job_subject(kube, asked)
    answer = await explained(kube, about)
    return life(about.tree, about.workload, answer.told.decisions)


async def job_subject(kube: HttpKube, asked: Asked) -> Subject:
    """The Job that is asked about."""
    return await subject_of(kube, name_in(asked, "namespace"), (JOB,), name_in(asked))


async def job(kube: HttpKube, asked: Asked) -> object:
    """A Job with its Workload, pods and events."""
    about = await job_subject(kube, asked)
    pods, events = await asyncio.gather(
        readable(everything(kube, PODS, about.namespace, labels=pods_of(text(about.tree, "metadata", "uid")))),
        events_of(kube, about),
    )
    return {
        "job": yaml_text(shown(about.tree)),
        "workload": "" if about.workload is None else yaml_text(shown(about.workload)),
        "pods": [pod_row(one) for one in sorted(pods, key=place)],
        "events": events,
    }


async def readable(found: Awaitable[list[Tree]]) -> list[Tree]:
    """Objects; none if this user may not read them."""
    return (await permitted(found))[0] or []


def shown(tree: Tree) -> Tree:
    """An object as people read it."""
    metadata = tree.get("metadata")
    kept = {key: one for key, one in metadata.items() if key != "managedFields"} if isinstance(metadata, dict) else {}
    return {**tree, "metadata": kept}


def pod_row(pod: Tree) -> dict[str, object]:
    """A pod for people."""
    ends = [mapping(one, "state", "terminated") for _, one in mappings(pod, "status", "containerStatuses")]
    ended = next((one for one in ends if one), {})
    return {
        "name": text(pod, "metadata", "name"),
        "phase": text(pod, "status", "phase"),
        "node": text(pod, "spec", "nodeName"),
        "started": text(pod, "status", "startTime"),
        "ended": text(ended, "finishedAt"),
        "exitCode": whole(ended, "exitCode") if ended else None,
        "message": text(pod, "status", "message") or text(ended, "message") or text(ended, "reason"),
    }


async def events_of(kube: HttpKube, about: Subject) -> list[dict[str, str]]:
    """The latest events about a Job and its Workload, the newest first."""
    objects: list[Looked] = [about.tree, *([about.workload] if about.workload is not None else [])]
    uids = {text(one, "metadata", "uid") for one in objects}
    found = await asyncio.gather(
        *(
            readable(
                everything(kube, EVENTS, about.namespace, fields=f"regarding.name={text(one, 'metadata', 'name')}")
            )
            for one in objects
        )
    )
    rows = [event_row(one) for some in found for one in some if text(one, "regarding", "uid") in uids]
    return sorted(rows, key=lambda one: one["at"], reverse=True)[:EVENTS_MAX]


def event_row(event: Tree) -> dict[str, str]:
    """An event for people."""
    return {
        "at": text(event, "eventTime") or text(event, "deprecatedLastTimestamp"),
        "type": text(event, "type"),
        "reason": text(event, "reason"),
        "text": text(event, "note"),
        "about": text(event, "regarding", "kind"),
    }


async def logs(kube: HttpKube, asked: Asked) -> object:
    """The last lines of the output of a job."""
    tail = asked.one("tail") or str(TAIL_DEFAULT)
    if not (tail.isascii() and tail.isdigit() and 0 < int(tail) <= TAIL_MAX):
        raise WebError(400, f"tail: use 1 to {TAIL_MAX} lines")
    about = await found(kube, name_in(asked, "namespace"), Named(name_in(asked)))
    pods = await everything(kube, PODS, about.namespace, labels=pods_of(about.uid))
    ran = sorted((one for one in pods if text(one, "status", "phase") in RAN), key=place)
    shown = ran[-PODS_MAX:]
    most = LOG_BYTES // max(1, len(shown))
    parts = [await log_of(kube, about, one, tail, most, titled=len(ran) > 1) for one in shown]
    if len(ran) > PODS_MAX:
        parts.insert(0, f"== {len(ran) - PODS_MAX} more pods; `pykueue logs {about.name}` prints all ==\n".encode())
    return Said(b"".join(parts), PLAIN)


async def log_of(kube: HttpKube, about: Chosen, pod: Tree, tail: str, most: int, *, titled: bool) -> bytes:
    """The last lines of the output of a pod, of at most so many bytes."""
    name = text(pod, "metadata", "name")
    body = b""
    # A server stops at the limit, so that the last lines are missing: then fewer are asked for.
    for lines in (tail, *(fewer for fewer in TAILS if int(fewer) < int(tail))):
        path = path_of(PODS, about.namespace, name, "log") + query(tailLines=lines, limitBytes=str(most))
        try:
            body = await kube.call(
                Call("GET", path, f"get logs {about.namespace}/{name}", repeatable=True, accept="*/*")
            )
        except NotFoundError:
            break
        if len(body) < most:
            break
    else:
        body += f"\n== this line is longer; `pykueue logs {about.name}` prints all of it ==\n".encode()
    title = f"== pod {name} ==\n".encode() if titled else b""
    return title + body + (b"" if body.endswith(b"\n") or not body else b"\n")


def texts(asked: Asked, field: str) -> tuple[str, ...]:
    """A list of texts in the body; raises `WebError` if it is something else."""
    given = asked.body.get(field, []) if isinstance(asked.body, dict) else None
    if not isinstance(given, list) or len(given) > ITEMS_MAX or not all(isinstance(one, str) for one in given):
        raise WebError(400, f"{field}: give a list of at most {ITEMS_MAX} texts")
    return tuple(given)


async def preview(kube: HttpKube, asked: Asked) -> object:
    """What a change of queues would do."""
    spec = PreviewSpec(set=texts(asked, "set"), delete=texts(asked, "delete"), drain=texts(asked, "drain"))
    if not (spec.set or spec.delete or spec.drain):
        raise WebError(400, "set: name a change, as in clusterqueue/main.cpu=64")
    resource = Resource(QUERY_GROUP, QUERY_VERSION, CLUSTER_PREVIEWS, CLUSTER_PREVIEW)
    body = msgspec.json.encode(Preview(kind=CLUSTER_PREVIEW, spec=spec))
    try:
        answer = msgspec.json.decode(await kube.create(resource, body), type=Preview)
    except NotFoundError:
        raise WebError(404, NO_QUERIES) from None
    if answer.status is None:
        raise WebError(502, "the answer of the server has no status")
    return answer.status


async def act(kube: HttpKube, asked: Asked) -> object:
    """Cancel, hold or release a job."""
    given = fields(asked, ("verb", "namespace", "name"))
    if given["verb"] not in ACTS:
        raise WebError(400, f"verb: use one of {', '.join(ACTS)}")
    for field in ("namespace", "name"):
        checked_name(field, given[field])
    said: list[str] = []
    codes: list[int] = []

    def say(words: str, code: int) -> None:
        said.append(words)
        codes.append(code)

    namespace, wanted = given["namespace"], [Named(given["name"])]
    if given["verb"] == CANCEL:
        await cancelled(kube, namespace, wanted, None, say=say)
    else:
        await done_to_jobs(kube, VERBS[given["verb"]], namespace, wanted, None, say=say)
    message, code = "; ".join(said), max(codes, default=0)
    if code:
        raise WebError(code, message)
    return {"said": message}


def fields(asked: Asked, names: Sequence[str]) -> dict[str, str]:
    """Texts in the body; raises `WebError` if one is missing."""
    body = asked.body if isinstance(asked.body, dict) else {}
    given = {name: body.get(name) for name in names}
    wrong = [name for name, value in given.items() if not isinstance(value, str)]
    if wrong:
        raise WebError(400, f"{', '.join(wrong)}: give a text")
    return {name: str(value) for name, value in given.items()}


async def diff(kube: HttpKube, asked: Asked) -> object:
    """What a change would change in the objects."""
    return diff_of(await edited(kube, tuple(asked.query.get("set", ()))))


async def applied(kube: HttpKube, asked: Asked) -> object:
    """Make a change that was shown."""
    seen = asked.body.get("seen") if isinstance(asked.body, dict) else None
    if not isinstance(seen, Mapping) or not all(isinstance(one, str) for one in seen.values()):
        raise WebError(400, "seen: give the versions that the diff is of")
    return {"said": await apply(kube, texts(asked, "set"), seen)}
