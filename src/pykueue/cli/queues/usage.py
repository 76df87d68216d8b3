"""How much of their quota cohorts and queues use: pure functions from objects to rows and bars."""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final, Literal

from pykueue.api.names import GROUP
from pykueue.api.trees import Tree, member, text, whole
from pykueue.base.struct import Frozen
from pykueue.base.units import UNLIMITED, amount_text
from pykueue.cli.amounts import readable
from pykueue.cli.formats import Column
from pykueue.cli.queues.quotas import Amounts, lending_limits, quotas, reserved
from pykueue.engine.record.sharetree import share_text
from pykueue.engine.shares import rounded

BAR: Final = 20
"""Characters of a bar."""
OWN, BORROWED, IDLE = "#", "+", "."
KINDS: Final = {"cohort": "cohort", "queue": "clusterqueue", "localqueue": "localqueue"}
"""What kubectl calls the kinds of rows."""


class Usage(Frozen):
    """What a cohort or queue uses of a resource of a flavor; amounts are thousandths of cpu, bytes, or whole units."""

    kind: Literal["cohort", "queue", "localqueue"]
    name: str
    cohort: str
    """The cohort that it is in; the parent of a Cohort. Empty if there is none."""
    flavor: str
    resource: str
    nominal: int | None
    """None for a LocalQueue, which owns nothing."""
    used: int
    borrowed: int
    """What it uses beyond its own quota; for a Cohort, what all below it use of the quota of its parent."""
    lent: int | None
    """What others in a cohort use of it; None for a queue, because a cohort lends as a whole."""
    running: int
    pending: int
    depth: int = 0
    """The number of cohorts above it."""
    share: float | None = None
    """The weighted share per mille, rounded up, infinite for a weight of 0 that borrows; None without fair sharing."""
    weight: str = ""
    """The weight under fair sharing; empty for a cohort without an object."""


class Subtree:
    """The quota of a cohort and what is used of it, as its parent counts them: without what the members do not lend."""

    def __init__(self, quota: Amounts) -> None:
        self.quota = dict(quota)
        self.used: Amounts = {}

    def add(self, quota: Amounts, used: Amounts, limits: Amounts) -> None:
        """Add a member with its quota, what it uses and what it lends at most."""
        for key in {*quota, *used}:
            kept = max(0, quota.get(key, 0) - limits[key]) if key in limits else 0
            self.quota[key] = self.quota.get(key, 0) + quota.get(key, 0) - kept
            self.used[key] = self.used.get(key, 0) + max(0, used.get(key, 0) - kept)

    def borrowed(self) -> Amounts:
        """What is used beyond the quota."""
        return {key: max(0, used - self.quota.get(key, 0)) for key, used in self.used.items()}


def usage(queues: Sequence[Tree], cohorts: Sequence[Tree]) -> list[Usage]:
    """The rows of all cohorts, each followed by its queues and cohorts; queues without a cohort come last."""
    rows: list[Usage] = []
    objects = {name_of(one): one for one in cohorts}
    parents = {name: text(one, "spec", "parentName") for name, one in objects.items()}
    parents |= {name: "" for one in queues if (name := text(one, "spec", "cohortName")) and name not in parents}
    own = {name: quotas(one) for name, one in objects.items()}
    members: dict[str, list[Tree]] = {name: [] for name in [*parents, ""]}
    for one in queues:
        members[text(one, "spec", "cohortName")].append(one)

    def add(name: str, depth: int) -> tuple[list[Usage], Subtree]:
        """Add a cohort and everything below it; return the rows of the queues below it, and its quota and usage."""
        parents.pop(name, None)
        place = len(rows)
        quota = dict(own.get(name, {}))
        below = Subtree(quota)
        found: list[Usage] = []
        for one in sorted(members[name], key=name_of):
            found += queue_rows(one, depth + bool(name))
            below.add(quotas(one), reserved(one), lending_limits(one))
        rows.extend(found)
        for child in sorted(one for one, parent in parents.items() if parent == name):
            more, inner = add(child, depth + 1)
            found = [*found, *more]
            below.add(inner.quota, inner.used, lending_limits(objects.get(child, {})))
            for key, amount in own.get(child, {}).items():
                quota[key] = quota.get(key, 0) + amount
        own[name] = quota
        rows[place:place] = cohort_rows(name, objects.get(name), found, quota, below, depth) if name else []
        return found, below

    roots = sorted(name for name, parent in parents.items() if parent not in parents)
    for name in roots:
        add(name, 0)
    # Cohorts that are their own ancestors have no root.
    while parents:
        add(min(parents), 0)
    add("", 0)
    return rows


