"""What is to be simulated? Judged manifests as a cluster, and as jobs that arrive in it and behave as annotated."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api import rules
from pykueue.api.checks import AdmissionCheck
from pykueue.api.codec import DecodeError, decode_as
from pykueue.api.config import NAMESPACE_NAME_LABEL
from pykueue.api.configfile import ConfigurationError, Loaded, default_configuration, read_configuration
from pykueue.api.convert import V1BETA1
from pykueue.api.core import Namespace, Tree
from pykueue.api.durations import DurationError, Micros, parse_duration
from pykueue.api.fields import FieldError, invalid
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass
from pykueue.api.names import DEFAULT_QUEUE, Label
from pykueue.api.pods import Job, LimitRange, RuntimeClass
from pykueue.api.schema import defaults
from pykueue.api.unbuilt import unbuilt
from pykueue.api.workload import Workload
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, format_instant, parse_instant
from pykueue.bridge import inbound, jobs
from pykueue.bridge.options import options, resource_config
from pykueue.engine import model
from pykueue.sim.manifests import Document, Mistake, Object, documents, is_configuration, objects

RUN: Final = "pykueue.io/run-seconds"
ARRIVAL: Final = "pykueue.io/arrival"
READY: Final = "pykueue.io/ready-seconds"
STOP: Final = "pykueue.io/stop-seconds"
CHECKPOINT: Final = "pykueue.io/checkpoint"
ANSWER: Final = "pykueue.io/check"
PREFIX: Final = "pykueue.io/"
OF_A_JOB: Final = (RUN, ARRIVAL, READY, STOP, CHECKPOINT)

ANSWERS: Final = ("ready", "pending", "retry", "rejected")
NEVER: Final = "never"
RUN_DEFAULT: Final = Micros(60_000_000)
START: Final = parse_instant("2026-01-01T00:00:00Z")
SHOWN_MAX: Final = 3
"""Names that a note lists."""


class Plan(Frozen):
    """How a job behaves: when its pods are ready once it may start, how long it runs, how long it takes to stop."""

    run: Micros = RUN_DEFAULT
    ready: Micros | None = Micros(0)
    """None: never."""
    stop: Micros = Micros(0)
    checkpoint: bool = False
    """Whether an evicted job goes on where it was; otherwise it starts over."""


class Arrival(Frozen):
    """A workload, when it comes, and how its job behaves."""

    at: Instant
    workload: model.Workload
    plan: Plan
    name: str
    """What the user calls it: the job's name, or that of a Workload of its own."""


class Trace(Frozen):
    """All that a simulation needs."""

    start: Instant
    options: model.Options
    things: tuple[model.Thing, ...]
    arrivals: tuple[Arrival, ...]
    answers: Mapping[str, str] = {}
    """What each AdmissionCheck says: one of ANSWERS."""
    notes: tuple[str, ...] = ()


class Setting(Frozen):
    """What the user says beside the manifests."""

    configuration: tuple[str, bytes] | None = None
    """The name and text of a Configuration file."""
    feature_gates: str = ""
    seed: int = 0
    start: Instant = START


