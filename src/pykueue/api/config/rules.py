"""Validation of a Configuration, with Kueue's messages; reports all broken rules at once."""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Final

import msgspec

from pykueue.api.config.devices import device_errors
from pykueue.api.config.types import (
    DISPATCH_INCREMENTAL,
    FRAMEWORKS,
    NAMESPACE_NAME_LABEL,
    SPARK,
    SYSTEM_NAMESPACE,
    AccessProvider,
    Configuration,
    CustomLabel,
    LeaderElection,
    Transformation,
    WaitForPodsReady,
    everywhere_but,
)
from pykueue.api.core import matches
from pykueue.api.durations import Micros, format_duration
from pykueue.api.fields import (
    NEGATIVE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from pykueue.api.labels import (
    LABEL_BYTES_MAX,
    dns_label,
    dns_subdomain,
    ill_formed,
    label_value,
    longer_than,
    qualified_name,
    selector_errors,
    size_bytes,
)

SPECIFY: Final = "must be specified"
POD: Final = "pod"
PODS: Final = "pods"
RESERVED: Final = "this name is reserved for the number of pods; choose another"
FINAL_SHARE: Final = "LessThanOrEqualToFinalShare"
INITIAL_SHARE: Final = "LessThanInitialShare"
STRATEGIES: Final = ((FINAL_SHARE,), (INITIAL_SHARE,), (FINAL_SHARE, INITIAL_SHARE))
DNS_1035_FORM: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
DNS_1035_SAYS: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
CUSTOM_NAME_FORM: Final = "[a-zA-Z][a-zA-Z0-9_]*"
CUSTOM_LABELS_MAX: Final = 20
CUSTOM_LABELS_PER_KIND: Final = {"ClusterQueue": 6, "Cohort": 6, "LocalQueue": 6, "Workload": 2}
TRACKED_MAX: Final = 16
TRACKED_OF_WORKLOAD_MAX: Final = 12
PORT_MAX: Final = 65535
PORT_SAYS: Final = f"must be a valid port number (1-{PORT_MAX})"
NOT_SERVED: Final = "0"
"""The address that turns an endpoint off."""
JITTER_PERCENT: Final = 120
"""The longest wait between two attempts of an election, of the retryPeriod."""
TLS_VERSIONS: Final = ("VersionTLS12", "VersionTLS13")
CURVES: Final = frozenset({23, 24, 25, 29, 4587, 4588, 4589})
CIPHER_SUITES: Final = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
        "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_RSA_WITH_RC4_128_SHA",
    }
)


def violations(configuration: Configuration, gates: Mapping[str, bool]) -> tuple[FieldError, ...]:
    """All errors of a complete Configuration."""
    return (
        *pods_ready_errors(configuration.wait_for_pods_ready),
        *integration_errors(configuration, gates),
        *multi_kueue_errors(configuration),
        *fair_sharing_errors(configuration),
        *certificate_errors(configuration),
        *resource_errors(configuration, gates),
        *device_errors(configuration.resources.device_class_mappings, gates),
        *namespace_errors(configuration),
        *retention_errors(configuration),
        *tls_errors(configuration),
        *visibility_errors(configuration),
        *endpoint_errors(configuration),
        *election_errors(configuration.leader_election),
        *custom_label_errors(configuration.metrics.custom_labels),
    )


def negative(path: str, value: Micros | int | None, *, counted: bool = False) -> Iterator[FieldError]:
    """The error for a negative duration or count."""
    if value is not None and value < 0:
        yield invalid(path, value if counted else format_duration(Micros(value)), NEGATIVE)


def pods_ready_errors(waiting: WaitForPodsReady | None) -> Iterator[FieldError]:
    """Errors in the settings of waitForPodsReady."""
    if waiting is None:
        return
    if waiting.timeout == 0:
        yield required("waitForPodsReady.timeout", SPECIFY)
    yield from negative("waitForPodsReady.timeout", waiting.timeout)
    # An absent recovery timeout equals the timeout, which has an error of its own.
    if waiting.recovery_timeout != waiting.timeout:
        yield from negative("waitForPodsReady.recoveryTimeout", waiting.recovery_timeout)
    strategy, path = waiting.requeuing_strategy, "waitForPodsReady.requeuingStrategy"
    yield from negative(f"{path}.backoffLimitCount", strategy.backoff_limit_count, counted=True)
    yield from negative(f"{path}.backoffBaseSeconds", strategy.backoff_base_seconds, counted=True)
    yield from negative(f"{path}.backoffMaxSeconds", strategy.backoff_max_seconds, counted=True)


