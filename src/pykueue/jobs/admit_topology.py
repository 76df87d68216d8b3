"""Rules of the topology annotations of pod templates, for jobs of any kind."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec

from pykueue.api.config.gates import FALSE, TRUE
from pykueue.api.fields import FieldError, duplicate, forbidden, invalid, required
from pykueue.api.labels import label_name_errors
from pykueue.api.names import Annotation
from pykueue.api.rules.rule import Context
from pykueue.api.trees import Tree, mapping
from pykueue.base.struct import Wire

Mistake: TypeAlias = FieldError | str
"""A field error; a bare text where Kubernetes omits the value of an error that otherwise shows it."""

LAYERS_MAX: Final = 3
LAYER_COUNT: Final = f"topology constraints must contain between 1 and {LAYERS_MAX} entries"
LEAST: Final = "must be greater than or equal to 1"
SIGNED: Final = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
UNSIGNED: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
MODES: Final = (
    Annotation.REQUIRED_TOPOLOGY,
    Annotation.PREFERRED_TOPOLOGY,
    Annotation.UNCONSTRAINED_TOPOLOGY,
)


class Layer(Wire):
    """One level over which a pod set is sliced."""

    topology: str = ""
    size: int = 0


LAYERS: Final = msgspec.json.Decoder(list[Layer])


def annotations(metadata: Tree) -> Mapping[str, str]:
    """The annotations of a pod template."""
    return {key: value for key, value in mapping(metadata, "annotations").items() if isinstance(value, str)}


def beside(key: str) -> str:
    """The message for an annotation that another one excludes."""
    return f"may not be set when '{key}' is specified"


def template_errors(metadata: Tree, path: str, gates: Context) -> Iterator[Mistake]:
    """What is wrong with the topology annotations of a pod template whose metadata has this path."""
    given, at = annotations(metadata), f"{path}.annotations"
    if not given:
        return
    if sum(mode in given for mode in MODES) > 1:
        modes = ", ".join(f'"{mode}"' for mode in MODES)
        yield f"{at}: Invalid value: must not contain more than one topology annotation: [{modes}]"
    for key in (Annotation.REQUIRED_TOPOLOGY, Annotation.PREFERRED_TOPOLOGY, Annotation.SLICE_REQUIRED_TOPOLOGY):
        if key in given:
            yield from label_name_errors(given[key], f"{at}[{key}]")
    yield from group_errors(given, at)
    unconstrained = given.get(Annotation.UNCONSTRAINED_TOPOLOGY)
    if unconstrained is not None and unconstrained not in (*TRUE, *FALSE):
        yield invalid(f"{at}[{Annotation.UNCONSTRAINED_TOPOLOGY}]", unconstrained, "must be a boolean value")
    yield from slice_errors(given, at)
    yield from layer_errors(given, at, gates)


def group_errors(given: Mapping[str, str], at: str) -> Iterator[FieldError]:
    """What is wrong with the group that a pod set is placed together with."""
    key = Annotation.POD_SET_GROUP
    if key not in given:
        return
    if UNSIGNED.fullmatch(given[key]) and int(given[key]) < 2**64:
        yield invalid(f"{at}[{key}]", given[key], "must not be a number")
    for other in (Annotation.SLICE_SIZE, Annotation.SLICE_REQUIRED_TOPOLOGY):
        if other in given:
            yield forbidden(f"{at}[{key}]", beside(other))
    preferred, wanted = Annotation.PREFERRED_TOPOLOGY, Annotation.REQUIRED_TOPOLOGY
    if preferred not in given and wanted not in given:
        yield forbidden(f"{at}[{key}]", f"may not be set when neither '{preferred}' nor '{wanted}' is specified")


def slice_size(given: Mapping[str, str]) -> int | None:
    """The size of a slice; None if it is not a 32-bit number."""
    written = given.get(Annotation.SLICE_SIZE, "")
    size = int(written) if SIGNED.fullmatch(written) else None
    return size if size is not None and -(2**31) <= size < 2**31 else None


def slice_errors(given: Mapping[str, str], at: str) -> Iterator[FieldError]:
    """What is wrong with the slices of a pod set."""
    key, level = Annotation.SLICE_SIZE, Annotation.SLICE_REQUIRED_TOPOLOGY
    if key in given:
        size = slice_size(given)
        if size is None:
            yield invalid(f"{at}[{key}]", given[key], "must be a numeric value")
        elif size < 1:
            yield invalid(f"{at}[{key}]", given[key], LEAST)
    if level in given and key not in given:
        yield required(f"{at}[{key}]", f"must be set when '{level}' is specified")
    if key in given and level not in given:
        yield forbidden(f"{at}[{key}]", f"may not be set when '{level}' is not specified")


def layer_errors(given: Mapping[str, str], at: str, gates: Context) -> Iterator[FieldError]:
    """What is wrong with slices over several levels."""
    key = Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS
    if key not in given:
        return
    path = f"{at}[{key}]"
    if not gates.on("TASMultiLayerTopology"):
        yield forbidden(path, "the TASMultiLayerTopology feature gate must be enabled to use this annotation")
        return
    for other in (Annotation.SLICE_REQUIRED_TOPOLOGY, Annotation.SLICE_SIZE):
        if other in given:
            yield forbidden(path, beside(other))
    if Annotation.POD_SET_GROUP in given:
        yield forbidden(f"{at}[{Annotation.POD_SET_GROUP}]", beside(key))
    layers = layers_of(given[key])
    if isinstance(layers, str):
        yield invalid(path, given[key], f"must be a valid JSON array: {layers}")
    elif not 0 < len(layers) <= LAYERS_MAX:
        yield invalid(path, given[key], LAYER_COUNT)
    else:
        yield from each_layer(layers, path)


def layers_of(written: str) -> list[Layer] | str:
    """The layers that an annotation lists, or what is wrong with its text."""
    try:
        return LAYERS.decode(written)
    except (ValueError, RecursionError) as error:
        return str(error)


def each_layer(layers: list[Layer], path: str) -> Iterator[FieldError]:
    """What is wrong with single layers, and with their nesting."""
    for index, layer in enumerate(layers):
        yield from label_name_errors(layer.topology, f"{path}[{index}].topology")
        if layer.size < 1:
            yield invalid(f"{path}[{index}].size", layer.size, LEAST)
    first: dict[str, int] = {}
    for index, layer in enumerate(layers):
        before = first.setdefault(layer.topology, index)
        if before != index:
            yield duplicate(f"{path}[{index}].topology", f"{layer.topology} (also at index {before})")
    for index, (outer, inner) in enumerate(pairwise(layers), start=1):
        if inner.size > 0 and outer.size % inner.size:
            yield invalid(f"{path}[{index}].size", inner.size, f"must evenly divide the parent layer size {outer.size}")


def size_errors(metadata: Tree, path: str, count: int) -> Iterator[FieldError]:
    """What is wrong with valid slices in a pod set of this many pods."""
    given, at = annotations(metadata), f"{path}.annotations"
    most = f"must not be greater than pod set count {count}"
    size = slice_size(given)
    if size is not None and size > count:
        yield invalid(f"{at}[{Annotation.SLICE_SIZE}]", given[Annotation.SLICE_SIZE], most)
    key = Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS
    layers = layers_of(given.get(key, "[]"))
    if isinstance(layers, list) and layers and layers[0].size > count:
        yield invalid(f"{at}[{key}]", layers[0].size, most)
