"""The input of a simulation: validated manifests as a cluster and its arriving jobs; `plans` has their behaviour."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api.checks import AdmissionCheck, ProvisioningRequestConfig
from pykueue.api.codec import DecodeError, decode_as
from pykueue.api.config.file import MINIMAL, Loaded, default_configuration
from pykueue.api.config.types import NAMESPACE_NAME_LABEL
from pykueue.api.config.unbuilt import read_built
from pykueue.api.convert import V1BETA1
from pykueue.api.core import Namespace, Tree, matches
from pykueue.api.durations import Micros
from pykueue.api.fields import FieldError, invalid
from pykueue.api.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass
from pykueue.api.names import DEFAULT_QUEUE, CheckController, Label
from pykueue.api.pods import Job, LimitRange, RuntimeClass
from pykueue.api.priorityclass import PriorityClass
from pykueue.api.rules import table
from pykueue.api.schema import defaults
from pykueue.api.trees import whole
from pykueue.api.workload import Workload
from pykueue.base.struct import Frozen
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.bridge import inbound
from pykueue.bridge.options import intake, options
from pykueue.bridge.runtimes import Learned, RunTimesTable, kind_of
from pykueue.bridge.unbuilt import idle, unbuilt
from pykueue.checks.parameters import referenced, timeout, verdict
from pykueue.checks.provisioning import Check, Rules
from pykueue.checks.scripted import SCRIPTED, read_script
from pykueue.engine import model
from pykueue.engine.record.checkpoint import Checkpoint
from pykueue.jobs import manifest
from pykueue.jobs.workload import class_label, queue_label, workload_name
from pykueue.sim.alternatives import replaced
from pykueue.sim.assignments import assign_all
from pykueue.sim.manifests import Document, Mistake, Object, documents, is_configuration, objects
from pykueue.sim.plans import (
    ANSWER,
    ANSWERS,
    KNOWN,
    RUN,
    RUN_DEFAULT,
    RunPlan,
    arrival_of,
    plan_of,
    unknown_annotations,
)
from pykueue.sim.provisioning import Provisioned

START: Final = parse_instant("2026-01-01T00:00:00Z")
ASSUMED: Final = {
    "": f"{RUN_DEFAULT // MICROS} s",
    "kind": "the median of its LocalQueue with the same requests, of jobs that succeeded",
    "queue": "the median of its LocalQueue, of jobs that succeeded",
    "all": "the median of all queues, of jobs that succeeded",
}
"""How long a job is taken to run that does not say it, by where that was taken from."""
SHOWN_MAX: Final = 3
"""The most names that a note lists."""


class Arrival(Frozen):
    """A workload, its arrival, and how its job behaves."""

    at: Instant
    workload: model.Workload
    plan: RunPlan
    name: str
    """The user's name for it: that of the job, or of a Workload without one."""
    of_job: bool = False
    """Whether the user wrote a Job, so that messages refer to its fields."""
    view: Workload = Workload()
    """The workload as it is stored."""
    may_run_again: bool = True
    """Whether its job would run again after it was stopped for good."""
    done: Micros = Micros(0)
    """How much of its run is over at the start, for one that runs then."""
    deadline_seconds: int | None = None
    """`activeDeadlineSeconds` of its job."""


class Trace(Frozen):
    """The complete input of a simulation."""

    start: Instant
    options: model.Options
    things: tuple[model.Thing, ...]
    arrivals: tuple[Arrival, ...]
    answers: Mapping[str, str] = {}
    """The answer of each AdmissionCheck: one of ANSWERS."""
    notes: tuple[str, ...] = ()
    provisioned: Provisioned = Provisioned()
    """The AdmissionChecks that use provisioning."""
    begin: Checkpoint | None = None
    """The state to begin with: `things` are its facts, and `arrivals` include its workloads, which do not arrive."""


class Setting(Frozen):
    """The user's settings besides the manifests."""

    configuration: tuple[str, bytes] | None = None
    """The name and text of a Configuration file."""
    feature_gates: str = ""
    seed: int = 0
    start: Instant = START
    tolerate_unknown_gates: bool = False
    learned: Learned = Learned()
    """How long jobs ran, for those that do not say how long they run."""
    assignments: tuple[str, ...] = ()
    """Fields of objects that are set, as in `clusterqueue/main.cpu=64`."""