class Invalid(ValueError):
    """Manifests that cannot be simulated, with every reason."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = tuple(mistakes)


def read(files: Iterable[tuple[str, bytes]], setting: Setting | None = None) -> Trace:
    """The simulation that these files describe, or `Invalid` with everything that is wrong with them."""
    setting = setting or Setting()
    found: list[Document] = []
    mistakes: list[Mistake] = []
    for file, raw in files:
        read_here, errors = documents(file, raw)
        found += read_here
        mistakes += errors
    loaded = configuration_of(setting, [one for one in found if is_configuration(one)], mistakes)
    judged, errors = objects([one for one in found if not is_configuration(one)], loaded.gates.values)
    mistakes += errors
    builder = Reader(loaded, setting)
    builder.take(judged, mistakes)
    if mistakes:
        raise Invalid(mistakes)
    return builder.trace()


def configuration_of(setting: Setting, found: list[Document], mistakes: list[Mistake]) -> Loaded:
    """The Configuration, from the file that was named for it or from among the manifests."""
    sources = [] if setting.configuration is None else [setting.configuration]
    sources += [(one.where, msgspec.json.encode(one.tree)) for one in found]
    for where, _ in sources[1:]:
        mistakes.append(Mistake(where, f"a second Configuration beside {sources[0][0]}; keep one"))
    try:
        if not sources:
            where = "--feature-gates"
            return default_configuration(feature_gates=setting.feature_gates)
        where, text = sources[0]
        loaded = read_configuration(text, feature_gates=setting.feature_gates)
    except ConfigurationError as error:
        mistakes += (Mistake(where, str(one).removeprefix("--feature-gates: ")) for one in error.mistakes)
        return default_configuration()
    mistakes += (Mistake(where, str(one)) for one in unbuilt(loaded.configuration))
    return loaded


class Reader:
    """Turns judged objects into a trace."""

    def __init__(self, loaded: Loaded, setting: Setting) -> None:
        self.loaded = loaded
        self.setting = setting
        self.things: list[model.Thing] = []
        self.arrivals: list[Arrival] = []
        self.answers: dict[str, str] = {}
        self.notes: list[str] = list(loaded.warnings)
        self.namespaces: dict[str, model.Namespace] = {}
        self.classes: dict[str, int] = {}
        self.limit_ranges: dict[str, list[LimitRange]] = {}
        self.runtime_classes: dict[str, RuntimeClass] = {}
        self.default_queues: set[str] = set()
        self.guessed: list[str] = []

    def take(self, judged: Sequence[Object], mistakes: list[Mistake]) -> None:
        """Read all objects: first the cluster, then the jobs in it."""
        for one in judged:
            self.take_cluster(one, mistakes)
        for one in judged:
            if isinstance(one.view, Job):
                self.take_job(one, one.view, mistakes)
            elif isinstance(one.view, Workload):
                self.take_workload(one, one.tree, one.key, mistakes)
            self.note_strangers(one)
        old = [f"{one.kind} {one.key}" for one in judged if one.document.tree.get("apiVersion") == V1BETA1]
        if old:
            self.notes.append(f"v1beta1 is deprecated; write v1beta2 in {listed(old)}")
        for one in judged:
            if one.namespace:
                self.namespaces.setdefault(one.namespace, named_namespace(model.Namespace(one.namespace)))

    def take_cluster(self, one: Object, mistakes: list[Mistake]) -> None:
        """Read an object that jobs depend on."""
        match one.view:
            case Namespace() as view:
                self.namespaces[one.name] = named_namespace(inbound.namespace(view))
            case ResourceFlavor() as view:
                self.things.append(inbound.flavor(view))
            case Cohort() as view:
                self.things.append(inbound.cohort(view))
            case ClusterQueue() as view:
                self.things.append(inbound.cluster_queue(view))
            case LocalQueue() as view:
                self.things.append(replace(inbound.local_queue(view), key=one.key))
                if one.name == DEFAULT_QUEUE:
                    self.default_queues.add(one.namespace)
            case AdmissionCheck() as view:
                self.take_check(one, view, mistakes)
            case WorkloadPriorityClass() as view:
                self.classes[one.name] = view.value
            case LimitRange() as view:
                self.limit_ranges.setdefault(one.namespace, []).append(view)
            case RuntimeClass() as view:
                self.runtime_classes[one.name] = view

    def take_check(self, one: Object, view: AdmissionCheck, mistakes: list[Mistake]) -> None:
        """Read an AdmissionCheck: active unless it says otherwise, and how it answers."""
        said = any(condition.type == "Active" for condition in view.status.conditions)
        check = inbound.check(view)
        self.things.append(check if said else replace(check, active=True))
        answer = one.annotations.get(ANSWER, ANSWERS[0]).lower()
        self.answers[one.name] = answer
        if answer not in ANSWERS:
            note(
                mistakes, one, invalid(f"metadata.annotations[{ANSWER}]", answer, f"write one of: {', '.join(ANSWERS)}")
            )

    def take_job(self, one: Object, job: Job, mistakes: list[Mistake]) -> None:
        """Read a Job as the workload that is queued for it."""
        default_class = self.loaded.gates.values["WorkloadPriorityClassDefaulting"]
        place = jobs.Place(one.namespace in self.default_queues, self.classes, default_class)
        if not jobs.queue_of(job, place) and not self.loaded.configuration.manage_jobs_without_queue_name:
            label = f"it has no label {Label.QUEUE}, so it is not queued"
            self.notes.append(f"Job {one.key} is left out: {label}")
            return
        if not job.metadata.uid:
            job = replace(job, metadata=replace(job.metadata, uid=made_up_uid("Job", one.key)))
        job = replace(job, metadata=replace(job.metadata, namespace=one.namespace))
        tree, errors = jobs.workload_tree(one.tree, job, place)
        if not errors:
            errors = rules.check("Workload", tree, gates=self.loaded.gates.values)
        if errors:
            for error in errors:
                note(
                    mistakes, one, replace(error, path=error.path.replace("spec.podSets[0].template", "spec.template"))
                )
            return
        self.take_workload(one, tree, one.key, mistakes)

    def take_workload(self, one: Object, tree: Tree, name: str, mistakes: list[Mistake]) -> None:
        """Read a Workload and how its job behaves."""
        around = inbound.Surroundings(
            resource_config(self.loaded.configuration),
            tuple(sorted(self.limit_ranges.get(one.namespace, ()), key=lambda found: found.metadata.name or "")),
            self.runtime_classes,
        )
        try:
            view = decode_as(Workload, defaults(Workload, tree))
        except DecodeError as error:
            mistakes.append(Mistake(one.document.where, str(error), one.document.called))
            return
        view = replace(view, metadata=replace(view.metadata, namespace=one.namespace))
        workload = inbound.workload(view, around)
        if not self.loaded.gates.values["AdmissionGatedBy"]:
            workload = replace(workload, gated_by="")
        if not workload.uid:
            workload = replace(workload, uid=made_up_uid("Workload", workload.key))
        plan, errors = plan_of(one.annotations)
        at, late = arrival_of(one.annotations, self.setting.start)
        for wrong in (*errors, *late):
            note(mistakes, one, wrong)
        if RUN not in one.annotations and plan.ready is not None:
            self.guessed.append(name)
        self.arrivals.append(Arrival(at, workload, plan, name))

    def note_strangers(self, one: Object) -> None:
        """Say which annotations look like ours and are not."""
        known = (ANSWER,) if one.kind == "AdmissionCheck" else OF_A_JOB if one.kind in ("Job", "Workload") else ()
        for key in one.annotations:
            if key.startswith(PREFIX) and key not in known:
                offer = f"those of a {one.kind} are {', '.join(known)}" if known else f"a {one.kind} has none"
                self.notes.append(f"{one.kind} {one.key}: annotation {key} is not known; {offer}")

    def trace(self) -> Trace:
        """What was read, in order of arrival."""
        if self.guessed:
            who = listed(self.guessed)
            self.notes.append(f"no {RUN} on {who}; taken to run for {RUN_DEFAULT // 1_000_000} s")
        return Trace(
            self.setting.start,
            options(self.loaded, self.setting.seed),
            (*self.namespaces.values(), *self.things),
            tuple(in_line(self.arrivals, self.setting.start)),
            self.answers,
            tuple(self.notes),
        )


def note(mistakes: list[Mistake], one: Object, error: FieldError) -> None:
    """Add a mistake of an object."""
    mistakes.append(Mistake(one.document.where, str(error), one.document.called))


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    rest = len(names) - SHOWN_MAX
    return ", ".join(names[:SHOWN_MAX]) + (f" and {rest} more" if rest > 0 else "")


def named_namespace(namespace: model.Namespace) -> model.Namespace:
    """The namespace with the label that every namespace carries."""
    labels = {**dict(namespace.labels), NAMESPACE_NAME_LABEL: namespace.name}
    return replace(namespace, labels=tuple(sorted(labels.items())))


def made_up_uid(kind: str, key: str) -> str:
    """A UID for an object that has none, always the same for the same object."""
    text = sha256(f"{kind} {key}".encode()).hexdigest()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))


def in_line(arrivals: Iterable[Arrival], start: Instant) -> list[Arrival]:
    """The arrivals in order; those of one instant stand in line as they stand in the files."""
    ordered = sorted(arrivals, key=lambda one: one.at)
    found: list[Arrival] = []
    for position, one in enumerate(ordered):
        created = one.workload.created
        if not 0 < created < start:
            # A microsecond apart, for the engine orders workloads of the same instant by UID, which says nothing here.
            created = Instant(one.at + position)
        found.append(replace(one, workload=replace(one.workload, created=created)))
    return found


def plan_of(annotations: Mapping[str, str]) -> tuple[Plan, tuple[FieldError, ...]]:
    """How a job with these annotations behaves, and what is wrong with them."""
    errors: list[FieldError] = []
    ready: Micros | None = None
    if annotations.get(READY) != NEVER:
        ready = length(annotations, READY, Micros(0), errors, f", or {NEVER}")
    checkpoint = annotations.get(CHECKPOINT, "false")
    if checkpoint not in ("true", "false"):
        errors.append(invalid(f"metadata.annotations[{CHECKPOINT}]", checkpoint, 'write "true" or "false"'))
    run = length(annotations, RUN, RUN_DEFAULT, errors)
    return Plan(run, ready, length(annotations, STOP, Micros(0), errors), checkpoint == "true"), tuple(errors)


def length(
    annotations: Mapping[str, str], key: str, absent: Micros, errors: list[FieldError], other: str = ""
) -> Micros:
    """The length of time that an annotation gives, in seconds or as a duration."""
    text = annotations.get(key)
    if text is None:
        return absent
    try:
        found = parse_duration(f"{text}s" if text[-1:].isdigit() else text)
    except DurationError:
        found = Micros(-1)
    if found < 0:
        errors.append(invalid(f"metadata.annotations[{key}]", text, f"write seconds, as in 90 or 1.5{other}"))
    return found


def arrival_of(annotations: Mapping[str, str], start: Instant) -> tuple[Instant, tuple[FieldError, ...]]:
    """When a job comes: at the start, so long after it, or at an instant."""
    text = annotations.get(ARRIVAL)
    if text is None:
        return start, ()
    path = f"metadata.annotations[{ARRIVAL}]"
    try:
        offset = parse_duration(f"{text}s" if text[-1:].isdigit() else text)
        at = Instant(start + offset)
    except DurationError:
        try:
            at = parse_instant(text)
        except (ValueError, OverflowError):
            advice = "write the time after the start, as in 30s or 5m, or an instant, as in 2026-01-01T12:00:00Z"
            return start, (invalid(path, text, advice),)
    if at < start:
        return start, (invalid(path, text, f"is before the start, {format_instant(start)}; see --start"),)
    return at, ()
