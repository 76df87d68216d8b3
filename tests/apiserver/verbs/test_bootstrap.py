"""Tests of what is there from the beginning."""

import contextlib

from pykueue.apiserver.verbs.bootstrap import begin
from tests.apiserver.desk import Desk


def test_every_cluster_has_its_namespaces_and_classes() -> None:
    with contextlib.closing(Desk()) as desk:
        assert desk.names("namespaces") == ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert desk.names("priorityclasses") == ["system-cluster-critical", "system-node-critical"]
        version = desk.store.version
        desk.run(begin(desk.registry))
        assert desk.store.version == version
