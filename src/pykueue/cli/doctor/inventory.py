"""What `pykueue doctor` examines: decoded objects and what the engine says about them, from a server or from files."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeVar

from pykueue.api.config.file import Loaded
from pykueue.api.core import Tree
from pykueue.api.trees import mapping
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine import model
from pykueue.engine.decisions import Why
from pykueue.engine.record.partial import RIGID, Shrinkable
from pykueue.sim.manifests import Mistake, Object, View

NOT_HERE: Final = "they require a cluster"
"""Why manifests, or the server of one machine, lack something that no user can add."""
NOT_SERVED: Final = "the server does not serve"
SOME_WORKLOAD: Final = "some workload"
"""What manifests of queues alone lack; a server without workloads has none."""

Kind = TypeVar("Kind", bound=View)


class Severity(StrEnum):
    """How bad a finding is; notes alone do not fail the command."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Found(Frozen):
    """What a check found about one object."""

    object: str
    message: str
    remedy: str
    severity: Severity | None = None
    """None means that of the check."""
    where: str = ""
    """The place of what is no object."""


class Wait(Frozen):
    """A workload without quota, and why it waits."""

    object: str
    """Its kind, namespace and name: of the Job if the manifest is one, otherwise of the Workload."""
    queue: str
    """The namespace and name of its LocalQueue."""
    reason: str = ""
    why: Why | None = None
    """The reason as data, where it is known."""
    message: str = ""
    since: Instant | None = None
    shrinkable: Shrinkable = RIGID
    """Its pod sets that may start with fewer pods."""


class ReadConfiguration(Frozen):
    """A Configuration, where it is, and what is wrong with it."""

    where: str
    loaded: Loaded | None
    mistakes: tuple[str, ...] = ()
    tree: Tree = {}


class Manager(StrEnum):
    """The program that manages the queues of a server, as far as its Deployment tells."""

    PYKUEUE = "pykueue"
    OTHER = "other"
    UNKNOWN = "unknown"


class Installation(Frozen):
    """What only a server has: nodes, definitions, webhooks, the Lease and clocks."""

    nodes: tuple[Mapping[str, str], ...] = ()
    """The labels of each node."""
    machine: Mapping[str, int] = {}
    """What the machine of `pykueue up` has of each resource; empty for a cluster, where nodes may be added."""
    definitions: tuple[Tree, ...] = ()
    """The CustomResourceDefinitions of Kueue's kinds."""
    webhooks: tuple[Tree, ...] = ()
    """The webhook configurations with Kueue's names."""
    lease: Tree | None = None
    here: Instant = Instant(0)
    """The date of this machine when the server's was read."""
    there: Instant | None = None
    """The date of the server; None if it does not say."""
    heads: Mapping[str, Wait] = {}
    """The first pending workload of each StrictFIFO ClusterQueue."""


class Inventory(Frozen):
    """Everything that checks may read."""

    live: bool
    objects: Mapping[str, tuple[Object, ...]] = {}
    """By kind; those with mistakes are left out."""
    named: frozenset[tuple[str, str]] = frozenset()
    """Kind and key of every object, also of those with mistakes."""
    mistakes: tuple[tuple[Mistake, str], ...] = ()
    """What is wrong with objects, each with the id of its check."""
    others: tuple[tuple[str, str], ...] = ()
    """Kind and name of jobs in queues, of kinds that are not queued here."""
    unread: Mapping[str, str] = {}
    """Kinds that could not be read, each with the reason.

    Also what is no kind: `Date` and `Status` of a server, and `Position` in line.
    """
    queues: Mapping[str, model.ClusterQueue] = {}
    cohorts: Mapping[str, model.Cohort] = {}
    namespaces: Mapping[str, model.Namespace] = {}
    """Only those whose labels are known."""
    inactive: Mapping[str, Mapping[str, str]] = {}
    """Why ClusterQueues cannot admit: by queue and reason, the text."""
    inactive_checks: Mapping[str, str] = {}
    """AdmissionChecks that are not active, and why."""
    capacities: Mapping[tuple[str, str, str], int] = {}
    """The most that a ClusterQueue can ever have of a flavor and resource."""
    waits: tuple[Wait, ...] = ()
    pending: Mapping[str, int] = {}
    """How many workloads of each ClusterQueue wait."""
    priorities: frozenset[int] = frozenset()
    """Those of workloads and jobs."""
    classes: frozenset[str] = frozenset()
    """The WorkloadPriorityClasses that workloads and jobs name."""
    configurations: tuple[ReadConfiguration, ...] = ()
    manager: Manager = Manager.PYKUEUE
    installation: Installation = Installation()

    def each(self, view: type[Kind]) -> Iterator[tuple[Object, Kind]]:
        """The objects of a kind, with their views."""
        for one in self.objects.get(view.__name__, ()):
            if isinstance(one.view, view):
                yield one, one.view

    @property
    def shares_fairly(self) -> bool:
        """Whether a Configuration enables fair sharing, or a manager has written shares."""
        if any(one.loaded is not None and one.loaded.configuration.fair_sharing for one in self.configurations):
            return True
        sharing = (*self.objects.get("ClusterQueue", ()), *self.objects.get("Cohort", ()))
        return any(mapping(one.tree, "status", "fairSharing") for one in sharing)

    @property
    def counts_past_use(self) -> bool:
        """Whether a Configuration enables admission fair sharing, or a manager has written past use."""
        loaded = (one.loaded for one in self.configurations if one.loaded is not None)
        if any(one.configuration.admission_fair_sharing for one in loaded):
            return True
        queues = self.objects.get("LocalQueue", ())
        return any(mapping(one.tree, "status", "fairSharing", "admissionFairSharingStatus") for one in queues)

    @property
    def lacks_kueue(self) -> bool:
        """Whether the server does not know Kueue's kinds."""
        return self.unread.get("ClusterQueue", "").startswith(NOT_SERVED)

    def has(self, kind: str, key: str) -> bool:
        """Whether there is an object of this kind and name, valid or not."""
        return (kind, key) in self.named


def every(kind: str) -> str:
    """What a check needs that is wrong if it reads the objects of one namespace only; see `Inventory.unread`."""
    return f"every {kind}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def of_rule(inventory: Inventory, check: str, remedy: str) -> Iterator[Found]:
    """The violations of API rules that belong to this check."""
    for one, known in inventory.mistakes:
        if known == check:
            yield Found(one.called or one.where, one.text, remedy)