def name_of(tree: Tree) -> str:
    """The name of an object."""
    return text(tree, "metadata", "name")


def queue_rows(queue: Tree, depth: int = 0) -> Iterator[Usage]:
    """The rows of a ClusterQueue, in the order of its flavors."""
    name = text(queue, "metadata", "name")
    used = reserved(queue)
    borrowed = reserved(queue, "borrowed")
    for key, nominal in quotas(queue).items():
        yield Usage(
            "queue",
            name,
            text(queue, "spec", "cohortName"),
            *key,
            nominal,
            used.get(key, 0),
            borrowed.get(key, 0),
            None,
            whole(queue, "status", "reservingWorkloads") or 0,
            whole(queue, "status", "pendingWorkloads") or 0,
            depth,
            *sharing(queue),
        )


def sharing(tree: Tree) -> tuple[float | None, str]:
    """The share of a ClusterQueue or Cohort, and its weight; None without fair sharing."""
    share = whole(tree, "status", "fairSharing", "weightedShare")
    weight = member(tree, "spec", "fairSharing", "weight")
    return (inf if share is not None and share >= UNLIMITED else share), "1" if weight is None else str(weight)


def cohort_rows(
    name: str, cohort: Tree | None, members: Sequence[Usage], quota: Amounts, below: Subtree, depth: int
) -> Iterator[Usage]:
    """The sums over the queues below a cohort, with the quota of the Cohorts themselves; it may have no object."""
    parent = "" if cohort is None else text(cohort, "spec", "parentName")
    borrowed = below.borrowed() if parent else {}
    counts = {one.name: (one.running, one.pending) for one in members}
    for key in dict.fromkeys([*quota, *((one.flavor, one.resource) for one in members)]):
        rows = [one for one in members if (one.flavor, one.resource) == key]
        yield Usage(
            "cohort",
            name,
            parent,
            *key,
            quota.get(key, 0) + sum(one.nominal or 0 for one in rows),
            sum(one.used for one in rows),
            borrowed.get(key, 0),
            sum(one.borrowed for one in rows),
            sum(running for running, _ in counts.values()),
            sum(pending for _, pending in counts.values()),
            depth,
            *((None, "") if cohort is None else sharing(cohort)),
        )


def local_rows(queues: Sequence[Tree]) -> list[Usage]:
    """The rows of LocalQueues, for a user who may not read ClusterQueues."""
    return [
        Usage(
            "localqueue",
            text(one, "metadata", "name"),
            "",
            *key,
            None,
            used,
            0,
            None,
            whole(one, "status", "reservingWorkloads") or 0,
            whole(one, "status", "pendingWorkloads") or 0,
        )
        for one in queues
        for key, used in (reserved(one) or {("-", "-"): 0}).items()
    ]


def document(rows: Sequence[Usage]) -> dict[str, object]:
    """The rows for json and yaml, with amounts as quantities."""

    def quantity(row: Usage, value: int | None) -> str | None:
        return None if value is None else amount_text(row.resource, value)

    return {
        "items": [
            {
                "kind": row.kind,
                "name": row.name,
                "cohort": row.cohort,
                "flavor": row.flavor,
                "resource": row.resource,
                "nominal": quantity(row, row.nominal),
                "used": quantity(row, row.used),
                "borrowed": quantity(row, row.borrowed),
                "lent": quantity(row, row.lent),
                "running": row.running,
                "pending": row.pending,
                **({} if row.share is None else {"weightedShare": rounded(row.share), "weight": row.weight}),
            }
            for row in rows
        ]
    }


