"""Webhooks: AdmissionReview and ConversionReview, in and out.

The paths are Kueue's own, including those of kinds that we do not queue, so that existing webhook configurations keep
working. `jobs/admit.py` decides; `endpoints.py` serves this over HTTP.
"""

import asyncio
import base64
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias, TypeVar

import msgspec

from pykueue.api.config.types import FRAMEWORKS
from pykueue.api.convert import V1BETA1, V1BETA2, to_v1beta1, to_v1beta2
from pykueue.api.core import Json, Tree
from pykueue.api.kinds import KINDS
from pykueue.api.names import GROUP, Annotation, Label
from pykueue.api.trees import mapping, text
from pykueue.base.struct import Frozen, Wire
from pykueue.bridge.options import unqueued_kinds
from pykueue.bridge.unbuilt import idle, unbuilt
from pykueue.controllers.endpoints.admission import NotYetError
from pykueue.jobs.admit import Operation, Review, Stage, Strictness, Verdict, admit, json_patch
from pykueue.jobs.admit_batch import controller
from pykueue.jobs.admit_world import AdmitWorld

LOG: Final = logging.getLogger(__name__)

World: TypeAlias = Callable[[str, Mapping[str, object] | None], Awaitable[AdmitWorld]]
"""Returns the cluster state for an object in a namespace, given the reference to its controller."""

ADMISSION: Final = "admission.k8s.io/v1"
CONVERSION: Final = "apiextensions.k8s.io/v1"
CONVERT_PATH: Final = "/convert"
WARNINGS_MAX: Final = 10
ADMISSION_BYTES_MAX: Final = 16 * 1024 * 1024
"""An object of up to 3 MiB, before and after the change, with some characters escaped."""
CONVERSION_BYTES_MAX: Final = 128 * 1024 * 1024
"""A list is converted in one request."""
TURN: Final = 100
"""How many objects are converted before other tasks get their turn."""
MUTATED: Final = ("ClusterQueue", "ResourceFlavor", "Workload")
VALIDATED: Final = (*MUTATED, "Cohort")
CONVERTERS: Final[Mapping[str, Callable[[Tree], Tree]]] = {V1BETA1: to_v1beta1, V1BETA2: to_v1beta2}


UNQUEUED: Final = unqueued_kinds(())
"""The kinds of job that are not built."""
POD: Final = "Pod"


class Hook(Frozen):
    """A webhook path: the kind, and whether it mutates or validates."""

    stage: Stage
    group: str
    kind: str


def hook_paths() -> Mapping[str, Hook]:
    """Every webhook path of Kueue."""
    stored = KINDS["Workload"].versions[0]
    asked: list[tuple[Stage, str, str, str]] = [
        *(("mutate", GROUP, stored, kind) for kind in MUTATED),
        *(("validate", GROUP, stored, kind) for kind in VALIDATED),
    ]
    for framework in FRAMEWORKS.values():
        kind, version, group = framework.split(".", 2)
        asked += [("mutate", group, version, kind), ("validate", group, version, kind)]
    return {
        f"/{stage}-{group.replace('.', '-')}-{version}-{kind.lower()}": Hook(stage, group, kind)
        for stage, group, version, kind in asked
    }


HOOKS: Final = hook_paths()


class GroupVersionKind(Wire):
    """A kind, as a review names it."""

    group: str = ""
    version: str = ""
    kind: str = ""


class WriteOptions(Wire):
    """The options of the write that a review is about."""

    field_validation: Strictness = ""


class AdmissionRequest(Wire):
    """The request of an AdmissionReview."""

    uid: str
    operation: Operation
    kind: GroupVersionKind = GroupVersionKind()
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    new: dict[str, object] | None = msgspec.field(default=None, name="object")
    old: dict[str, object] | None = msgspec.field(default=None, name="oldObject")
    options: WriteOptions | None = None


class AdmissionReview(Wire):
    """The envelope of a question about one object."""

    request: AdmissionRequest
    api_version: str = ""


class ConversionRequest(Wire):
    """The request of a ConversionReview."""

    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[msgspec.Raw] = []
    """Each is decoded, converted and encoded separately: all at once would take several times the body's memory."""


class ConversionReview(Wire):
    """The envelope of a wish for conversion."""

    request: ConversionRequest
    api_version: str = ""


Question = TypeVar("Question", AdmissionReview, ConversionReview)

ADMISSION_REVIEW: Final = msgspec.json.Decoder(AdmissionReview)
CONVERSION_REVIEW: Final = msgspec.json.Decoder(ConversionReview)


