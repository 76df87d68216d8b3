"""Kubernetes objects as facts: views of objects to the engine's own nouns."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from pykueue.api import checks as api_checks
from pykueue.api import core, kueue
from pykueue.api import workload as api_workload
from pykueue.api.labels import qualified_name
from pykueue.api.names import USAGE_BASED, Annotation, Label, WorkloadCondition
from pykueue.api.pods import LimitRange, PodSpec, PodTemplate, RuntimeClass, TemplateError, decode_template
from pykueue.api.rules.rule import Context
from pykueue.api.rules.workload_spec import boost_is_number, boost_not_empty
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import NANO, Instant, QuantityError, Seconds, amount_of, parse_instant, parse_quantity
from pykueue.bridge.limits import adjusted, problem
from pykueue.bridge.requests import ResourceConfig, counted, pod_requests
from pykueue.bridge.shape import selection, shape_key
from pykueue.bridge.unbuilt import unbuilt
from pykueue.engine import model

BOOST_RULES: Final = (boost_not_empty, boost_is_number)
"""Rules of the priority-boost annotation; a Workload older than the gate has not been validated by them."""

TEMPLATES_MAX: Final = 1024
"""How many pod templates are remembered."""


class Surroundings(Frozen, eq=False):
    """What a workload depends on besides itself; compared by identity, as the key of what was read in it."""

    resources: ResourceConfig = ResourceConfig()
    limit_ranges: tuple[LimitRange, ...] = ()
    """Those of the workload's namespace, by name."""
    runtime_classes: Mapping[str, RuntimeClass] = {}
    boosts: bool = False
    """Whether the priority-boost annotation has an effect: the gate PriorityBoost."""
    unqueued: Mapping[str, str] = {}
    """Kinds of owner, each with its group, whose jobs Kueue runs and this version cannot."""


class Reading(Frozen):
    """What a Workload asks for, apart from its status; cached, so that it is computed once."""

    uid: str | None
    generation: int | None
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    around: Surroundings
    pod_sets: tuple[model.PodSet, ...]
    trouble: str = ""
    """Why the pods can never be scheduled."""
    beyond: tuple[str, ...] = ()
    """What it uses that this version does not support."""

    def holds_of(self, seen: api_workload.Workload, around: Surroundings) -> bool:
        """Whether a cached reading still applies to this Workload in these surroundings."""
        metadata, status = seen.metadata, seen.status
        return (
            self.generation == metadata.generation
            and self.uid == metadata.uid
            and self.around is around
            and len(self.pod_sets) == len(seen.spec.pod_sets)
            and self.annotations == metadata.annotations
            and self.labels == metadata.labels
            # These parts of the status also decide what is asked for.
            and not (status.cluster_name or status.nominated_cluster_names or status.unhealthy_nodes)
            and (status.admission is None or not any(map(has_place, status.admission.pod_set_assignments)))
        )


def has_place(assignment: api_workload.PodSetAssignment) -> bool:
    """Whether a pod set has, or waits for, a topology assignment."""
    return assignment.topology_assignment is not None or assignment.delayed_topology_request is not None


def thing(seen: core.KubeObject, around: Surroundings | None = None) -> model.Thing | None:
    """The engine's noun for an object; None for a kind that the engine does not use."""
    match seen:
        case kueue.ResourceFlavor():
            return flavor(seen)
        case kueue.Cohort():
            return cohort(seen)
        case kueue.ClusterQueue():
            return cluster_queue(seen)
        case kueue.LocalQueue():
            return local_queue(seen)
        case core.Namespace():
            return namespace(seen)
        case api_checks.AdmissionCheck():
            return check(seen)
        case api_workload.Workload():
            return workload(seen, around)
        case _:
            return None


def instant(text: str | None) -> Instant:
    """The instant in an object's field; the epoch if it is empty."""
    return Instant(0) if text is None else parse_instant(text)