class Invalid(ValueError):
    """Manifests that cannot be simulated, with all reasons."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = tuple(mistakes)


def read_trace(
    files: Iterable[tuple[str, bytes]],
    setting: Setting | None = None,
    other: Iterable[tuple[str, bytes]] = (),
) -> Trace:
    """Read the simulation that these files describe; raises `Invalid` with all mistakes.

    With `other`, it is that of another configuration; see `alternatives`.
    """
    setting = setting or Setting()
    mistakes: list[Mistake] = []
    found = read_documents(files, mistakes)
    if instead := read_documents(other, mistakes):
        found = replaced(found, instead, mistakes)
    found = assign_all(found, setting.assignments, mistakes)
    loaded = configuration_of(setting, [one for one in found if is_configuration(one)], mistakes)
    judged, errors = objects([one for one in found if not is_configuration(one)], loaded.gates.values)
    mistakes += errors
    builder = Reader(loaded, setting)
    builder.take(judged, mistakes)
    if mistakes:
        raise Invalid(tuple(dict.fromkeys(mistakes)))
    return builder.trace()


def read_documents(files: Iterable[tuple[str, bytes]], mistakes: list[Mistake]) -> list[Document]:
    """The documents in these files."""
    found: list[Document] = []
    for file, raw in files:
        read_here, errors = documents(file, raw)
        found += read_here
        mistakes += errors
    return found


def configuration_of(setting: Setting, found: list[Document], mistakes: list[Mistake]) -> Loaded:
    """The Configuration, from its own file or from among the manifests."""
    sources = [] if setting.configuration is None else [setting.configuration]
    sources += [(one.where, msgspec.json.encode(one.tree)) for one in found]
    for where, _ in sources[1:]:
        mistakes.append(Mistake(where, f"a second Configuration beside {sources[0][0]}; keep one"))
    where, text = sources[0] if sources else ("--feature-gates", MINIMAL.encode())
    loaded, errors = read_built(
        text, feature_gates=setting.feature_gates, tolerate_unknown_gates=setting.tolerate_unknown_gates
    )
    mistakes += (Mistake(where, str(one).removeprefix("--feature-gates: ")) for one in errors)
    return default_configuration() if loaded is None else loaded


class Reader:
    """Turns validated objects into a trace."""

    def __init__(self, loaded: Loaded, setting: Setting) -> None:
        self.loaded = loaded
        self.intake = intake(loaded)
        self.setting = setting
        self.things: list[model.Thing] = []
        self.arrivals: list[Arrival] = []
        self.answers: dict[str, str] = {}
        self.flavors: dict[str, ResourceFlavor] = {}
        self.configs: dict[str, ProvisioningRequestConfig] = {}
        self.provisioning: dict[str, AdmissionCheck] = {}
        self.notes: list[str] = list(loaded.warnings)
        self.namespaces: dict[str, model.Namespace] = {}
        self.classes: dict[str, int] = {}
        self.pod_classes: dict[str, PriorityClass] = {}
        self.limit_ranges: dict[str, list[LimitRange]] = {}
        self.runtime_classes: dict[str, RuntimeClass] = {}
        self.default_queues: set[str] = set()
        self.assumed: dict[str, list[str]] = {}
        """Jobs that do not say how long they run, by where that was taken from, as `RunTimesTable.find` says it."""
        self.run_times = RunTimesTable(setting.learned)
        self.trusted: list[str] = []
        self.places: dict[str, manifest.Place] = {}
        self.around: dict[str, inbound.Surroundings] = {}
        self.pod_sets: dict[tuple[model.PodSet, ...], tuple[model.PodSet, ...]] = {}
        self.shapes: dict[tuple[int, object], tuple[Workload, model.Workload]] = {}
        """The Workload for a Job of each shape and class, in a like namespace: as it is stored, and for the engine."""

    def take(self, judged: Sequence[Object], mistakes: list[Mistake]) -> None:
        """Read all objects: first the cluster, then the jobs."""
        configuration = self.loaded.configuration
        for one in judged:
            self.take_cluster(one, mistakes)
        self.things += (self.provisioning_check(name) for name in self.provisioning)
        for one in judged:
            if one.namespace:
                self.namespaces.setdefault(one.namespace, named_namespace(model.Namespace(one.namespace)))
        for one in judged:
            if isinstance(one.view, Job):
                self.take_job(one, one.view, mistakes)
            elif isinstance(one.view, Workload):
                self.take_workload(one, one.tree, mistakes)
            self.take_unknown_annotations(one, mistakes)
            sharing, past_use = configuration.fair_sharing, configuration.admission_fair_sharing
            unused = idle(one.kind, one.view, fair_sharing=sharing is not None, past_use=past_use is not None)
            self.notes += (f"{one.kind} {one.key}: {text}" for text in unused)
        old = [f"{one.kind} {one.key}" for one in judged if one.document.tree.get("apiVersion") == V1BETA1]
        if old:
            self.notes.append(f"v1beta1 is deprecated; write v1beta2 in {listed(old)}")

    def take_cluster(self, one: Object, mistakes: list[Mistake]) -> None:
        """Read an object that jobs depend on."""
        match one.view:
            case Namespace() as view:
                self.namespaces[one.name] = named_namespace(inbound.namespace(view))
            case ResourceFlavor() as view:
                self.flavors[one.name] = view
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
            case ProvisioningRequestConfig() as view:
                self.take_config(one, view, mistakes)
            case WorkloadPriorityClass() as view:
                self.classes[one.name] = view.value
            case PriorityClass() as view:
                self.take_pod_class(one, view, mistakes)
            case LimitRange() as view:
                self.limit_ranges.setdefault(one.namespace, []).append(view)
            case RuntimeClass() as view:
                self.runtime_classes[one.name] = view

    def take_check(self, one: Object, view: AdmissionCheck, mistakes: list[Mistake]) -> None:
        """Read an AdmissionCheck and its answer; active unless it says otherwise or is not supported."""
        if view.spec.controller_name == CheckController.PROVISIONING and ANSWER not in one.annotations:
            self.provisioning[one.name] = view
            return
        stated = any(condition.type == "Active" for condition in view.status.conditions)
        beyond = unbuilt(one.kind, view)
        check = inbound.check(view)
        self.things.append(check if stated or beyond else replace(check, active=True))
        self.notes += (f"AdmissionCheck {one.name}: {text}" for text in beyond)
        answer = one.annotations.get(ANSWER, ANSWERS[0]).lower()
        self.answers[one.name] = answer
        if ANSWER not in one.annotations and not beyond:
            self.trusted.append(one.name)
        if answer not in ANSWERS:
            path = f"metadata.annotations[{ANSWER}]"
            note(mistakes, one, invalid(path, answer, f"write one of: {', '.join(ANSWERS)}"))

    def take_config(self, one: Object, view: ProvisioningRequestConfig, mistakes: list[Mistake]) -> None:
        """Read a provisioning configuration and validate its script, if it has one."""
        self.configs[one.name] = view
        kind = view.spec.provisioning_class_name
        if kind == SCRIPTED:
            _, wrong = read_script(view.spec.parameters)
            mistakes += (Mistake(one.document.where, f"spec.parameters: {text}", one.document.called) for text in wrong)
        else:
            taken = f"requests of class {kind} are taken to find capacity at once; class {SCRIPTED} may say otherwise"
            self.notes.append(f"ProvisioningRequestConfig {one.name}: {taken}")

    def provisioning_check(self, name: str) -> model.Check:
        """A provisioning check, active if its configuration exists, as on a cluster."""
        view = self.provisioning[name]
        found = verdict(view, self.configs, "")
        if not found.active:
            self.notes.append(f"AdmissionCheck {name} is not active: {found.message}")
        return replace(inbound.check(view), active=found.active)

    def provisioned(self) -> Provisioned:
        """Everything that provisioning uses."""
        checks: dict[str, Check] = {}
        for name, view in self.provisioning.items():
            config = referenced(view, self.configs)
            checks[name] = Check(None if isinstance(config, str) else config.spec, timeout(view))
        gates = self.loaded.gates.values
        rules = Rules(gates["CleanupProvisioningRequestsOnEviction"], gates["KeepQuotaForProvReqRetry"])
        return Provisioned(checks, self.flavors, rules)

    def take_pod_class(self, one: Object, view: PriorityClass, mistakes: list[Mistake]) -> None:
        """Read a PriorityClass; at most one may be the default."""
        if view.global_default and (other := self.default_pod_class()):
            detail = f"PriorityClass {other} is the global default already; keep one"
            note(mistakes, one, invalid("globalDefault", True, detail))
        self.pod_classes[one.name] = view

    def default_pod_class(self) -> str:
        """The PriorityClass for pods that name none; empty if there is none."""
        return next((name for name, found in self.pod_classes.items() if found.global_default), "")

    def place(self, namespace: str) -> manifest.Place:
        """The queues and classes that a job finds in a namespace, which are all read by now."""
        if namespace not in self.places:
            self.places[namespace] = self.new_place(namespace)
        return self.places[namespace]

    def new_place(self, namespace: str) -> manifest.Place:
        """The queues and classes in a namespace."""
        return manifest.Place(
            namespace in self.default_queues,
            self.classes,
            self.intake.default_class,
            {name: found.value for name, found in self.pod_classes.items()},
            self.default_pod_class(),
            matches(self.intake.namespaces, dict(self.namespaces[namespace].labels)),
            self.intake.queueless,
        )

    def surroundings(self, namespace: str) -> inbound.Surroundings:
        """What the Workloads of a namespace depend on, which is all read by now."""
        if namespace not in self.around:
            ranges = self.limit_ranges.get(namespace, ())
            self.around[namespace] = inbound.Surroundings(
                self.intake.resources,
                tuple(sorted(ranges, key=lambda found: found.metadata.name or "")),
                self.runtime_classes,
                self.intake.boosts,
            )
        return self.around[namespace]

    def take_job(self, one: Object, job: Job, mistakes: list[Mistake]) -> None:
        """Read a Job as the workload that is queued for it; those of Jobs of one shape differ in names and queues."""
        place = self.place(one.namespace)
        # A namespace has an effect on its Jobs by these alone.
        space = place.default_queue, place.selected, one.namespace * (one.namespace in self.limit_ranges)
        shape = one.shape, (class_label(job.metadata), space)
        if shape in self.shapes:
            self.take_arrival(one, *renamed(*self.shapes[shape], one, queue_label(job.metadata)), mistakes)
            return
        noted = len(self.notes)
        if why := manifest.left_out(one.tree, job, place) or "; ".join(unbuilt("Job", one.tree)):
            self.notes.append(f"Job {one.key} is left out: {why}")
            return
        if not manifest.queue_of(job, place):
            advice = f"give it the label {Label.QUEUE}"
            self.notes.append(f"Job {one.key} names no queue, so manageJobsWithoutQueueName keeps it waiting; {advice}")
        if not job.metadata.uid:
            job = replace(job, metadata=replace(job.metadata, uid=made_up_uid("Job", one.key)))
        job = replace(job, metadata=replace(job.metadata, namespace=one.namespace))
        tree, wrong = manifest.workload_tree(one.tree, job, place)
        errors = (*wrong, *table.check("Workload", tree, gates=self.loaded.gates.values))
        for error in errors:
            note(mistakes, one, replace(error, path=manifest.with_job_paths(error.path)))
        if errors:
            return
        found = self.take_workload(one, tree, mistakes)
        if one.shape and found is not None and len(self.notes) == noted:
            self.shapes[shape] = found

    def take_workload(self, one: Object, tree: Tree, mistakes: list[Mistake]) -> tuple[Workload, model.Workload] | None:
        """Read a Workload and how its job behaves; returns it as it is stored and as the engine knows it."""
        try:
            view = decode_as(Workload, defaults(Workload, tree))
        except DecodeError as error:
            mistakes.append(Mistake(one.document.where, str(error), one.document.called))
            return None
        view = replace(view, metadata=replace(view.metadata, namespace=one.namespace))
        workload = inbound.workload(view, self.surroundings(one.namespace))
        # The engine compares equal pod sets sooner if they are the same object.
        pod_sets = self.pod_sets.setdefault(workload.pod_sets, workload.pod_sets)
        uid = workload.uid or made_up_uid("Workload", workload.key)
        workload = replace(workload, uid=uid, pod_sets=pod_sets)
        if workload.unbuilt and workload.admission is not None:
            self.notes.append(f"{one.kind} {one.key} holds its quota, but {workload.unbuilt}")
        self.take_arrival(one, view, workload, mistakes)
        return view, workload

    def take_arrival(self, one: Object, view: Workload, workload: model.Workload, mistakes: list[Mistake]) -> None:
        """Read when a job arrives and how it behaves."""
        plan, errors = plan_of(one.annotations)
        at, late = arrival_of(one.annotations, self.setting.start)
        for wrong in (*errors, *late):
            note(mistakes, one, wrong)
        if RUN not in one.annotations and plan.ready is not None:
            known = self.run_times.find(kind_of(workload))
            if known.seconds:
                plan = replace(plan, run=Micros(sorted(known.seconds)[len(known.seconds) // 2] * MICROS))
            self.assumed.setdefault(known.like, []).append(one.key)
        of_job = isinstance(one.view, Job)
        may_run_again = not of_job or whole(one.tree, "spec", "backoffLimit") != 0
        deadline = whole(one.tree, "spec", "activeDeadlineSeconds") if of_job else None
        self.arrivals.append(
            Arrival(at, workload, plan, one.key, of_job, view, may_run_again, deadline_seconds=deadline)
        )

    def take_unknown_annotations(self, one: Object, mistakes: list[Mistake]) -> None:
        """Reject misspelt annotations of ours, which would change the result unseen; note other unknown ones."""
        known = KNOWN.get(one.kind, ())
        for key, near in unknown_annotations(one.kind, one.annotations):
            if near:
                text = f"metadata.annotations[{key}]: unknown annotation; did you mean {near}?"
                mistakes.append(Mistake(one.document.where, text, one.document.called))
            else:
                offer = f"those of a {one.kind} are {', '.join(known)}" if known else f"a {one.kind} has none"
                self.notes.append(f"{one.kind} {one.key}: annotation {key} is not known; {offer}")

    def trace(self) -> Trace:
        """The trace, in order of arrival."""
        for like, text in ASSUMED.items():
            if who := self.assumed.get(like):
                self.notes.append(f"no {RUN} on {listed(who)}; taken to run for {text}")
        if self.trusted:
            self.notes.append(f"no {ANSWER} on AdmissionCheck {listed(self.trusted)}; taken to answer {ANSWERS[0]}")
        return Trace(
            self.setting.start,
            options(self.loaded, self.setting.seed),
            (*self.namespaces.values(), *self.things),
            tuple(in_line(self.arrivals, self.setting.start)),
            self.answers,
            tuple(self.notes),
            self.provisioned(),
        )


def note(mistakes: list[Mistake], one: Object, error: FieldError) -> None:
    """Record a mistake of an object."""
    mistakes.append(Mistake(one.document.where, str(error), one.document.called))


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    rest = len(names) - SHOWN_MAX
    return ", ".join(names[:SHOWN_MAX]) + (f" and {rest} more" if rest > 0 else "")


def limits_of(arrivals: Iterable[Arrival]) -> dict[str, int]:
    """How many seconds jobs may run, by UID, where that is not in their workloads."""
    found = {one.workload.job_uid: one.deadline_seconds for one in arrivals if one.workload.job_uid}
    return {uid: seconds for uid, seconds in found.items() if seconds is not None}


def named_namespace(namespace: model.Namespace) -> model.Namespace:
    """The namespace with the label that every namespace carries."""
    labels = {**dict(namespace.labels), NAMESPACE_NAME_LABEL: namespace.name}
    return replace(namespace, labels=tuple(sorted(labels.items())))


def made_up_uid(kind: str, key: str) -> str:
    """A UID for an object that has none, derived from its key."""
    text = sha256(f"{kind} {key}".encode()).hexdigest()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))


def renamed(view: Workload, workload: model.Workload, one: Object, queue: str) -> tuple[Workload, model.Workload]:
    """The Workload for a Job with this queue label, from that for another Job of its shape."""
    job_uid = made_up_uid("Job", one.key)
    name = workload_name(kind="Job", group="batch", name=one.name, uid=job_uid)
    labels = {**view.metadata.labels, Label.JOB_UID: job_uid}
    metadata = replace(view.metadata, name=name, namespace=one.namespace, labels=labels)
    spec = replace(view.spec, queue_name=queue) if queue else view.spec
    key = f"{one.namespace}/{name}"
    known = replace(
        workload,
        key=key,
        uid=made_up_uid("Workload", key),
        local_queue=f"{one.namespace}/{spec.queue_name or ''}",
        job_uid=job_uid,
    )
    return replace(view, metadata=metadata, spec=spec), known


def in_line(arrivals: Iterable[Arrival], start: Instant) -> list[Arrival]:
    """The arrivals in order; those of one instant in the order of the files."""
    ordered = sorted(arrivals, key=lambda one: one.at)
    found: list[Arrival] = []
    for position, one in enumerate(ordered):
        created = one.workload.created
        if not 0 < created < start:
            # A microsecond apart, since the engine orders workloads of the same instant by UID, which is arbitrary
            # here.
            created = Instant(one.at + position)
        found.append(replace(one, workload=replace(one.workload, created=created)))
    return found
