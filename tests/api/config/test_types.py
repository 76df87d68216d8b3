"""A Configuration that nobody wrote is Kueue's own default."""

import pytest

from pykueue.api.config.file import default_configuration
from pykueue.api.config.types import FRAMEWORKS, Configuration, everywhere_but
from pykueue.api.core import LabelSelectorRequirement
from pykueue.api.durations import format_duration

DEFAULT = default_configuration().configuration


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(DEFAULT.namespace, "kueue-system", id="namespace"),
        pytest.param((DEFAULT.webhook.port, DEFAULT.webhook.host), (9443, ""), id="webhooks"),
        pytest.param(DEFAULT.leader_election.leader_elect, True, id="leader election"),
        pytest.param(format_duration(DEFAULT.leader_election.lease_duration), "15s", id="lease"),
        pytest.param(format_duration(DEFAULT.leader_election.renew_deadline), "10s", id="renewal"),
        pytest.param(format_duration(DEFAULT.leader_election.retry_period), "2s", id="retry"),
        pytest.param(DEFAULT.leader_election.resource_lock, "leases", id="lock"),
        pytest.param(DEFAULT.leader_election.resource_name, "c1f6bfd2.kueue.x-k8s.io", id="name of the lease"),
        pytest.param(DEFAULT.metrics.bind_address, ":8443", id="metrics"),
        pytest.param(DEFAULT.metrics.local_queue_metrics.enable, True, id="metrics of LocalQueues"),
        pytest.param(DEFAULT.health.health_probe_bind_address, ":8081", id="probes"),
        pytest.param(format_duration(DEFAULT.controller.cache_sync_timeout), "2m0s", id="first listing"),
        pytest.param(DEFAULT.controller.group_kind_concurrency, {}, id="concurrency"),
        pytest.param(DEFAULT.tls, None, id="tls"),
        pytest.param(DEFAULT.manage_jobs_without_queue_name, False, id="jobs without a queue"),
        pytest.param(DEFAULT.internal_cert_management.webhook_service_name, "kueue-webhook-service", id="service"),
        pytest.param(DEFAULT.internal_cert_management.webhook_secret_name, "kueue-webhook-server-cert", id="secret"),
        pytest.param((DEFAULT.client_connection.qps, DEFAULT.client_connection.burst), (-1.0, 500), id="client"),
        pytest.param(DEFAULT.integrations.frameworks, ("batch/job",), id="frameworks"),
        pytest.param(DEFAULT.resources.quota_check_strategy, "BlockUndeclared", id="undeclared resources"),
        pytest.param(DEFAULT.object_retention_policies.workloads.after_finished, None, id="retention"),
        pytest.param(DEFAULT.visibility_server.bind_address, "0.0.0.0", id="visibility address"),
        pytest.param(DEFAULT.visibility_server.bind_port, 8082, id="visibility port"),
        pytest.param(
            (DEFAULT.fair_sharing, DEFAULT.admission_fair_sharing, DEFAULT.multi_kueue), (None,) * 3, id="off"
        ),
    ],
)
def test_a_default_is_that_of_kueue(found: object, expected: object) -> None:
    assert found == expected


def test_waiting_for_pods_is_on_though_nobody_asked() -> None:
    waiting = DEFAULT.wait_for_pods_ready
    assert waiting is not None
    assert format_duration(waiting.timeout) == "30m0s"
    assert waiting.recovery_timeout == waiting.timeout
    assert not waiting.block_admission
    strategy = waiting.requeuing_strategy
    assert (strategy.timestamp, strategy.backoff_limit_count) == ("Eviction", None)
    assert (strategy.backoff_base_seconds, strategy.backoff_max_seconds) == (60, 3600)


def test_our_own_namespace_is_left_alone() -> None:
    loaded = default_configuration(namespace="queues")
    assert loaded.configuration.namespace == "queues"
    assert loaded.configuration.managed_jobs_namespace_selector == everywhere_but("kube-system", "queues")
    assert everywhere_but("a").match_expressions == (
        LabelSelectorRequirement("kubernetes.io/metadata.name", "NotIn", ("a",)),
    )


def test_a_kind_has_one_framework() -> None:
    assert len(FRAMEWORKS) == 18
    assert len(set(FRAMEWORKS.values())) == 18


def test_two_configurations_with_the_same_settings_are_equal() -> None:
    assert Configuration() == Configuration()
    assert default_configuration() == default_configuration()