def amount(resource: str, text: str | int) -> int:
    """The engine's amount for a quantity; a negative one counts as zero."""
    return max(0, amount_of(resource, parse_quantity(str(text))))


def namespace(seen: core.Namespace) -> model.Namespace:
    """A namespace."""
    return model.Namespace(seen.name, tuple(sorted(seen.metadata.labels.items())))


def flavor(seen: kueue.ResourceFlavor) -> model.Flavor:
    """A ResourceFlavor."""
    spec = seen.spec
    return model.Flavor(
        seen.name,
        tuple(sorted(spec.node_labels.items())),
        tuple(model.Taint(t.key, t.value or "", t.effect) for t in spec.node_taints),
        tuple(toleration(t) for t in spec.tolerations),
        "; ".join(f"ResourceFlavor {seen.name}: {text}" for text in unbuilt("ResourceFlavor", seen)),
    )


def toleration(seen: core.Toleration) -> model.Toleration:
    """A toleration."""
    return model.Toleration(seen.key or "", seen.operator or "Equal", seen.value or "", seen.effect or "")


def quotas(groups: Iterable[kueue.ResourceGroup]) -> tuple[model.Quota, ...]:
    """Every quota of a queue or cohort."""
    return tuple(
        model.Quota(
            quotas_of.name,
            quota.name,
            amount(quota.name, quota.nominal_quota),
            None if quota.borrowing_limit is None else amount(quota.name, quota.borrowing_limit),
            None if quota.lending_limit is None else amount(quota.name, quota.lending_limit),
        )
        for group in groups
        for quotas_of in group.flavors
        for quota in quotas_of.resources
    )


def cohort(seen: kueue.Cohort) -> model.Cohort:
    """A Cohort."""
    spec = seen.spec
    return model.Cohort(
        seen.name,
        spec.parent_name or "",
        quotas(spec.resource_groups),
        weight(spec.fair_sharing),
        usage_based=seen.metadata.annotations.get(Annotation.ADMISSION_MODE) == USAGE_BASED,
    )


def weight(seen: kueue.FairSharing | None) -> float:
    """The weight under fair sharing; a negative one counts as zero."""
    return 1.0 if seen is None else max(0, parse_quantity(str(seen.weight)).nanos) / NANO


def selector(seen: core.LabelSelector | None) -> model.Selector | None:
    """A label selector; None selects nothing."""
    if seen is None:
        return None
    equal = [(key, "In", (value,)) for key, value in sorted(seen.match_labels.items())]
    return model.Selector((*equal, *((e.key, e.operator, tuple(e.values)) for e in seen.match_expressions)))


def cluster_queue(seen: kueue.ClusterQueue) -> model.ClusterQueue:
    """A ClusterQueue."""
    spec = seen.spec
    strategy = spec.admission_checks_strategy
    rules = () if strategy is None else strategy.admission_checks
    preemption = spec.preemption
    return model.ClusterQueue(
        seen.name,
        spec.cohort_name or "",
        tuple(
            model.ResourceGroup(tuple(g.covered_resources), tuple(f.name for f in g.flavors))
            for g in spec.resource_groups
        ),
        quotas(spec.resource_groups),
        model.Strategy(spec.queueing_strategy),
        selector(spec.namespace_selector),
        model.Preemption(
            model.Policy(preemption.within_cluster_queue),
            model.Policy(preemption.reclaim_within_cohort),
            model.Policy(preemption.borrow_within_cohort.policy),
            preemption.borrow_within_cohort.max_priority_threshold,
        ),
        model.Fungibility(
            model.Fungible(spec.flavor_fungibility.when_can_borrow),
            model.Fungible(spec.flavor_fungibility.when_can_preempt),
            None
            if spec.flavor_fungibility.preference is None
            else model.Preference(spec.flavor_fungibility.preference),
        ),
        model.StopPolicy(spec.stop_policy),
        tuple(model.CheckRule(rule.name, tuple(rule.on_flavors)) for rule in rules),
        seen.metadata.deletion_timestamp is not None,
        "; ".join(unbuilt("ClusterQueue", seen)),
        weight(spec.fair_sharing),
        seen.metadata.generation or 1,
        spec.admission_scope is not None and spec.admission_scope.admission_mode == USAGE_BASED,
    )


