"""Parameters of an installation, and the labels and account that all its objects share."""

from typing import Final, Literal

from pykueue.api.config.types import DEFAULT_NAMESPACE, WEBHOOK_SECRET, WEBHOOK_SERVICE, Configuration
from pykueue.api.core import Tree
from pykueue.base.struct import Frozen

ACCOUNT: Final = "kueue-controller-manager"
SELECTED: Final[Tree] = {"control-plane": "controller-manager"}
"""The labels by which Kueue's Deployment and Services find its pods; a selector cannot be changed afterwards."""
LABELS: Final[Tree] = {"app.kubernetes.io/name": "kueue", **SELECTED}
"""The labels of all objects of an installation, as in Kueue's: its ServiceMonitor selects by them."""


class Install(Frozen):
    """Parameters of an installation."""

    namespace: str = DEFAULT_NAMESPACE
    image: str = "pykueue:latest"
    replicas: int = 2
    configuration: Configuration = Configuration()
    text: str = ""
    """The Configuration as its author wrote it; empty for the one that we ship."""
    tolerate_unknown_gates: bool = False
    """Whether the manager only warns about feature gates of the Configuration that it does not know."""
    default_queues: Literal["policy", "webhook"] = "policy"
    """How a Job without a queue gets the default one: by a policy of the server, or by our webhook."""

    @property
    def service(self) -> str:
        """The Service of the webhooks."""
        return self.configuration.internal_cert_management.webhook_service_name or WEBHOOK_SERVICE

    @property
    def secret(self) -> str:
        """The Secret with the webhooks' certificate."""
        return self.configuration.internal_cert_management.webhook_secret_name or WEBHOOK_SECRET

    @property
    def makes_certificates(self) -> bool:
        """Whether the manager creates the webhooks' certificate; otherwise the Secret is filled from outside."""
        return self.configuration.internal_cert_management.enable

    @property
    def election_namespace(self) -> str:
        """The namespace of the leader election's Lease."""
        return self.configuration.leader_election.resource_namespace or self.namespace


def named(name: str, namespace: str = "", **labels: str) -> Tree:
    """The metadata of an object of the installation."""
    place: Tree = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": {**LABELS, **labels}}
