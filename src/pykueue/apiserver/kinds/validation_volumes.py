"""Validation of the volumes of a pod, with the messages of kube-apiserver."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pykueue.api.fields import FieldError, duplicate, forbidden, invalid, required
from pykueue.api.trees import mapping, mappings, member, text
from pykueue.apiserver.kinds.names import dns_label

SHOWN: Final = re.compile(
    r"metadata\.(name|namespace|uid|labels|annotations)|metadata\.(labels|annotations)\['[^']+'\]"
)
"""Fields of a pod that downward API files can refer to."""


def volume_errors(spec: Mapping[str, object], path: str, names: set[str]) -> Iterator[FieldError]:
    """Errors in the volumes of a pod; collects the names of valid ones."""
    for index, volume in mappings(spec, "volumes"):
        at, name = f"{path}.volumes[{index}]", text(volume, "name")
        found = [*source_errors(volume, at)]
        if not name:
            found.append(required(f"{at}.name"))
        else:
            found += (invalid(f"{at}.name", name, message) for message in dns_label(name))
        if name in names:
            found.append(duplicate(f"{at}.name", name))
        if not found:
            names.add(name)
        yield from found


def source_errors(volume: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the source of a volume."""
    sources = [field for field, value in volume.items() if isinstance(value, Mapping)]
    yield from (forbidden(f"{path}.{field}", "may not specify more than 1 volume type") for field in sources[1:])
    if not sources:
        yield required(path, "must specify a volume type")
    place = text(volume, "hostPath", "path")
    if "hostPath" in sources and not place:
        yield required(f"{path}.hostPath.path")
    if ".." in place.split("/"):
        yield invalid(f"{path}.hostPath.path", place, "must not contain '..'")
    if "secret" in sources and not text(volume, "secret", "secretName"):
        yield required(f"{path}.secret.secretName")
    if "configMap" in sources and not text(volume, "configMap", "name"):
        yield required(f"{path}.configMap.name")
    for field in ("secret", "configMap"):
        yield from item_errors(mapping(volume, field), f"{path}.{field}")
    yield from downward_errors(mapping(volume, "downwardAPI"), f"{path}.downwardAPI")
    for index, source in mappings(volume, "projected", "sources"):
        at = f"{path}.projected.sources[{index}]"
        for field in ("secret", "configMap"):
            if isinstance(member(source, field), Mapping) and not text(source, field, "name"):
                yield required(f"{at}.{field}.name")
            yield from item_errors(mapping(source, field), f"{at}.{field}")
        yield from downward_errors(mapping(source, "downwardAPI"), f"{at}.downwardAPI")


def inner_path_errors(place: str, path: str) -> Iterator[FieldError]:
    """Errors of a path that may lead out of a volume."""
    if place.startswith("/"):
        yield invalid(path, place, "must be a relative path")
    if ".." in place.split("/"):
        yield invalid(path, place, "must not contain '..'")


def file_errors(place: str, path: str) -> Iterator[FieldError]:
    """Errors of a path that cannot be a file in a volume."""
    yield from inner_path_errors(place, path)
    if place.startswith("..") and not place.startswith("../") and place != "..":
        yield invalid(path, place, "must not start with '..'")


def item_errors(source: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the items that map keys to files."""
    for index, item in mappings(source, "items"):
        at = f"{path}.items[{index}]"
        if not text(item, "key"):
            yield required(f"{at}.key")
        if not text(item, "path"):
            yield required(f"{at}.path")
        yield from file_errors(text(item, "path"), f"{at}.path")


def downward_errors(source: Mapping[str, object], path: str) -> Iterator[FieldError]:
    """Errors in the items of the downward API."""
    for _, item in mappings(source, "items"):
        if not text(item, "path"):
            yield required(f"{path}.path")
        yield from file_errors(text(item, "path"), f"{path}.path")
        field = text(item, "fieldRef", "fieldPath")
        if isinstance(member(item, "fieldRef"), Mapping):
            if not field:
                yield required(f"{path}.fieldRef.fieldPath")
            elif not SHOWN.fullmatch(field):
                detail = f"error converting fieldPath: field label not supported: {field}"
                yield invalid(f"{path}.fieldRef.fieldPath", field, detail)
        elif not isinstance(member(item, "resourceFieldRef"), Mapping):
            yield required(path, "one of fieldRef and resourceFieldRef is required")
