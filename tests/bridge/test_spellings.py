"""Do the API and the engine, which may not import each other, spell the same things the same way?"""

from enum import StrEnum
from typing import get_args

import pytest

from pykueue.api.config.types import RequeuingStrategy
from pykueue.api.core import Condition
from pykueue.api.kueue import (
    BorrowWithinCohort,
    ClusterQueuePreemption,
    ClusterQueueSpec,
    FlavorFungibility,
    LocalQueueSpec,
)
from pykueue.api.names import GROUP, Annotation, Finalizer, Label, WorkloadCondition
from pykueue.api.schema import mistakes, node_of
from pykueue.engine.decisions import DeactivationCause, EvictionReason, PreemptionReason, RequeueReason, WaitReason
from pykueue.engine.model import Fungible, Policy, Preference, StopPolicy, Strategy, Timestamp


def offered(*fields: tuple[type, str]) -> set[str]:
    """The values that the schema offers for these fields together."""
    found: set[str] = set()
    for struct, field in fields:
        enum = node_of(struct).properties[field].node.limits["enum"]
        assert isinstance(enum, list)
        found.update(enum)
    return found


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        pytest.param(Strategy, [(ClusterQueueSpec, "queueingStrategy")], id="queueing strategy"),
        pytest.param(StopPolicy, [(ClusterQueueSpec, "stopPolicy")], id="stop policy of a cluster queue"),
        pytest.param(StopPolicy, [(LocalQueueSpec, "stopPolicy")], id="stop policy of a local queue"),
        pytest.param(
            Policy,
            [
                (ClusterQueuePreemption, "withinClusterQueue"),
                (ClusterQueuePreemption, "reclaimWithinCohort"),
                (BorrowWithinCohort, "policy"),
            ],
            id="preemption",
        ),
        pytest.param(Fungible, [(FlavorFungibility, "whenCanBorrow")], id="when it can borrow"),
        pytest.param(Fungible, [(FlavorFungibility, "whenCanPreempt")], id="when it can preempt"),
        pytest.param(Preference, [(FlavorFungibility, "preference")], id="preference"),
    ],
)
def test_the_engine_knows_each_word_of_the_schema(words: type[StrEnum], fields: list[tuple[type, str]]) -> None:
    assert {word.value for word in words} == offered(*fields)


def test_the_order_of_evicted_workloads_is_spelled_as_the_configuration_spells_it() -> None:
    assert {word.value for word in Timestamp} == set(get_args(RequeuingStrategy.__annotations__["timestamp"]))


@pytest.mark.parametrize("reasons", [WaitReason, EvictionReason, PreemptionReason, RequeueReason, DeactivationCause])
def test_a_reason_fits_into_a_condition(reasons: type[StrEnum]) -> None:
    reason = node_of(Condition).properties["reason"].node
    for word in reasons:
        assert not list(mistakes(reason, word.value, "reason"))


def test_an_eviction_by_preemption_is_named_after_its_condition() -> None:
    assert EvictionReason.PREEMPTED.value == WorkloadCondition.PREEMPTED.value


@pytest.mark.parametrize("keys", [Label, Annotation, Finalizer])
def test_keys_are_of_a_group_that_is_kueues_the_autoscalers_or_our_own(keys: type[StrEnum]) -> None:
    for key in keys:
        assert key.value.partition("/")[0].endswith((GROUP, "autoscaling.x-k8s.io", "pykueue.io"))
