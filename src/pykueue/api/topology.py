"""Topology assignments as a plain list of domains, and packed as the API carries them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from pykueue.api.names import HOSTNAME_LABEL
from pykueue.api.workload import (
    IndividualValues,
    LevelValues,
    PodCounts,
    TopologyAssignment,
    TopologySlice,
)
from pykueue.base.struct import Wire

SLICES_MAX: Final = 1000
SLICE_DOMAINS_MAX: Final = 100_000
DOMAINS_MAX: Final = 1_000_000
"""The most domains that an assignment may unpack to.

No cluster has more nodes, and a forged count must not fill memory.
"""


class AssignmentError(ValueError):
    """The assignment contradicts itself."""


class Domain(Wire):
    """A place in the topology, with a name per level, and its number of pods."""

    values: tuple[str, ...]
    count: int


def pack(levels: Sequence[str], domains: Sequence[Domain], *, by_hostname_prefix: bool = False) -> TopologyAssignment:
    """Pack an assignment: one slice; or, on request, one per hostname prefix where that is shorter."""
    for domain in domains:
        if len(domain.values) != len(levels):
            name, given = "/".join(domain.values), len(domain.values)
            raise AssignmentError(f"domain {name} has {given} values for {len(levels)} levels; give it one for each")
    compact = TopologyAssignment(tuple(levels), tuple(packed(domains)))
    if not by_hostname_prefix or not domains or not levels or levels[-1] != HOSTNAME_LABEL:
        return compact
    split = TopologyAssignment(tuple(levels), tuple(slices_by_prefix(domains)))
    return min(compact, split, key=lambda one: len(msgspec.json.encode(one)))


def packed(domains: Sequence[Domain]) -> Iterator[TopologySlice]:
    """As few slices as can hold these domains."""
    for start in range(0, len(domains), SLICE_DOMAINS_MAX):
        chunk = domains[start : start + SLICE_DOMAINS_MAX]
        levels = zip(*(domain.values for domain in chunk), strict=True)
        yield TopologySlice(
            len(chunk), pod_counts([domain.count for domain in chunk]), tuple(level_values(values) for values in levels)
        )


def pod_counts(counts: Sequence[int]) -> PodCounts:
    """One number if all are equal, else one for each."""
    return PodCounts(universal=counts[0]) if len(set(counts)) == 1 else PodCounts(individual=tuple(counts))


def level_values(values: Sequence[str]) -> LevelValues:
    """One name if all are equal, otherwise the individual parts between a common prefix and suffix."""
    if len(set(values)) == 1:
        return LevelValues(universal=values[0])
    low, high = min(values), max(values)
    shortest = min(map(len, values))
    # The common prefix of the first and last text in sorted order is common to all.
    prefix = shared(low, high)
    backwards = [value[::-1] for value in values]
    suffix = shared(min(backwards), max(backwards))
    prefix = min(prefix, shortest - suffix)
    return LevelValues(
        individual=IndividualValues(
            roots=tuple(value[prefix : len(value) - suffix] for value in values),
            prefix=values[0][:prefix] or None,
            suffix=values[0][len(values[0]) - suffix :] or None,
        )
    )


def shared(left: str, right: str) -> int:
    """The length of the common prefix of two texts."""
    return next(
        (index for index, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )


def slices_by_prefix(domains: Sequence[Domain]) -> tuple[TopologySlice, ...]:
    """Slices of neighbours with a common hostname prefix, as fine as the limit on slices allows."""
    names = [domain.values[-1] for domain in domains]
    for depth in range(max(name.count("-") for name in names), 0, -1):
        seen = Counter(prefix for name in names for prefix in prefixes(name, depth))
        keys = [next((one for one in prefixes(name, depth) if seen[one] > 1), "") for name in names]
        found: list[TopologySlice] = []
        for _, group in groupby(zip(keys, domains, strict=True), key=lambda pair: pair[0]):
            found.extend(packed([domain for _, domain in group]))
        if len(found) <= SLICES_MAX:
            return tuple(found)
    return tuple(packed(domains))


def prefixes(name: str, depth: int) -> list[str]:
    """The prefixes of a hostname that end in a dash, of at most this many parts, longest first."""
    parts = name.split("-")
    return ["-".join(parts[:end]) + "-" for end in range(min(depth, len(parts) - 1), 0, -1)]


def unpack(assignment: TopologyAssignment) -> tuple[Domain, ...]:
    """Every domain of the assignment, in order."""
    total = sum(piece.domain_count for piece in assignment.slices)
    if total > DOMAINS_MAX:
        raise AssignmentError(f"slices: {total} domains are too many; assign at most {DOMAINS_MAX}")
    return tuple(
        domain
        for index, piece in enumerate(assignment.slices)
        for domain in unpacked(piece, f"slices[{index}]", levels=len(assignment.levels))
    )


def unpacked(piece: TopologySlice, path: str, *, levels: int) -> Iterator[Domain]:
    """The domains of one slice, in order."""
    if piece.domain_count < 1:
        raise AssignmentError(f"{path}.domainCount: {piece.domain_count} is too few; a slice has at least one domain")
    if len(piece.values_per_level) != levels:
        raise AssignmentError(f"{path}.valuesPerLevel: {len(piece.values_per_level)} entries for {levels} levels")
    columns = []
    for index, names in enumerate(piece.values_per_level):
        columns.append(column(names, f"{path}.valuesPerLevel[{index}]", domains=piece.domain_count))
    counts = piece.pod_counts.individual
    if counts is None:
        if piece.pod_counts.universal is None:
            raise AssignmentError(f"{path}.podCounts: set universal or individual")
        counts = (piece.pod_counts.universal,) * piece.domain_count
    if len(counts) != piece.domain_count:
        raise AssignmentError(f"{path}.podCounts.individual: {len(counts)} counts for {piece.domain_count} domains")
    for index, count in enumerate(counts):
        yield Domain(tuple(names[index] for names in columns), count)


def column(names: LevelValues, path: str, *, domains: int) -> Sequence[str]:
    """The name of each domain at one level."""
    if names.universal is not None:
        return (names.universal,) * domains
    if names.individual is None:
        raise AssignmentError(f"{path}: set universal or individual")
    prefix, suffix = names.individual.prefix or "", names.individual.suffix or ""
    found = tuple(f"{prefix}{root}{suffix}" for root in names.individual.roots)
    if len(found) != domains:
        raise AssignmentError(f"{path}.individual.roots: {len(found)} names for {domains} domains")
    return found