def local_queue(seen: kueue.LocalQueue) -> model.LocalQueue:
    """A LocalQueue."""
    sharing, shared = seen.spec.fair_sharing, seen.status.fair_sharing
    past = None if shared is None else shared.admission_fair_sharing_status
    consumed = () if past is None else sorted(past.consumed_resources.items())
    return model.LocalQueue(
        f"{seen.namespace}/{seen.name}",
        seen.spec.cluster_queue or "",
        model.StopPolicy(seen.spec.stop_policy),
        seen.metadata.deletion_timestamp is not None,
        1.0 if sharing is None else parse_quantity(str(sharing.weight)).nanos / NANO,
        tuple((name, str(amount)) for name, amount in consumed if is_quantity(amount) and not qualified_name(name)),
        None if past is None else parse_instant(past.last_update),
    )


def is_quantity(text: str | int) -> bool:
    """Whether past use can be read; what is not ours to read is replaced by the next sample."""
    try:
        parse_quantity(str(text))
    except QuantityError:
        return False
    return True


def check(seen: api_checks.AdmissionCheck) -> model.Check:
    """An AdmissionCheck, active if its controller says so; never active if we do not support it."""
    active = any(c.type == "Active" and c.status == "True" for c in seen.status.conditions)
    return model.Check(seen.name, active and not unbuilt("AdmissionCheck", seen), seen.spec.controller_name)


def workload(
    seen: api_workload.Workload, around: Surroundings | None = None, known: Reading | None = None
) -> model.Workload:
    """A Workload with its pods' requests as counted in its surroundings; `known` is a cached reading that applies."""
    around = around or Surroundings()
    spec, status = seen.spec, seen.status
    conditions = {condition.type: condition for condition in status.conditions}
    found = known or read_workload(seen, around)
    unqueued = unqueued_owner(seen.metadata, around.unqueued)
    boost, bad_boost = priority_boost(seen.metadata.annotations) if around.boosts else (0, "")
    state = status.requeue_state
    reserved = held(conditions, WorkloadCondition.QUOTA_RESERVED)
    admitted = held(conditions, WorkloadCondition.ADMITTED)
    return model.Workload(
        key=f"{seen.namespace}/{seen.name}",
        uid=seen.metadata.uid or "",
        local_queue=f"{seen.namespace}/{spec.queue_name or ''}",
        created=instant(seen.metadata.creation_timestamp),
        pod_sets=found.pod_sets,
        priority=spec.priority or 0,
        boost=boost,
        generation=seen.metadata.generation or 1,
        active=spec.active,
        job_uid=seen.metadata.labels.get(Label.JOB_UID, ""),
        gated_by=seen.metadata.annotations.get(Annotation.ADMISSION_GATED_BY, ""),
        problem=unqueued or found.trouble or bad_boost,
        unbuilt="; ".join(found.beyond),
        max_run=None if spec.maximum_execution_time_seconds is None else Seconds(spec.maximum_execution_time_seconds),
        past_run=Seconds(status.accumulated_past_execution_time_seconds or 0),
        finished=held(conditions, WorkloadCondition.FINISHED) is not None,
        on_hold=reserved is None and reason_of(conditions, WorkloadCondition.QUOTA_RESERVED) == "OnHold",
        held_off=unqueued != "",
        replacing=held(conditions, WorkloadCondition.WAITING_FOR_REPLACEMENT_PODS) is not None,
        admission=None if reserved is None or status.admission is None else admission(status.admission, spec),
        reserved_at=None if reserved is None else instant(reserved.last_transition_time),
        admitted_at=None if admitted is None else instant(admitted.last_transition_time),
        evicted=evicted(conditions),
        preempted=preempted(conditions),
        requeued=requeued(conditions),
        requeue_at=None if state is None or state.requeue_at is None else instant(state.requeue_at),
        requeue_count=0 if state is None else state.count or 0,
        deactivation=deactivation(conditions),
        reclaimable=tuple((pods.name, pods.count) for pods in status.reclaimable_pods),
        checks=tuple(check_state(one) for one in status.admission_checks),
        pods_ready=pods_ready(conditions),
        waiting=waiting(conditions),
    )


