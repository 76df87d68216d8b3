"""Validation of `resources.deviceClassMappings`, with Kueue's messages."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pykueue.api.config.types import DeviceClassMapping, DeviceSource, MappingSource
from pykueue.api.fields import FieldError, duplicate, invalid, required, too_long, too_many
from pykueue.api.labels import (
    LABEL_BYTES_MAX,
    SUBDOMAIN_BYTES_MAX,
    dns_label,
    dns_subdomain,
    ill_formed,
    qualified_name,
    size_bytes,
)

C_FORM: Final = "[A-Za-z_][A-Za-z0-9_]*"
C_SAYS: Final = (
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'"
)
C_BYTES_MAX: Final = 32
MAPPINGS_MAX: Final = 16
CLASSES_MAX: Final = 8


def device_errors(mappings: tuple[DeviceClassMapping, ...], gates: Mapping[str, bool]) -> Iterator[FieldError]:
    """Errors in the device class mappings."""
    at = "resources.deviceClassMappings"
    if len(mappings) > MAPPINGS_MAX:
        yield too_many(at, len(mappings), MAPPINGS_MAX)
    names: set[str] = set()
    homes: dict[str, tuple[str, set[str]]] = {}
    for index, mapping in enumerate(mappings):
        path = f"{at}[{index}]"
        yield from device_name_errors(mapping.name, f"{path}.name")
        if mapping.name in names:
            yield duplicate(f"{path}.name", mapping.name)
        names.add(mapping.name)
        yield from device_class_errors(mapping, f"{path}.deviceClassNames", homes)
        yield from device_source_errors(mapping.sources, f"{path}.sources", gates)


def device_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """Errors in the name of a resource or of a device class."""
    if messages := qualified_name(name):
        yield invalid(path, name, "; ".join(messages))
    if size_bytes(name) > SUBDOMAIN_BYTES_MAX:
        yield invalid(path, name, f"must not exceed {SUBDOMAIN_BYTES_MAX} characters")


def device_class_errors(
    mapping: DeviceClassMapping, path: str, homes: dict[str, tuple[str, set[str]]]
) -> Iterator[FieldError]:
    """Errors in the classes of one mapping; `homes` maps each class to its first mapping."""
    if not mapping.device_class_names:
        yield required(path, "at least one device class name is required")
    if len(mapping.device_class_names) > CLASSES_MAX:
        yield too_many(path, len(mapping.device_class_names), CLASSES_MAX)
    first = mapping.sources[0].counter if mapping.sources else None
    counter = first.name if first is not None else ""
    seen: set[str] = set()
    for index, name in enumerate(mapping.device_class_names):
        place = f"{path}[{index}]"
        yield from device_name_errors(name, place)
        if name in seen:
            yield duplicate(place, name)
        seen.add(name)
        home, counters = homes.setdefault(name, (mapping.name, {counter} if counter else set()))
        if home == mapping.name:
            continue
        # One class may feed two resources only if each counts another quantity of the device.
        if not counter or not counters:
            yield invalid(place, name, f"device class already mapped to resource {home}")
        elif counter in counters:
            yield invalid(place, name, f'device class already has a counter source for counter "{counter}"')
        counters.add(counter)


def device_source_errors(
    sources: tuple[MappingSource, ...], path: str, gates: Mapping[str, bool]
) -> Iterator[FieldError]:
    """Errors in the sources of a device's quantities."""
    alone = "exactly one source type must be set per entry"
    for index, source in enumerate(sources):
        place = f"{path}[{index}]"
        if source.counter is not None and source.capacity is not None:
            yield invalid(place, "counter+capacity", alone)
        elif source.counter is not None:
            if gates["KueueDRAIntegrationPartitionableDevices"]:
                yield from driver_errors(source.counter, f"{place}.counter", counter=True)
            else:
                detail = "counter sources require KueueDRAIntegrationPartitionableDevices to be enabled"
                yield invalid(f"{place}.counter", True, detail)
        elif source.capacity is not None:
            if gates["KueueDRAIntegrationConsumableCapacity"]:
                yield from driver_errors(source.capacity, f"{place}.capacity", counter=False)
            else:
                detail = "capacity sources require KueueDRAIntegrationConsumableCapacity to be enabled"
                yield invalid(f"{place}.capacity", True, detail)
        else:
            yield required(place, alone)
    if any(source.counter for source in sources) and any(source.capacity for source in sources):
        yield invalid(path, len(sources), "cannot mix counter and capacity sources in the same mapping")


def driver_errors(source: DeviceSource, path: str, *, counter: bool) -> Iterator[FieldError]:
    """Errors in the number that a driver publishes; its expression is not compiled here."""
    if counter and not source.name:
        yield required(f"{path}.name")
    elif counter and (messages := dns_label(source.name)):
        yield invalid(f"{path}.name", source.name, ",".join(messages))
    elif not counter:
        yield from capacity_name_errors(source.name, f"{path}.name")
    if not source.driver:
        yield required(f"{path}.driver")
    elif size_bytes(source.driver) > LABEL_BYTES_MAX:
        yield invalid(f"{path}.driver", source.driver, f"must not exceed {LABEL_BYTES_MAX} characters")
    elif messages := dns_subdomain(source.driver):
        yield invalid(f"{path}.driver", source.driver, ",".join(messages))
    if source.device_selector.cel is None or not source.device_selector.cel.expression:
        yield required(f"{path}.deviceSelector.cel.expression")


def capacity_name_errors(name: str, path: str) -> Iterator[FieldError]:
    """Errors in a capacity's name, which is a C identifier after an optional domain and a slash."""
    domain, slash, identifier = name.rpartition("/")
    if slash and not domain:
        yield invalid(path, "", "the domain must not be empty")
    elif slash:
        if size_bytes(domain) > LABEL_BYTES_MAX:
            yield too_long(path, LABEL_BYTES_MAX)
        yield from (invalid(path, domain, message) for message in dns_subdomain(domain.lower()))
    if slash and not identifier:
        yield invalid(path, "", "the name must not be empty")
        return
    if size_bytes(identifier) > C_BYTES_MAX:
        yield too_long(path, C_BYTES_MAX)
    if not re.fullmatch(C_FORM, identifier):
        yield invalid(path, identifier, ill_formed(C_SAYS, C_FORM, "my_name", "MY_NAME", "MyName"))