def integration_errors(configuration: Configuration, gates: Mapping[str, bool]) -> Iterator[FieldError]:
    """Errors in the integrations: the job kinds to queue."""
    taken: set[str] = set()
    for index, framework in enumerate(configuration.integrations.frameworks):
        path = f"integrations.frameworks[{index}]"
        kind = FRAMEWORKS.get(framework)
        if kind is None:
            yield not_supported(path, framework, FRAMEWORKS)
        elif kind in taken:
            yield duplicate(path, framework)
        elif framework == SPARK and not gates["SparkApplicationIntegration"]:
            yield forbidden(
                path, "needs the feature gate SparkApplicationIntegration; turn it on, or remove the framework"
            )
        taken.add(kind or framework)
    for index, external in enumerate(configuration.integrations.external_frameworks):
        path = f"integrations.externalFrameworks[{index}]"
        if not names_kind(external):
            yield invalid(path, external, "must be format, 'Kind.version.group.com'")
        elif external in taken:
            yield duplicate(path, external)
        taken.add(external)


def names_kind(text: str) -> bool:
    """Whether the text has the form `Kind.version.group`; the group may contain more dots."""
    return text.count(".") > 1


def multi_kueue_errors(configuration: Configuration) -> Iterator[FieldError]:
    """Errors in the settings of MultiKueue."""
    section = configuration.multi_kueue
    if section is None:
        return
    yield from negative("multiKueue.gcInterval", section.gc_interval)
    yield from negative("multiKueue.workerLostTimeout", section.worker_lost_timeout)
    if messages := label_value(section.origin):
        yield invalid("multiKueue.origin", section.origin, ",".join(messages))
    known = {FRAMEWORKS.get(framework) for framework in configuration.integrations.frameworks}
    seen: set[str] = set()
    for index, external in enumerate(section.external_frameworks):
        path = f"multiKueue.externalFrameworks[{index}].name"
        if not names_kind(external.name):
            yield invalid(path, external.name, "must be in 'kind.version.group' format")
            continue
        if external.name in seen:
            yield duplicate(path, external.name)
        if external.name in known:
            yield invalid(path, external.name, "conflicts with a built-in MultiKueue adapter")
        seen.add(external.name)
    if profile := section.cluster_profile:
        path = "multiKueue.clusterProfile"
        if profile.access_providers and profile.credentials_providers:
            yield forbidden(f"{path}.credentialsProviders", "must not be specified when accessProviders is specified")
        chosen = "accessProviders" if profile.access_providers else "credentialsProviders"
        for index, provider in enumerate(profile.access_providers or profile.credentials_providers):
            yield from provider_errors(provider, f"{path}.{chosen}[{index}]")
    if increments := section.incremental_dispatcher_config:
        path = "multiKueue.incrementalDispatcherConfig"
        if section.dispatcher_name != DISPATCH_INCREMENTAL:
            yield invalid(
                path,
                msgspec.to_builtins(increments),
                "incrementalDispatcherConfig is only valid when dispatcherName is set to the incremental dispatcher",
            )
        if increments.step_size < 1:
            yield invalid(f"{path}.stepSize", increments.step_size, "must be greater than or equal to 1")


def provider_errors(provider: AccessProvider, path: str) -> Iterator[FieldError]:
    """Errors in a credentials provider."""
    program, below = provider.exec_config, f"{path}.execConfig"
    if not provider.name:
        yield required(f"{path}.name", SPECIFY)
    if not program.command:
        yield required(f"{below}.command", SPECIFY)
    if not program.api_version:
        yield required(f"{below}.apiVersion", SPECIFY)
    for index, variable in enumerate(program.env):
        if not variable.name:
            yield required(f"{below}.env[{index}].name", SPECIFY)
    modes = ("Never", "IfAvailable", "Always")
    if not program.interactive_mode:
        yield required(f"{below}.interactiveMode", SPECIFY)
    elif program.interactive_mode not in modes:
        yield not_supported(f"{below}.interactiveMode", program.interactive_mode, modes)


def fair_sharing_errors(configuration: Configuration) -> Iterator[FieldError]:
    """Errors in fair sharing or admission fair sharing."""
    shares, admission = configuration.fair_sharing, configuration.admission_fair_sharing
    if shares is not None and not shares.preemption_strategies:
        yield required("fairSharing.preemptionStrategies", SPECIFY)
    elif shares is not None and shares.preemption_strategies not in STRATEGIES:
        offer = (",".join(strategies) for strategies in STRATEGIES)
        yield not_supported("fairSharing.preemptionStrategies", list(shares.preemption_strategies), offer)
    if admission is not None:
        path = "admissionFairSharing"
        yield from negative(f"{path}.usageHalfLifeTime", admission.usage_half_life_time)
        if admission.usage_sampling_interval <= 0:
            shown = format_duration(admission.usage_sampling_interval)
            yield invalid(f"{path}.usageSamplingInterval", shown, "must be greater than 0")
        for resource, weight in sorted(admission.resource_weights.items()):
            if weight < 0:
                yield invalid(f"{path}.resourceWeights[{resource}]", weight, NEGATIVE)