Conditions = Mapping[str, core.Condition]


def held(conditions: Conditions, kind: str) -> core.Condition | None:
    """A condition that is true."""
    found = conditions.get(kind)
    return found if found is not None and found.status == "True" else None


def reason_of(conditions: Conditions, kind: str) -> str:
    """The reason of a condition, true or false."""
    found = conditions.get(kind)
    return "" if found is None else found.reason


def evicted(conditions: Conditions) -> model.Evicted | None:
    """The Evicted condition while it is true."""
    found = held(conditions, WorkloadCondition.EVICTED)
    return None if found is None else model.Evicted(found.reason, instant(found.last_transition_time), found.message)


def preempted(conditions: Conditions) -> model.Preempted | None:
    """The Preempted condition while it is true."""
    found = held(conditions, WorkloadCondition.PREEMPTED)
    return None if found is None else model.Preempted(found.reason, instant(found.last_transition_time))


def requeued(conditions: Conditions) -> model.Requeued | None:
    """The Requeued condition."""
    found = conditions.get(WorkloadCondition.REQUEUED)
    return None if found is None else model.Requeued(found.status == "True", found.reason)


def deactivation(conditions: Conditions) -> model.DeactivationTarget | None:
    """The DeactivationTarget condition while it is true."""
    found = held(conditions, WorkloadCondition.DEACTIVATION_TARGET)
    return None if found is None else model.DeactivationTarget(found.reason, found.message)


def pods_ready(conditions: Conditions) -> model.PodsReady | None:
    """The PodsReady condition."""
    found = conditions.get(WorkloadCondition.PODS_READY)
    if found is None:
        return None
    return model.PodsReady(found.status == "True", found.reason, instant(found.last_transition_time))


def waiting(conditions: Conditions) -> model.Waiting | None:
    """The QuotaReserved condition while it is false."""
    found = conditions.get(WorkloadCondition.QUOTA_RESERVED)
    return None if found is None or found.status == "True" else model.Waiting(found.reason, found.message)


def check_state(seen: api_workload.AdmissionCheckState) -> model.CheckState:
    """The state of a check of a workload."""
    after = seen.requeue_after_seconds
    return model.CheckState(
        seen.name,
        seen.state,
        instant(seen.last_transition_time),
        seen.message,
        None if after is None else Seconds(after),
        seen.retry_count or 0,
    )


def admission(seen: api_workload.Admission, spec: api_workload.WorkloadSpec) -> model.Admission:
    """A reservation of quota."""
    counts = {pod_set.name: pod_set.count for pod_set in spec.pod_sets}
    return model.Admission(
        seen.cluster_queue or "",
        tuple(
            model.Assignment(
                one.name,
                tuple(sorted(one.flavors.items())),
                tuple(sorted((name, amount(name, text)) for name, text in one.resource_usage.items())),
                counts.get(one.name, 1) if one.count is None else one.count,
            )
            for one in seen.pod_set_assignments
        ),
    )


def unqueued_owner(metadata: core.ObjectMeta, kinds: Mapping[str, str]) -> str:
    """Why a Workload is ignored if nothing here could start or stop its job; empty for any other.

    Such a Workload is left unchanged: it keeps its quota or stays pending.
    """
    controller = core.controller_of(metadata)
    for owner in metadata.owner_references if controller is None else (controller,):
        group = kinds.get(owner.kind)
        if group is not None and group == owner.api_version.rpartition("/")[0]:
            return f"{owner.kind} {owner.name}: jobs of this kind are not queued yet, so nothing would start this one"
    return ""