class Answer(Frozen):
    """An HTTP response: JSON if successful, otherwise a sentence."""

    status: int
    pieces: tuple[bytes, ...]
    """The body in pieces, not joined since a long list may have a hundred megabytes."""

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.pieces)

    @property
    def content_type(self) -> str:
        """The type of the body."""
        return "application/json" if self.status == 200 else "text/plain"


class QuestionError(ValueError):
    """A request that cannot be decoded; the text says why."""


Perform: TypeAlias = Callable[[Callable[[], Verdict]], Awaitable[Verdict]]


async def at_once(work: Callable[[], Verdict]) -> Verdict:
    """Run the work in place."""
    return work()


class Webhooks:
    """Answers the API server's webhook requests."""

    def __init__(self, world: World, perform: Perform = at_once) -> None:
        self.world = world
        self.perform = perform
        """Runs work that may take long for a large object."""
        self.converting = asyncio.Lock()
        """Held while a long list is converted, so that only one takes memory at a time."""

    async def answer(self, path: str, body: bytes | bytearray) -> Answer:
        """The response for a path; never raises."""
        hook = HOOKS.get(path)
        if hook is None and path != CONVERT_PATH:
            return failure(404, f"{path}: there is no webhook here; Kueue's paths look like /mutate-batch-v1-job")
        try:
            if hook is None:
                async with self.converting if len(body) > ADMISSION_BYTES_MAX else contextlib.nullcontext():
                    return Answer(200, await conversion(question(CONVERSION_REVIEW, CONVERSION, body)))
            review = question(ADMISSION_REVIEW, ADMISSION, body)
            return Answer(200, (msgspec.json.encode(await self.admission(hook, review.request)),))
        except QuestionError as error:
            LOG.warning("webhooks: bad request path=%s error=%s", path, error)
            return failure(400, f"{path}: {error}")
        except Exception:
            # A response contains only what came in as JSON, so this is a bug; the server must get a response anyway.
            LOG.exception("webhooks: request failed path=%s", path)
            return failure(500, f"{path}: internal error; see the log of the manager")

    async def admission(self, hook: Hook, request: AdmissionRequest) -> Json:
        """The response to an AdmissionReview; an internal error is a refusal that says so."""
        if (request.kind.group, request.kind.kind) != (hook.group, hook.kind):
            raise QuestionError(
                f"this path is for {hook.kind} of {hook.group or 'the core group'}, not for {request.kind.kind} of "
                f"{request.kind.group or 'the core group'}; correct the path in the webhook configuration"
            )
        where = f"{request.kind.kind} {request.namespace}/{request.name}".replace(" /", " ")
        try:
            verdict = await self.verdict(hook, request)
        except NotYetError as error:
            LOG.warning("webhooks: not ready object=%s error=%s", where, error)
            return reviewed(request, allowed=False, code=503, reason="ServiceUnavailable", message=str(error))
        except Exception:
            LOG.exception("webhooks: admission failed object=%s", where)
            message = f"internal error while validating {where}; see the log of the manager"
            return reviewed(request, allowed=False, code=500, reason="InternalError", message=message)
        if not verdict.allowed:
            LOG.info("webhooks: refused object=%s message=%s", where, verdict.message)
            return reviewed(request, allowed=False, code=403, reason="Forbidden", message=verdict.message)
        patch = [] if verdict.tree is None else json_patch(request.new or {}, verdict.tree)
        return reviewed(request, allowed=True, code=200, warnings=verdict.warnings, patch=patch)

    async def verdict(self, hook: Hook, request: AdmissionRequest) -> Verdict:
        """The verdict on the object of a request."""
        new, old = request.new or {}, request.old
        review = Review(
            stage=hook.stage,
            operation=request.operation,
            group=hook.group,
            kind=hook.kind,
            new=new,
            old=old,
            subresource=request.sub_resource,
            validation=request.options.field_validation if request.options else "",
        )
        world = await self.world(request.namespace, controller(new))
        return await self.perform(partial(self.judged, hook, request, review, world))

    def judged(self, hook: Hook, request: AdmissionRequest, review: Review, world: AdmitWorld) -> Verdict:
        """The verdict, given everything that it depends on."""
        new, old = review.new, review.old
        verdict = admit(review, world)
        if hook.stage != "validate" or request.operation not in ("CREATE", "UPDATE") or request.sub_resource:
            return verdict
        if not verdict.allowed:
            return verdict
        before = frozenset(notes(hook.kind, old, world)) if old else frozenset()
        noted = tuple(note for note in notes(hook.kind, new, world) if note not in before)
        return msgspec.structs.replace(verdict, warnings=(*verdict.warnings, *noted)[:WARNINGS_MAX])


def is_webhook(path: str) -> bool:
    """Whether there is a webhook at a path."""
    return path in HOOKS or path == CONVERT_PATH


