"""Wire types of admission checks: AdmissionCheck, and the objects of its two built-in controllers.

The annotations hold limits and defaults; see `core.about`.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

import msgspec

from pykueue.api.core import (
    LABEL,
    SUBDOMAIN,
    Conditions,
    FewConditions,
    Int32,
    KubeObject,
    LabelKey,
    ObjectName,
    Positive,
    about,
    keyed,
    limited,
)
from pykueue.base.struct import Wire

ClusterName: TypeAlias = Annotated[str, limited(maxLength=256)]
ClusterRefName: TypeAlias = Annotated[str, limited(minLength=1, maxLength=256)]


class AdmissionCheckParameters(Wire):
    """The object with the parameters of a check."""

    api_group: Annotated[str, about("API group of the object.", minLength=1, maxLength=253, pattern=SUBDOMAIN)]
    kind: Annotated[
        str, about("Kind of the object.", minLength=1, maxLength=63, pattern=r"^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$")
    ]
    name: Annotated[str, about("Name of the object.", minLength=1, maxLength=63, pattern=LABEL)]


class AdmissionCheckSpec(Wire):
    """The controller that performs a check, and its parameters."""

    controller_name: Annotated[
        str, about("Controller that performs the check.", required=True, minLength=1, maxLength=253)
    ] = ""
    parameters: Annotated[AdmissionCheckParameters | None, about("Object with its parameters.")] = None


class ConditionsStatus(Wire):
    """State that is nothing but conditions."""

    conditions: Annotated[FewConditions, about("Whether it is active, and why not.")] = ()


class AdmissionCheck(KubeObject):
    """A further condition that workloads must meet before they are admitted."""

    spec: Annotated[AdmissionCheckSpec, about("Controller and parameters of the check.")] = AdmissionCheckSpec()
    status: Annotated[ConditionsStatus, about("State of the check.")] = ConditionsStatus()


class ProvisioningRetryStrategy(Wire):
    """How often, and how soon, a failed request is repeated."""

    backoff_limit_count: Annotated[Int32, about("How many times; 0 for never.")] = 3
    backoff_base_seconds: Annotated[Int32, about("First wait, which doubles each time.")] = 60
    backoff_max_seconds: Annotated[Int32, about("Longest wait.")] = 1800


class ProvisioningNodeSelector(Wire):
    """A node label to select, whose value the autoscaler provides."""

    key: Annotated[LabelKey, about("Key of the node label.")]
    value_from_provisioning_class_detail: Annotated[
        str, about("Detail of the ProvisioningRequest's status that holds the value.", minLength=1, maxLength=32768)
    ]


class ProvisioningPodSetUpdates(Wire):
    """What is added to pods once their nodes are provisioned."""

    node_selector: Annotated[
        tuple[ProvisioningNodeSelector, ...], about("Node labels to select."), keyed("key", maxItems=8)
    ] = ()


class ProvisioningRequestConfigSpec(Wire):
    """What to ask the autoscaler for, and how."""

    provisioning_class_name: Annotated[ObjectName, about("Class of the requests.", required=True, minLength=1)] = ""
    parameters: Annotated[
        Mapping[str, Annotated[str, limited(maxLength=255)]], about("Parameters of the class.", maxProperties=100)
    ] = msgspec.field(default_factory=dict)
    managed_resources: Annotated[
        tuple[str, ...],
        about("Resources that make a request necessary; none means any.", maxItems=100, x_kubernetes_list_type="set"),
    ] = ()
    pod_set_merge_policy: Annotated[
        Literal["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"] | None,
        about("Which pod sets are requested together."),
    ] = None
    pod_set_updates: Annotated[ProvisioningPodSetUpdates | None, about("What is added to pods afterwards.")] = None
    retry_strategy: Annotated[
        ProvisioningRetryStrategy,
        about(
            "Retries after a failure.",
            default={"backoffBaseSeconds": 60, "backoffLimitCount": 3, "backoffMaxSeconds": 1800},
        ),
    ] = ProvisioningRetryStrategy()


class ProvisioningRequestConfig(KubeObject):
    """Parameters of a check that has nodes provisioned."""

    spec: Annotated[ProvisioningRequestConfigSpec, about("What to request.")] = ProvisioningRequestConfigSpec()


class MultiKueueConfigSpec(Wire):
    """Which clusters take part."""

    clusters: Annotated[
        tuple[ClusterName, ...],
        about(
            "MultiKueueClusters to try, in order.",
            required=True,
            minItems=1,
            maxItems=20,
            x_kubernetes_list_type="atomic",
        ),
    ] = ()
    quota_management: Annotated[
        Literal["Manual", "Automated"] | None, about("Whether the manager's quota follows the workers'.")
    ] = None


class MultiKueueConfig(KubeObject):
    """Parameters of a check that sends workloads to other clusters."""

    spec: Annotated[MultiKueueConfigSpec, about("Which clusters take part.")] = MultiKueueConfigSpec()


class KubeConfig(Wire):
    """Where the credentials for a cluster are kept."""

    location: Annotated[ClusterRefName, about("Name of the Secret, or path of the file.")]
    location_type: Annotated[Literal["Secret", "Path"], about("Which of the two the location is.")] = "Secret"


class ClusterProfileReference(Wire):
    """A reference to the ClusterProfile that describes a cluster."""

    name: Annotated[ClusterRefName, about("Name of the ClusterProfile.")]


class ClusterSource(Wire):
    """How to reach a cluster: exactly one way."""

    kube_config: Annotated[KubeConfig | None, about("By a kubeconfig.")] = None
    cluster_profile_ref: Annotated[ClusterProfileReference | None, about("By a ClusterProfile.")] = None


class MultiKueueClusterSpec(Wire):
    """How to reach a cluster."""

    cluster_source: Annotated[ClusterSource, about("How to reach it.", required=True)] = ClusterSource()


class MultiKueueCluster(KubeObject):
    """Another cluster that can run workloads."""

    spec: Annotated[MultiKueueClusterSpec, about("How to reach it.")] = MultiKueueClusterSpec()
    status: Annotated[ConditionsStatus, about("Whether it is connected.")] = ConditionsStatus()


class PodTemplateReference(Wire):
    """A PodTemplate of the same namespace."""

    name: Annotated[ObjectName, about("Name of the PodTemplate.")]


class ProvisioningPodSet(Wire):
    """A number of pods of one template."""

    pod_template_ref: Annotated[PodTemplateReference, about("Template of the pods.")]
    count: Annotated[Positive, about("Number of pods.")]


class ProvisioningRequestSpec(Wire):
    """Pods that need nodes."""

    pod_sets: Annotated[tuple[ProvisioningPodSet, ...], about("The pods.", required=True, minItems=1, maxItems=32)] = ()
    provisioning_class_name: Annotated[ObjectName, about("Class that provisions the nodes.", required=True)] = ""
    parameters: Annotated[
        Mapping[str, Annotated[str, limited(maxLength=255)]], about("Parameters of the class.", maxProperties=100)
    ] = msgspec.field(default_factory=dict)


class ProvisioningRequestStatus(Wire):
    """What the autoscaler reports."""

    conditions: Annotated[Conditions, about("State of the request.")] = ()
    provisioning_class_details: Annotated[
        Mapping[str, Annotated[str, limited(maxLength=32768)]],
        about("Details that the class reports.", maxProperties=64),
    ] = msgspec.field(default_factory=dict)


class ProvisioningRequest(KubeObject):
    """A request to the cluster autoscaler for nodes (autoscaling.x-k8s.io/v1)."""

    spec: Annotated[ProvisioningRequestSpec, about("Pods that need nodes.", required=True)] = ProvisioningRequestSpec()
    status: Annotated[ProvisioningRequestStatus, about("What the autoscaler reports.")] = ProvisioningRequestStatus()