def priority_boost(annotations: Mapping[str, str]) -> tuple[int, str]:
    """The boost in a workload's annotation, and what is wrong with it."""
    text = annotations.get(Annotation.PRIORITY_BOOST)
    if text is None:
        return 0, ""
    tree = {"metadata": {"annotations": annotations}}
    wrong = next((error for rule in BOOST_RULES for error in rule(tree, None, Context({}))), None)
    if wrong is not None:
        return 0, str(wrong)
    # Python refuses to parse a number of thousands of zeros.
    size = int(text.lstrip("+-0") or "0")
    return -size if text.startswith("-") else size, ""


class TemplateReading(Frozen):
    """What a pod template asks for."""

    pods: model.PodSet
    """One pod of it."""
    spec: PodSpec = PodSpec()
    """With the defaults of its namespace."""
    written: PodSpec = PodSpec()
    """As the user wrote it."""
    beyond: tuple[str, ...] = ()
    """What it uses that this version does not support."""
    trouble: str = ""
    """Why it cannot be read."""


class TemplateParts(Wire):
    """A pod template with its spec undecoded."""

    metadata: core.ObjectMeta = core.ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


TEMPLATE: Final = msgspec.json.Decoder(TemplateParts)


def read_template(raw: bytes, around: Surroundings) -> TemplateReading:
    """What a pod template asks for. The spec is read apart: many workloads have the same, but labels of their own."""
    try:
        parts = TEMPLATE.decode(raw)
    except (ValueError, RecursionError):
        return read_bare_template(raw, around)
    found = read_bare_template(b'{"spec":%b}' % bytes(parts.spec), around)
    if found.trouble or not parts.metadata.annotations:
        return found
    return replace(found, beyond=(*unbuilt("PodTemplate", PodTemplate(parts.metadata)), *found.beyond))


@lru_cache(maxsize=TEMPLATES_MAX)
def read_bare_template(raw: bytes, around: Surroundings) -> TemplateReading:
    """What a pod template with nothing but a spec asks for, or an invalid one."""
    try:
        template = decode_template(raw)
        spec = adjusted(template.spec, around.limit_ranges, around.runtime_classes)
        requests = tuple(counted(pod_requests(spec), around.resources).items())
    except (TemplateError, QuantityError) as error:
        return TemplateReading(model.PodSet("", 1, shape=shape_key(PodSpec())), trouble=str(error))
    chosen = selection(spec)
    pods = model.PodSet(
        "",
        1,
        requests,
        None,
        chosen.node_selector,
        chosen.affinity,
        tuple(model.Toleration(*one) for one in chosen.tolerations),
        shape_key(spec),
    )
    return TemplateReading(pods, spec, template.spec, unbuilt("PodTemplate", template))


def read_workload(seen: api_workload.Workload, around: Surroundings) -> Reading:
    """What a Workload asks for."""
    pod_sets = seen.spec.pod_sets
    templates = [read_template(bytes(pod_set.template), around) for pod_set in pod_sets]
    beyond = list(unbuilt("Workload", seen))
    trouble = ""
    for index, template in enumerate(templates):
        path = f"spec.podSets[{index}].template"
        if template.trouble:
            trouble = trouble or f"{path}.{template.trouble}"
        beyond.extend(f"{path}.{text}" for text in template.beyond)
    if not trouble:
        specs, written = [one.spec for one in templates], [one.written for one in templates]
        trouble = problem(specs, around.limit_ranges, written) or ""
    metadata = seen.metadata
    return Reading(
        metadata.uid,
        metadata.generation,
        metadata.annotations,
        metadata.labels,
        around,
        tuple(
            replace(template.pods, name=pod_set.name, count=pod_set.count, min_count=pod_set.min_count)
            for pod_set, template in zip(pod_sets, templates, strict=True)
        ),
        trouble,
        tuple(beyond),
    )
