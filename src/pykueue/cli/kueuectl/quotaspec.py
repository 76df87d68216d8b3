"""Parse the quotas that `create clusterqueue` takes: `FLAVOR:RESOURCE=QUANTITY;RESOURCE=QUANTITY`, separated by commas.

The errors start with kueuectl's own words, and then say what is wrong.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pykueue.api.core import Json, Tree
from pykueue.base.units import QuantityError, parse_quantity

FIELDS: Final[Mapping[str, str]] = {
    "nominal-quota": "nominalQuota",
    "borrowing-limit": "borrowingLimit",
    "lending-limit": "lendingLimit",
}
"""The field of a ClusterQueue's quota that each option sets."""
FLAVOR: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")
RESOURCE: Final = re.compile(r"\w+(?:[.-]\w+)*(?:/\w[\w.-]*)?")
QUANTITY: Final = re.compile(r"[\w.+-]+")


class QuotaSpecError(Exception):
    """Quotas that cannot be parsed, or that do not form resource groups."""


Amounts = dict[str, dict[str, str]]
"""Of one flavor: the fields of each resource, in the order in which the resources are named."""


def resource_groups(given: Mapping[str, Sequence[str]]) -> list[Json]:
    """The resource groups of a ClusterQueue, from the values of the options in `FIELDS`.

    Flavors with the same resources form a group, in the order in which they are named. Groups share no resource.
    """
    flavors: dict[str, Amounts] = {}
    for option, field in FIELDS.items():
        for spec in split(given.get(option, ())):
            name, quotas = parsed(spec, option)
            add(flavors, name, quotas, field)
    groups: dict[frozenset[str], list[str]] = {}
    for name, amounts in flavors.items():
        covered = frozenset(amounts)
        if both := sorted({one for other in groups if other != covered for one in other & covered}):
            raise QuotaSpecError(
                f"invalid resource group: {both[0]} of flavor {name} is in another group too; flavors that share a "
                "resource need the same set of resources"
            )
        groups.setdefault(covered, []).append(name)
    return [
        {
            "coveredResources": [*flavors[names[0]]],
            "flavors": [{"name": name, "resources": resources(flavors[name])} for name in names],
        }
        for names in groups.values()
    ]


def resources(amounts: Amounts) -> list[Json]:
    """The quotas of a flavor; a resource that has only limits has a quota of 0."""
    made: list[Json] = []
    for name, fields in amounts.items():
        quota: Tree = {"name": name, "nominalQuota": "0", **fields}
        made.append(quota)
    return made


def add(flavors: dict[str, Amounts], name: str, quotas: Mapping[str, str], field: str) -> None:
    """Add the quotas of one option to a flavor."""
    known = flavors.get(name)
    if known is not None and known.keys() != quotas.keys():
        raise QuotaSpecError(
            f"invalid flavor: {name} is given with different resources, {', '.join(known)} and {', '.join(quotas)}; "
            "name the same ones each time"
        )
    amounts = flavors.setdefault(name, {})
    for resource, quantity in quotas.items():
        amounts.setdefault(resource, {}).setdefault(field, quantity)


def split(values: Iterable[str]) -> list[str]:
    """The specifications in these values."""
    return [spec.strip() for value in values for spec in value.split(",")]


def parsed(spec: str, option: str) -> tuple[str, dict[str, str]]:
    """The flavor of a specification, and the quantity of each resource."""
    flavor, colon, rest = spec.partition(":")
    pieces = rest.removesuffix(";").split(";")
    if not colon or not FLAVOR.fullmatch(flavor.strip()):
        raise QuotaSpecError(form(spec, option))
    found: dict[str, str] = {}
    for piece in pieces:
        resource, equals, quantity = (part.strip() for part in piece.partition("="))
        if not equals or not RESOURCE.fullmatch(resource) or not QUANTITY.fullmatch(quantity):
            raise QuotaSpecError(form(spec, option))
        if resource in found:
            raise QuotaSpecError(f"invalid resources specification: --{option}: {resource} is twice in {spec!r}")
        try:
            parse_quantity(quantity)
        except QuantityError as error:
            raise QuotaSpecError(f"invalid resource quota: --{option}: {resource}: {error}") from error
        found[resource] = quantity
    return flavor.strip(), found


def form(spec: str, option: str) -> str:
    """The error for a specification of the wrong form."""
    return (
        f"invalid resources specification: --{option}: {spec!r}; use "
        "FLAVOR:RESOURCE=QUANTITY;RESOURCE=QUANTITY, such as default:cpu=9;memory=36Gi"
    )
