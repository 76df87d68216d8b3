"""The table of strategies: one row for each kind that is treated differently from a plain built-in or custom kind.

A row is found when a kind is added to the catalog, and is then `Served.strategy`.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from pykueue.api.convert import to_v1beta1, to_v1beta2
from pykueue.api.names import GROUP
from pykueue.apiserver.kinds import (
    crds,
    transitions,
    validation_jobs,
    validation_jobstatus,
    validation_pods,
    validation_rest,
)
from pykueue.apiserver.kinds.conversion import event_to_served, event_to_stored, stored_event_field
from pykueue.apiserver.kinds.jobdefaults import default_job, with_template_labels, without_zeros
from pykueue.apiserver.kinds.names import dns_label, dns_subdomain, path_messages
from pykueue.apiserver.kinds.nulltimes import event_times, job_times, node_times, pod_times
from pykueue.apiserver.kinds.poddefaults import default_pod
from pykueue.apiserver.kinds.strategy import Strategy
from pykueue.apiserver.wire.statuserrors import quoted
from pykueue.kube.port import Resource

JOB_ORPHANS: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
BUILTIN: Final = Strategy()
"""The default for built-in kinds."""
CUSTOM: Final = Strategy(is_spec_changed=transitions.is_anything_changed, allow_unconditional_update=False)
"""The default for custom kinds."""
KUEUE: Final = replace(CUSTOM, to_stored=lambda tree, _: to_v1beta2(tree), to_served=lambda tree, _: to_v1beta1(tree))
"""The default for Kueue's kinds."""
EVENT: Final = Strategy(
    name_messages=path_messages,
    canonicalize=event_times,
    allow_create_on_update=True,
    validate=validation_rest.event_errors,
    is_record=True,
    tracks_controllers=False,
    dependents="unsupported",
)

STRATEGIES: Final[Mapping[str, Strategy]] = {
    "configmaps": Strategy(
        bytes_field="binaryData",
        validate=validation_rest.config_errors,
        validate_update=validation_rest.config_change_errors,
    ),
    crds.STORAGE: Strategy(
        restore_pruned=crds.restored,
        default=crds.default,
        prepare_create=crds.created,
        is_spec_changed=transitions.is_spec_changed,
        allow_unconditional_update=False,
        validate=crds.errors,
        validate_update=crds.change_errors,
        warnings=crds.warnings,
        terminate=crds.terminate,
        defines_kind=True,
    ),
    "events": EVENT,
    "events.events.k8s.io": replace(
        EVENT,
        name_messages=dns_subdomain,
        stored_field=stored_event_field,
        to_stored=event_to_stored,
        to_served=event_to_served,
        validate=validation_rest.new_event_errors,
        refused_as=Resource("", "v1", "events", "Event", True),
    ),
    "jobs.batch": Strategy(
        unsupported_field=lambda field: f"field label {quoted(field)} not supported for Job",
        default=default_job,
        complete_status=lambda tree: job_times(without_zeros(tree)),
        prepare_create=transitions.create_job,
        is_spec_changed=transitions.is_spec_changed,
        canonicalize=with_template_labels,
        validate=validation_jobs.create_errors,
        validate_update=validation_jobs.update_errors,
        validate_status=validation_jobstatus.job_status_errors,
        repeats_metadata_errors_last=True,
        warnings=validation_jobs.warnings,
        delete_warning=JOB_ORPHANS,
        dependents="orphan",
    ),
    "leases.coordination.k8s.io": Strategy(
        allow_unconditional_update=False,
        allow_create_on_update=True,
        validate=validation_rest.lease_errors,
        validate_update=validation_rest.same(validation_rest.lease_errors),
        tracks_controllers=False,
    ),
    "limitranges": Strategy(
        uid_as_name=True,
        default=transitions.default_limit_range,
        canonicalize=transitions.stored_limit_range,
        allow_create_on_update=True,
        validate=validation_rest.range_errors,
        validate_update=validation_rest.same(validation_rest.range_errors),
    ),
    "namespaces": Strategy(
        name_messages=dns_label,
        default=transitions.default_namespace,
        prepare_create=transitions.create_namespace,
        prepare_update=transitions.update_namespace,
        undeletable=frozenset({"default", "kube-system", "kube-public"}),
        terminate=transitions.terminate_namespace,
        is_held=transitions.is_namespace_held,
        checks_preconditions_first=True,
        returns_deleted=True,
    ),
    "nodes": Strategy(
        default=transitions.default_node,
        complete_status=node_times,
        tracks_controllers=False,
    ),
    "pods": Strategy(
        default=default_pod,
        complete_status=pod_times,
        prepare_create=transitions.create_pod,
        prepare_status_update=transitions.update_pod_status,
        is_spec_changed=transitions.is_spec_changed,
        validate=validation_pods.create_errors,
        validate_update=validation_pods.update_errors,
        warnings=validation_pods.warnings,
        is_templated=True,
        tracks_controllers=False,
        grace_seconds=transitions.pod_grace_seconds,
        returns_deleted=True,
        takes_capacity=True,
        connections={
            "portforward": "its ports are this machine's own",
            "proxy": "its ports are this machine's own",
        },
    ),
    "podtemplates": Strategy(
        default=transitions.default_pod_template,
        is_spec_changed=transitions.is_spec_changed,
        validate=validation_rest.pod_template_errors,
        validate_update=validation_rest.same(validation_rest.pod_template_errors),
        returns_deleted=True,
    ),
    "priorityclasses.scheduling.k8s.io": Strategy(
        default=transitions.default_priority_class,
        is_spec_changed=transitions.is_spec_changed,
        validate=validation_rest.class_errors,
        validate_update=validation_rest.class_change_errors,
    ),
    "runtimeclasses.node.k8s.io": Strategy(
        allow_unconditional_update=False,
        validate=validation_rest.runtime_errors,
        validate_update=validation_rest.runtime_change_errors,
    ),
    "secrets": Strategy(
        bytes_field="data",
        default=transitions.default_secret,
        validate=validation_rest.secret_errors,
        validate_update=validation_rest.secret_change_errors,
    ),
    "serviceaccounts": Strategy(returns_deleted=True),
    "workloads.kueue.x-k8s.io": replace(KUEUE, tracks_controller_status=True),
}
"""By the resource's name, with its group.

That is the storage name, but for `events.events.k8s.io`, which is stored as `events`.
"""


def builtin_strategy(resource: Resource) -> Strategy:
    """The strategy of a built-in kind."""
    return STRATEGIES.get(str(resource), BUILTIN)


def custom_strategy(resource: Resource) -> Strategy:
    """The strategy of a kind that a CustomResourceDefinition defines."""
    return STRATEGIES.get(str(resource), KUEUE if resource.group == GROUP else CUSTOM)