def body_max(path: str) -> int:
    """The largest body of a request at a path."""
    return CONVERSION_BYTES_MAX if path == CONVERT_PATH else ADMISSION_BYTES_MAX


def question(decoder: "msgspec.json.Decoder[Question]", version: str, body: bytes | bytearray) -> Question:
    """Decode the review in the body of a request."""
    try:
        review = decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise QuestionError(f"the body cannot be decoded: {error}; send one review of {version} as JSON") from error
    if review.api_version != version:
        raise QuestionError(f"apiVersion: {review.api_version[:80]!r} is not supported; use {version}")
    return review


def reviewed(
    request: AdmissionRequest,
    *,
    allowed: bool,
    code: int,
    reason: str = "",
    message: str = "",
    warnings: tuple[str, ...] = (),
    patch: list[Json] | None = None,
) -> Json:
    """The AdmissionReview that answers a request."""
    response: Tree = {"uid": request.uid, "allowed": allowed}
    if not allowed:
        response["status"] = {"status": "Failure", "code": code, "reason": reason, "message": message}
    if warnings:
        response["warnings"] = list(warnings)
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    return {"apiVersion": ADMISSION, "kind": "AdmissionReview", "response": response}


def notes(kind: str, tree: Mapping[str, object], world: AdmitWorld) -> Iterator[str]:
    """What an object asks for without effect, each with its path."""
    queue = text(tree, "metadata", "labels", Label.QUEUE)
    if kind in UNQUEUED and world.selected and queue and (kind != POD or controller(tree) is None):
        yield f"metadata.labels[{Label.QUEUE}]: {kind}s are not queued yet; this one counts against no quota"
    yield from unbuilt(kind, tree)
    yield from idle(kind, tree, fair_sharing=world.fair_sharing, past_use=world.past_use)
    if kind == "Job":
        asked = text(tree, "metadata", "annotations", Annotation.ELASTIC_JOB)
        yield from unbuilt("Workload", {"metadata": {"annotations": {Annotation.ELASTIC_JOB.value: asked}}})
        for note in unbuilt("PodTemplate", mapping(tree, "spec", "template")):
            yield f"spec.template.{note}"


async def conversion(review: ConversionReview) -> tuple[bytes, ...]:
    """The response to a ConversionReview: every object in its place, or what is wrong with each."""
    request = review.request
    convert = CONVERTERS.get(request.desired_api_version)
    if convert is None:
        wanted = f"desiredAPIVersion: {request.desired_api_version[:80]!r} is not served; use {V1BETA1} or {V1BETA2}"
        return converted(request, [], [wanted])
    made: list[bytes] = []
    turn = bytearray()
    wrong: list[str] = []
    for index, one in enumerate(request.objects):
        if index % TURN == TURN - 1:
            made.append(bytes(turn))
            turn.clear()
            await asyncio.sleep(0)
        try:
            turn += b"," if index else b""
            turn += msgspec.json.encode(convert(convertible(msgspec.json.decode(one))))
        except QuestionError as error:
            wrong.append(f"objects[{index}]: {error}")
        except Exception:
            LOG.exception("webhooks: conversion failed index=%d version=%s", index, request.desired_api_version)
            wrong.append(f"objects[{index}]: internal error during conversion; see the log of the manager")
    return converted(request, [*made, bytes(turn)], wrong)


def convertible(one: object) -> Tree:
    """The object, if it is of one of our kinds in a served version."""
    if not isinstance(one, dict):
        raise QuestionError(f"is not an object but {type(one).__name__}")
    kind, version = text(one, "kind"), text(one, "apiVersion")
    if kind not in KINDS or version not in KINDS[kind].api_versions or version not in CONVERTERS:
        raise QuestionError(f"{kind[:80] or 'an object without a kind'} of {version[:80] or 'no version'} is unknown")
    return one


def converted(request: ConversionRequest, made: list[bytes], wrong: list[str]) -> tuple[bytes, ...]:
    """The response to a conversion, in pieces; `made` is the inside of a JSON array."""
    result: Tree = {"status": "Failure", "message": "; ".join(wrong)} if wrong else {"status": "Success"}
    response: Tree = {"uid": request.uid, "result": result, "convertedObjects": []}
    envelope = msgspec.json.encode({"apiVersion": CONVERSION, "kind": "ConversionReview", "response": response})
    # The array is the last member of the envelope: its objects go between the brackets.
    head, tail = envelope[:-3], envelope[-3:]
    return (head, *([] if wrong else made), tail)


def failure(status: int, message: str) -> Answer:
    """A response that is not a review."""
    return Answer(status, (f"{message}\n".encode(),))