def certificate_errors(configuration: Configuration) -> Iterator[FieldError]:
    """Errors in the names in the internal certificate management."""
    section = configuration.internal_cert_management
    if not section.enable:
        return
    service, secret = section.webhook_service_name, section.webhook_secret_name
    if service is not None and (messages := dns_1035_label(service)):
        yield invalid("internalCertManagement.webhookServiceName", service, ",".join(messages))
    if secret is not None and (messages := dns_subdomain(secret)):
        yield invalid("internalCertManagement.webhookSecretName", secret, ",".join(messages))


def dns_1035_label(text: str) -> tuple[str, ...]:
    """Messages for a text that is not a DNS-1035 label, which the name of a Service must be."""
    found = [longer_than(LABEL_BYTES_MAX)] if size_bytes(text) > LABEL_BYTES_MAX else []
    if not re.fullmatch(DNS_1035_FORM, text):
        found.append(ill_formed(DNS_1035_SAYS, DNS_1035_FORM, "my-name", "abc-123"))
    return tuple(found)


def resource_errors(configuration: Configuration, gates: Mapping[str, bool]) -> Iterator[FieldError]:
    """Errors in the settings of resources."""
    section = configuration.resources
    inputs: set[str] = set()
    for index, transformation in enumerate(section.transformations):
        if transformation.input in inputs:
            yield duplicate(f"resources.transformations[{index}].input", transformation.input)
        inputs.add(transformation.input)
        if gates["ReservedResourceNameValidation"]:
            yield from reserved_errors(transformation, f"resources.transformations[{index}]")
    ignores = section.quota_check_strategy == "IgnoreUndeclared"
    if gates["QuotaCheckStrategy"] and ignores and section.exclude_resource_prefixes:
        yield invalid(
            "resources.quotaCheckStrategy",
            section.quota_check_strategy,
            "excludeResourcePrefixes is not allowed when quotaCheckStrategy is IgnoreUndeclared",
        )


def reserved_errors(transformation: Transformation, path: str) -> Iterator[FieldError]:
    """The places at which a transformation uses `pods`, which always counts the pods of a pod set."""
    if transformation.input == PODS:
        yield invalid(f"{path}.input", PODS, RESERVED)
    if PODS in transformation.outputs:
        yield invalid(f"{path}.outputs[{PODS}]", PODS, RESERVED)


def namespace_errors(configuration: Configuration) -> Iterator[FieldError]:
    """Errors in the selector of managed namespaces."""
    selector, path = configuration.managed_jobs_namespace_selector, "managedJobsNamespaceSelector"
    if selector is None:
        if POD in configuration.integrations.frameworks:
            yield required(path, "cannot be empty when pod integration is enabled")
        return
    if configuration.namespace and (messages := dns_label(configuration.namespace)):
        yield invalid("namespace", configuration.namespace, ",".join(messages))
        if selector == everywhere_but(SYSTEM_NAMESPACE, configuration.namespace):
            # The selector is our default, so the user cannot correct it.
            return
    tree = msgspec.json.decode(msgspec.json.encode(selector))
    broken = tuple(selector_errors(tree, path))
    yield from broken
    # What a malformed selector matches says nothing about the intended one.
    for namespace in dict.fromkeys((SYSTEM_NAMESPACE, configuration.namespace)) if not broken else ():
        if namespace and matches(selector, {NAMESPACE_NAME_LABEL: namespace}):
            yield invalid(path, tree, f'should not match the "{namespace}" namespace')


def retention_errors(configuration: Configuration) -> Iterator[FieldError]:
    """Errors in the retention policies."""
    policy, path = configuration.object_retention_policies.workloads, "objectRetentionPolicies.workloads"
    yield from negative(f"{path}.afterFinished", policy.after_finished)
    yield from negative(f"{path}.afterDeactivatedByKueue", policy.after_deactivated_by_kueue)


def tls_errors(configuration: Configuration) -> Iterator[FieldError]:
    """Errors in the TLS settings of the servers."""
    section = configuration.tls
    if section is None:
        return
    if section.min_version not in TLS_VERSIONS:
        yield not_supported("tls.minVersion", section.min_version, TLS_VERSIONS)
    for index, suite in enumerate(section.cipher_suites):
        if suite not in CIPHER_SUITES:
            yield not_supported(f"tls.cipherSuites[{index}]", suite, sorted(CIPHER_SUITES))
    if section.min_version == "VersionTLS13" and section.cipher_suites:
        detail = "may not be specified when `minVersion` is 'VersionTLS13'"
        yield invalid("tls.cipherSuites", list(section.cipher_suites), detail)
    for index, curve in enumerate(section.curve_preferences):
        if curve not in CURVES:
            yield not_supported(f"tls.curvePreferences[{index}]", curve, map(str, sorted(CURVES)))


