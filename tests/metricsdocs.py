"""Write the tables of docs/metrics.md from the families in the code: `make metrics-docs`. A test compares."""

from collections.abc import Iterable, Mapping
from typing import Final

from pykueue.controllers.metrics import families, selfmetrics, watchdog
from pykueue.controllers.metrics.families import ROLE, Family, Kind
from tests.storyfile import ROOT

PAGE: Final = ROOT / "docs/metrics.md"
LEFT_OUT: Final[Mapping[str, str]] = {
    "kueue_pod_scheduling_gate_removal_seconds": "pods as a kind of job are not supported",
    "multikueue_workloads_dispatched_total": "MultiKueue is not supported",
    "multikueue_workloads_admitted_total": "MultiKueue is not supported",
    "kueue_replaced_workload_slices_total": "elastic jobs are not supported; Kueue itself does not expose it either",
}
"""Families of Kueue that we do not have, with the reason."""
OURS: Final = "pykueue_"


def labels_of(family: Family) -> str:
    """The labels of a family, without the role, which all have."""
    return ", ".join(f"`{label}`" for label in family.labels if label != ROLE)


def table(shown: Iterable[Family]) -> str:
    """A table of families."""
    head = ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
    rows = [
        f"| `{one.name}` | {one.kind.value} | {labels_of(one)} | {one.help.replace(chr(10), ' ')} |" for one in shown
    ]
    return "\n".join([*head, *rows])


def left_out() -> str:
    """A table of the omitted families."""
    return "\n".join(
        ["| metric | reason |", "| --- | --- |", *(f"| `{name}` | {why} |" for name, why in LEFT_OUT.items())]
    )


def sources() -> str:
    """A table of the kinds of objects whose custom labels families have."""
    rows = ["| kind | metrics that have its labels |", "| --- | --- |"]
    for kind in ("ClusterQueue", "Cohort", "LocalQueue"):
        number = sum(family.source == kind for family in families.ALL)
        rows.append(f"| {kind} | the {number} metrics of this kind |")
    also = ", ".join(f"`{family.name}`" for family in families.ALL if family.by_workload)
    return "\n".join([*rows, f"| Workload | {also} |"])


def buckets() -> str:
    """A table of the sets of buckets."""
    found: dict[tuple[float, ...], list[str]] = {}
    for family in families.ALL:
        if family.kind is Kind.HISTOGRAM:
            found.setdefault(family.buckets, []).append(family.name)
    rows = ["| buckets, in seconds | metrics |", "| --- | --- |"]
    for bounds, names in found.items():
        shown = ", ".join(f"{bound:g}" for bound in bounds)
        rows.append(f"| {shown} | {', '.join(f'`{name}`' for name in names)} |")
    return "\n".join(rows)


def tables() -> dict[str, str]:
    """Every table by the name of its place."""
    mine = [*selfmetrics.ALL, watchdog.DELAY, watchdog.LONGEST]
    return {
        "families of Kueue": table(family for family in families.ALL if not family.name.startswith(OURS)),
        "families of our own": table(family for family in (*families.ALL, *mine) if family.name.startswith(OURS)),
        "families of controllers": table(family for family in mine if not family.name.startswith(OURS)),
        "left out": left_out(),
        "custom labels": sources(),
        "buckets": buckets(),
    }


def page(text: str) -> str:
    """The page with its tables written again."""
    for name, rows in tables().items():
        before, begin, rest = text.partition(f"<!-- begin: {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert end, f"{PAGE.name}: has no place for the table of {name}"
        text = f"{before}{begin}{rows}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
