"""`Strategy`: everything in which the API server treats one kind differently from another.

Generic code reads these columns and never compares a kind's name. The defaults are those of a built-in kind without
special treatment; `strategies` has one row for each kind that differs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeAlias

from pykueue.api.core import Tree
from pykueue.api.fields import FieldError
from pykueue.apiserver.kinds.names import dns_subdomain
from pykueue.apiserver.wire.writeterms import DeleteOptions
from pykueue.base.struct import Frozen
from pykueue.kube.port import Resource

Dependents: TypeAlias = Literal["delete", "orphan", "unsupported"]
"""What happens by default to the dependents of a deleted object; or that it has none."""


def same(tree: Tree) -> Tree:
    """The object, unchanged."""
    return tree


def same_new(new: Tree, old: Tree) -> Tree:
    """The new object, unchanged."""
    return new


def same_created(tree: Tree, now: str) -> Tree:
    """The new object, unchanged."""
    return tree


def same_text(text: str) -> str:
    """The text, unchanged."""
    return text


def with_version(tree: Tree, api_version: str) -> Tree:
    """The object with another `apiVersion`."""
    return {**tree, "apiVersion": api_version}


def no_errors(tree: Tree) -> Iterator[FieldError]:
    """No errors of a new object."""
    return iter(())


def no_change_errors(new: Tree, old: Tree) -> Iterator[FieldError]:
    """No errors of a changed object."""
    return iter(())


def no_warnings(tree: Tree) -> Iterator[str]:
    """No warnings."""
    return iter(())


def refused_field(field: str) -> str:
    """The refusal of a field selector on a field that the kind does not offer."""
    return f"field label not supported: {field}"


class Strategy(Frozen):
    """How objects of a kind are named, converted, completed, validated and deleted."""

    # Names and selectors.
    name_messages: Callable[[str], tuple[str, ...]] = dns_subdomain
    """Messages for a text that is not a valid name of an object."""
    uid_as_name: bool = False
    """Whether an object that is created without `name` and `generateName` is named by a UID."""
    stored_field: Callable[[str], str] = same_text
    """The path in the stored object of a field that this version's callers select by."""
    unsupported_field: Callable[[str], str] = refused_field
    """The refusal of a field selector on another field than those that the kind offers."""

    # Versions: called only where the served version is not the stored one, with the version to produce.
    to_stored: Callable[[Tree, str], Tree] = with_version
    to_served: Callable[[Tree, str], Tree] = with_version

    # Defaults.
    bytes_field: str = ""
    """The field whose values are base64; empty where there is none."""
    restore_pruned: Callable[[Tree, Tree], Tree] = same_new
    """Puts back fields of the original (second argument) that pruning by the schema has removed."""
    default: Callable[[Tree], Tree] = same
    """Fills in defaults."""
    complete_status: Callable[[Tree], Tree] = same
    """Brings the status into the form in which it is stored; runs after `default`, and alone on status writes."""

    # Creates and updates. Named as in Kubernetes' `rest` strategies.
    prepare_create: Callable[[Tree, str], Tree] = same_created
    """Sets what the creator may not set, at this time."""
    prepare_update: Callable[[Tree, Tree], Tree] = same_new
    """Takes from the old object what an update of the object itself may not change."""
    prepare_status_update: Callable[[Tree, Tree], Tree] = same_new
    """Takes from the old object what an update of the status may not change, beside the spec."""
    is_spec_changed: Callable[[Tree, Tree], bool] | None = None
    """Whether an update increments `metadata.generation`; None for kinds without a generation."""
    canonicalize: Callable[[Tree], Tree] = same
    """Brings a validated object into the form in which it is stored."""
    allow_unconditional_update: bool = True
    """Whether an update may leave out the resourceVersion that it replaces."""
    allow_create_on_update: bool = False
    """Whether an update creates the object if it does not exist."""

    # Validation.
    validate: Callable[[Tree], Iterator[FieldError]] = no_errors
    validate_update: Callable[[Tree, Tree], Iterator[FieldError]] = no_change_errors
    validate_status: Callable[[Tree, Tree], Iterator[FieldError]] = no_change_errors
    repeats_metadata_errors_last: bool = False
    """Whether an update lists the repeated errors of metadata after those of the spec."""
    warnings: Callable[[Tree], Iterator[str]] = no_warnings
    """Warnings for the creator of an object."""
    refused_as: Resource | None = None
    """The resource that a refusal names if it is not the served one."""

    # Writes of the controllers of this process.
    is_record: bool = False
    """Whether controllers create these complete, so that they are stored without further steps."""
    is_templated: bool = False
    """Whether controllers create these from stored templates, which have no unknown fields."""
    tracks_controllers: bool = True
    """Whether the managed fields of controllers are tracked."""
    tracks_controller_status: bool = False
    """Whether they are tracked in writes of the status as well."""

    # Deletion.
    undeletable: frozenset[str] = frozenset()
    """Names of objects that cannot be deleted."""
    delete_warning: str = ""
    """Warning for a caller who deletes without saying what happens to dependents."""
    dependents: Dependents = "delete"
    grace_seconds: Callable[[Tree, DeleteOptions], int] | None = None
    """How long an object has to end; None for kinds that are deleted without a grace period."""
    terminate: Callable[[Tree, DeleteOptions, str], Tree] | None = None
    """Marks an object as terminating if a controller must clean up after it, at this time; None for other kinds."""
    is_held: Callable[[Tree], bool] | None = None
    """Whether finalizers hold an object that is being deleted, where the kind has some outside of metadata."""
    checks_preconditions_first: bool = False
    """Whether a delete checks preconditions before the store does, which words its refusals differently."""
    returns_deleted: bool = False
    """Whether the answer to a delete is the object even if it is gone."""
    defines_kind: bool = False
    """Whether the objects of a kind that it defines are deleted with it."""

    # What it is to the machine.
    takes_capacity: bool = False
    """Whether an object uses the machine by itself, so that only Jobs may create it within the quota."""
    connections: Mapping[str, str] = {}
    """Subresources that need a connection to a container and are not served, with what to use in their place."""
