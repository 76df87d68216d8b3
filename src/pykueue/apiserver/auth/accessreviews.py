"""Answers access reviews, self subject reviews and token reviews, none of which are stored."""

from collections.abc import Callable
from typing import Final, TypeAlias

from pykueue.api.core import Json, Tree
from pykueue.api.fields import FieldError, invalid
from pykueue.api.trees import mapping, text
from pykueue.apiserver.auth.access import Access, identity_of
from pykueue.apiserver.wire.identity import AUTHENTICATED, MASTERS, Identity
from pykueue.apiserver.wire.statuserrors import StatusError
from pykueue.apiserver.wire.statuserrors import invalid as invalid_object
from pykueue.base.units import Instant, format_instant
from pykueue.kube.port import Resource

Answer: TypeAlias = Callable[[Access, Identity, Tree], Tree]
"""The status of a review."""


def review(access: Access, who: Identity, kind: str, tree: Tree, namespace: str, now: Instant) -> Tree | None:
    """A review with its status; None if the kind is not a review."""
    answer = REVIEWS.get(kind)
    if answer is None:
        return None
    asked = text(tree, "spec", "resourceAttributes", "namespace")
    if kind == "LocalSubjectAccessReview" and asked != namespace:
        raise invalid_review(invalid("spec.resourceAttributes.namespace", asked, "must match metadata.namespace"))
    held = tree.get("metadata")
    metadata: Tree = held if isinstance(held, dict) else {}
    if kind == "SelfSubjectReview":
        metadata = metadata | {"creationTimestamp": format_instant(now)}
    return tree | {"kind": kind, "metadata": metadata, "status": answer(access, who, tree)}


def invalid_review(error: FieldError) -> StatusError:
    """The error for a malformed review."""
    return invalid_object(Resource("authorization.k8s.io", "v1", "", ""), "", [error])


def access_status(access: Access, who: Identity, tree: Tree) -> Tree:
    """The status of a review: whether the caller may do what it describes."""
    attributes, paths = mapping(tree, "spec", "resourceAttributes"), mapping(tree, "spec", "nonResourceAttributes")
    if bool(attributes) == bool(paths):
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid_review(invalid("spec.resourceAttributes", attributes or None, detail))
    if paths:
        allowed = access.may_path(who, text(paths, "verb"), text(paths, "path"))
    else:
        allowed = access.may(
            who,
            text(attributes, "verb"),
            text(attributes, "group"),
            text(attributes, "resource"),
            text(attributes, "subresource"),
            text(attributes, "namespace"),
            text(attributes, "name"),
        )
    return {"allowed": allowed}


def other_access_status(access: Access, _who: Identity, tree: Tree) -> Tree:
    """The status of a review about another user."""
    name, listed = text(tree, "spec", "user"), mapping(tree, "spec").get("groups")
    if not name and not listed:
        raise invalid_review(invalid("spec.user", "", "at least one of user or group must be specified"))
    user = access.users.named(name)
    groups = frozenset(str(group) for group in listed) if isinstance(listed, list) else frozenset()
    asked = identity_of(user) if user else Identity(name, groups, admin=MASTERS in groups)
    return access_status(access, asked, tree)


def rules(access: Access, who: Identity, tree: Tree) -> Tree:
    """The status of a rules review: everything that the caller may do in a namespace."""
    resources, paths = access.rules(who, text(tree, "spec", "namespace"))
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


def self_subject(_access: Access, who: Identity, _tree: Tree) -> Tree:
    """The status of a self subject review: the caller."""
    return {"userInfo": info(who)}


def token(access: Access, _who: Identity, tree: Tree) -> Tree:
    """The status of a token review: the user of the token."""
    user = access.users.by_token(text(tree, "spec", "token"))
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": info(identity_of(user))}


def info(who: Identity) -> Tree:
    """A caller as the `userInfo` of reviews."""
    groups: list[Json] = [*sorted(who.groups - {AUTHENTICATED}), AUTHENTICATED]
    made: Tree = {"username": who.name, "groups": groups}
    return made | ({"uid": who.uid} if who.uid else {})


REVIEWS: Final[dict[str, Answer]] = {
    "SelfSubjectAccessReview": access_status,
    "SubjectAccessReview": other_access_status,
    "LocalSubjectAccessReview": other_access_status,
    "SelfSubjectRulesReview": rules,
    "SelfSubjectReview": self_subject,
    "TokenReview": token,
}
