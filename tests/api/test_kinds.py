"""Is each kind served as Kueue serves it?"""

from pykueue.api.kinds import DEPRECATED, KINDS
from pykueue.api.kueue import LocalQueue


def test_the_registry_tells_how_kinds_are_served() -> None:
    assert KINDS["LocalQueue"].view is LocalQueue
    assert {name for name, kind in KINDS.items() if kind.scope == "Namespaced"} == {
        "LocalQueue",
        "Workload",
        "ProvisioningRequest",
    }
    assert {name for name, kind in KINDS.items() if kind.group == "kueue.x-k8s.io" and not kind.deprecated} == {
        "MultiKueueConfig"
    }
    assert [column.name for column in KINDS["ClusterQueue"].columns if column.priority == 0] == [
        "Cohort",
        "Pending Workloads",
    ]
    assert "v1beta2" in DEPRECATED


def test_names_that_kubectl_takes_are_told_apart() -> None:
    names = [name for kind in KINDS.values() for name in (kind.plural, *kind.short_names)]
    assert len(names) == len(set(names))