def bar(row: Usage) -> str:
    """Own quota in use, then borrowed, then idle, each with a sign of its own."""
    whole_bar = max(row.nominal or 0, row.used)
    if not whole_bar:
        return IDLE * BAR
    full = -(-row.used * BAR // whole_bar)
    over = min(full, -(-row.borrowed * BAR // whole_bar))
    return OWN * (full - over) + BORROWED * over + IDLE * (BAR - full)


def may_borrow(row: Usage) -> bool:
    """Whether a row has borrowed quota: that of a queue, or of a cohort that has a parent."""
    return row.kind == "queue" or (row.kind == "cohort" and bool(row.cohort))


def shown(row: Usage, value: int | None) -> str:
    """An amount of the row's resource; a dash if there is none."""
    return "-" if value is None else readable(row.resource, value)


def number(row: Usage, value: int | None) -> str:
    """An amount for programs, as a number of cores, bytes or units; empty if there is none."""
    if value is None:
        return ""
    if row.resource != "cpu":
        return str(value)
    return f"{value // 1000}.{value % 1000:03}".rstrip("0").removesuffix(".")


def object_names(rows: Sequence[Usage]) -> list[str]:
    """The objects of some rows as kubectl names them, each once."""
    return list(dict.fromkeys(f"{KINDS[row.kind]}.{GROUP}/{row.name}" for row in rows))


COLUMNS: Final[Sequence[Column[Usage]]] = (
    Column("NAME", lambda row: f"{'  ' * row.depth}{row.name}"),
    Column("FLAVOR", lambda row: row.flavor, shrinks=True),
    Column("RESOURCE", lambda row: row.resource, shrinks=True),
    Column("USE", bar),
    Column("USED", lambda row: shown(row, row.used), ">"),
    Column("NOMINAL", lambda row: shown(row, row.nominal), ">"),
    Column("BORROWED", lambda row: shown(row, row.borrowed) if may_borrow(row) else "-", ">"),
    Column("LENT", lambda row: shown(row, row.lent), ">"),
    Column("RUNNING", lambda row: str(row.running), ">"),
    Column("PENDING", lambda row: str(row.pending), ">"),
)
CSV: Final[Sequence[Column[Usage]]] = (
    Column("KIND", lambda row: KINDS[row.kind]),
    Column("NAME", lambda row: row.name),
    Column("COHORT", lambda row: row.cohort),
    Column("FLAVOR", lambda row: row.flavor),
    Column("RESOURCE", lambda row: row.resource),
    Column("USED", lambda row: number(row, row.used)),
    Column("NOMINAL", lambda row: number(row, row.nominal)),
    Column("BORROWED", lambda row: number(row, row.borrowed if may_borrow(row) else None)),
    Column("LENT", lambda row: number(row, row.lent)),
    Column("RUNNING", lambda row: str(row.running)),
    Column("PENDING", lambda row: str(row.pending)),
)
"""For programs: amounts are numbers of cores, bytes or units."""
SHARES: Final[Sequence[Column[Usage]]] = (
    Column("SHARE", lambda row: "-" if row.share is None else share_text(row.share), ">"),
    Column("WEIGHT", lambda row: row.weight or "-", ">"),
)
CSV_SHARES: Final[Sequence[Column[Usage]]] = (
    Column("WEIGHTED_SHARE", lambda row: "" if row.share is None else str(rounded(row.share))),
    Column("WEIGHT", lambda row: row.weight),
)
"""For programs: per mille, as in status."""


def columns(rows: Sequence[Usage], *, csv: bool = False) -> Sequence[Column[Usage]]:
    """The columns of a table; shares and weights are shown under fair sharing."""
    fair = any(row.share is not None for row in rows)
    if csv:
        return (*CSV, *CSV_SHARES) if fair else CSV
    return (*COLUMNS, *SHARES) if fair else COLUMNS