def visibility_errors(configuration: Configuration) -> Iterator[FieldError]:
    """Errors in the settings of the visibility server."""
    section = configuration.visibility_server
    try:
        ip_address(section.bind_address)
    except ValueError:
        yield invalid("visibilityServer.bindAddress", section.bind_address, "must be a valid IP address")
    if not 1 <= section.bind_port <= PORT_MAX:
        yield invalid("visibilityServer.bindPort", section.bind_port, PORT_SAYS)


def endpoint_errors(configuration: Configuration) -> Iterator[FieldError]:
    """Addresses at which nothing can be served."""
    port = configuration.webhook.port
    if not 0 <= port <= PORT_MAX:
        yield invalid("webhook.port", port, PORT_SAYS)
    addresses = {
        "metrics.bindAddress": configuration.metrics.bind_address,
        "health.healthProbeBindAddress": configuration.health.health_probe_bind_address,
    }
    for path, address in addresses.items():
        _, colon, last = address.rpartition(":")
        if address != NOT_SERVED and not (colon and re.fullmatch("[0-9]{1,5}", last) and int(last) <= PORT_MAX):
            yield invalid(
                path, address, f"must be host:port, or :port for all interfaces, with a port up to {PORT_MAX}"
            )


def election_errors(section: LeaderElection) -> Iterator[FieldError]:
    """Durations with which no election can be held, by the rules of client-go."""
    if not section.leader_elect:
        return
    lease, renew, retry = section.lease_duration, section.renew_deadline, section.retry_period
    spans = {"leaseDuration": lease, "renewDeadline": renew, "retryPeriod": retry}
    if any(span <= 0 for span in spans.values()):
        for name, span in spans.items():
            if span <= 0:
                yield invalid(f"leaderElection.{name}", format_duration(span), "must be greater than zero")
        return
    if lease <= renew:
        detail = f"must be greater than renewDeadline, which is {format_duration(renew)}"
        yield invalid("leaderElection.leaseDuration", format_duration(lease), detail)
    if renew <= retry * JITTER_PERCENT // 100:
        detail = f"must be greater than 1.2 times retryPeriod, which is {format_duration(retry)}"
        yield invalid("leaderElection.renewDeadline", format_duration(renew), detail)


def custom_label_errors(labels: tuple[CustomLabel, ...]) -> Iterator[FieldError]:
    """Errors in the custom labels of metrics."""
    at = "metrics.customLabels"
    if len(labels) > CUSTOM_LABELS_MAX:
        yield too_many(at, len(labels), CUSTOM_LABELS_MAX)
    names: set[str] = set()
    counts: dict[str, int] = {}
    for index, label in enumerate(labels):
        path = f"{at}[{index}]"
        if not re.fullmatch(CUSTOM_NAME_FORM, label.name):
            yield invalid(f"{path}.name", label.name, f"must match ^{CUSTOM_NAME_FORM}$")
        if label.name in names:
            yield duplicate(f"{path}.name", label.name)
        names.add(label.name)
        counts[label.source_kind] = counts.get(label.source_kind, 0) + 1
        yield from custom_source_errors(label, path)
    for kind, count in sorted(counts.items()):
        most = CUSTOM_LABELS_PER_KIND.get(kind)
        if most is None:
            yield invalid(at, kind, f"unknown source kind: {kind}")
        elif count > most:
            yield invalid(
                at, count, f"too many custom labels for source kind {kind}: found {count}, expected <= {most}"
            )


def custom_source_errors(label: CustomLabel, path: str) -> Iterator[FieldError]:
    """Errors in the source of a custom label."""
    if label.source_label_key and label.source_annotation_key:
        tree = msgspec.to_builtins(label)
        yield invalid(path, tree, "sourceLabelKey and sourceAnnotationKey are mutually exclusive")
    sources = {"sourceLabelKey": label.source_label_key, "sourceAnnotationKey": label.source_annotation_key}
    field, key = next(((field, key) for field, key in sources.items() if key), ("name", label.name))
    if messages := qualified_name(key):
        yield invalid(f"{path}.{field}", key, "; ".join(messages))
    values, below = list(label.tracked_values), f"{path}.trackedValues"
    if label.source_kind == "Workload" and not values:
        yield invalid(below, values, "must not be empty when sourceKind is 'Workload'")
    elif label.source_kind == "Workload" and len(values) > TRACKED_OF_WORKLOAD_MAX:
        detail = f"must not be greater than {TRACKED_OF_WORKLOAD_MAX} when sourceKind is 'Workload'"
        yield invalid(below, values, detail)
    elif len(values) > TRACKED_MAX:
        yield too_many(below, len(values), TRACKED_MAX)
    if len(set(values)) < len(values):
        yield invalid(below, values, "must not contain duplicates")
