"""Authentication and authorization: identifies the caller of a request and checks it against a fixed table of roles.

The table is consulted on every call, and no object can extend it. In addition, a user may not change what another user
created, even in the same namespace (`with_recorded_creator`), nor name it as an owner (`verbs.ownercheck`): a pod runs
as the account of its creator.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from pykueue.api.core import Json, Tree
from pykueue.api.jobsummary import FINISHED_JOBS, OWN_GROUP, SUMMARIES
from pykueue.api.names import Annotation
from pykueue.api.query import ESTIMATES, EXPLANATIONS, PREVIEWS, QUERY_GROUP
from pykueue.api.trees import text
from pykueue.api.visibility import PENDING_WORKLOADS, VISIBILITY_GROUP
from pykueue.apiserver.auth.users import User, Users
from pykueue.apiserver.wire.identity import AUTHENTICATED, MASTERS, Identity, Peer
from pykueue.apiserver.wire.paths import RequestInfo, cannot
from pykueue.apiserver.wire.statuserrors import StatusError, forbidden, unauthorized
from pykueue.apiserver.wire.writeterms import Operation
from pykueue.base.struct import Frozen
from pykueue.base.units import format_instant
from pykueue.kube.port import Resource

ALL: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ: Final = ("get", "list", "watch")
CREATE: Final = ("create",)
GET: Final = ("get",)
LIST: Final = ("list",)
KUEUE: Final = "kueue.x-k8s.io"
EVENTS: Final = "events.k8s.io"
USERS: Final = "pykueue:users"
ANONYMOUS: Final = Identity("system:anonymous", frozenset({"system:unauthenticated"}))
OPEN_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
"""Paths that anyone may get, as on any cluster."""
TOLD_PATHS: Final = ("/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version")
"""Path prefixes that every user may get."""
ENTERING: Final = frozenset({"pods/attach", "pods/exec"})
"""Subresources that act as the account of a pod's creator."""
STAMPED: Final = frozenset({("batch", "Job"), ("", "Pod"), ("", "ConfigMap"), ("", "Secret")})
"""Kinds whose creator is recorded, by group: everything that users write."""


class Rule(Frozen):
    """What a user may do to some resources, in the user's own namespace or in all."""

    where: Literal["own", "cluster"]
    verbs: tuple[str, ...]
    group: str
    resources: tuple[str, ...]
    """With subresources as `pods/log`."""


USER_RULES: Final = (
    Rule("own", ALL, "", ("configmaps", "pods", "secrets")),
    Rule("own", ALL, "batch", ("jobs",)),
    Rule("own", READ, "", ("events", "limitranges", "pods/log", "pods/status", "serviceaccounts")),
    # Only of pods that the user created (`Access.may_enter`). Ports are not forwarded; the response says so.
    Rule("own", ("create", "get"), "", ("pods/attach", "pods/exec", "pods/portforward")),
    Rule("own", READ, "batch", ("jobs/status",)),
    Rule("own", READ, EVENTS, ("events",)),
    Rule("own", READ, KUEUE, ("localqueues", "localqueues/status", "workloads", "workloads/status")),
    Rule("own", READ, VISIBILITY_GROUP, (f"localqueues/{PENDING_WORKLOADS}",)),
    Rule(
        "own", GET, QUERY_GROUP, (f"localqueues/{EXPLANATIONS}", f"workloads/{ESTIMATES}", f"workloads/{EXPLANATIONS}")
    ),
    Rule("own", CREATE, QUERY_GROUP, (PREVIEWS,)),
    Rule("own", LIST, OWN_GROUP, (FINISHED_JOBS, SUMMARIES)),
    Rule("cluster", READ, "", ("nodes",)),
    # kubectl lists them before it says that there is no such kind; OpenAPI tells everyone what is in them.
    Rule("cluster", READ, "apiextensions.k8s.io", ("customresourcedefinitions",)),
    Rule("cluster", READ, "scheduling.k8s.io", ("priorityclasses",)),
    Rule("cluster", READ, "node.k8s.io", ("runtimeclasses",)),
    Rule(
        "cluster",
        READ,
        KUEUE,
        ("admissionchecks", "clusterqueues", "cohorts", "resourceflavors", "topologies", "workloadpriorityclasses"),
    ),
    # Names of workloads in other namespaces are left out.
    Rule("cluster", GET, QUERY_GROUP, (f"clusterqueues/{EXPLANATIONS}",)),
    Rule("cluster", CREATE, "authorization.k8s.io", ("selfsubjectaccessreviews", "selfsubjectrulesreviews")),
    Rule("cluster", CREATE, "authentication.k8s.io", ("selfsubjectreviews",)),
)
"""What a user may do, besides getting the user's own namespace."""
EVERYONES_JOBS: Final = Rule("cluster", LIST, OWN_GROUP, (SUMMARIES,))
"""What a user may do besides, if the server shows everyone's jobs: their names, owners, queues, requests and states."""


class Access:
    """Authenticates and authorizes every call."""

    def __init__(self, users: Users, *, everyones_jobs: bool = False) -> None:
        self.users = users
        self.creator: Callable[[str, str], str | None] = no_creator
        """The creator of a pod by its namespace and name; None if there is no such pod."""
        self.user_rules = (*USER_RULES, EVERYONES_JOBS) if everyones_jobs else USER_RULES

    def authenticate(self, headers: Mapping[str, str], peer: Peer | None) -> Identity:
        """The caller, by certificate or token; raises `StatusError` if invalid. Header names are in lower case."""
        user = self.authenticated(headers, peer)
        if user is None:
            return ANONYMOUS
        identity = identity_of(user)
        other = headers.get("impersonate-user", "")
        return self.impersonated(identity, other, headers) if other or "impersonate-group" in headers else identity

    def authenticated(self, headers: Mapping[str, str], peer: Peer | None) -> User | None:
        """The authenticated user; None without credentials, a `StatusError` if they are invalid."""
        said = headers.get("authorization", "")
        if peer is not None and not said:
            user = self.users.certified(peer)
        elif said:
            scheme, _, token = said.partition(" ")
            user = self.users.holder(token.strip()) if scheme.lower() == "bearer" else None
        else:
            return None
        if user is None or user.revoked:
            raise unauthorized()
        if not user.admitted(self.users.clock.now()):
            # Only a holder of the credentials learns this.
            when = "" if user.expires is None else format_instant(user.expires)
            raise unauthorized(f"the credentials of {user.name} expired at {when}")
        return user

    def impersonated(self, identity: Identity, other: str, headers: Mapping[str, str]) -> Identity:
        """The impersonated identity (`kubectl --as`), which only admins may assume."""
        if not identity.admin:
            call = RequestInfo("", "", "v1", "users" if other else "groups", name=other)
            raise refused(identity, "impersonate", call=call, path="")
        user = self.users.named(other)
        if user is not None:
            return identity_of(user)
        group = headers.get("impersonate-group", "")
        groups = frozenset({AUTHENTICATED, *filter(None, (group,))})
        return Identity(other, groups, admin=MASTERS in groups)

    def may(
        self, who: Identity, verb: str, group: str, resource: str, subresource: str, namespace: str, name: str
    ) -> bool:
        """Whether a caller may use a verb on a resource."""
        if who.admin:
            return True
        if AUTHENTICATED not in who.groups:
            return False
        asked = f"{resource}/{subresource}" if subresource else resource
        if group == "" and asked in ENTERING and name and not self.may_enter(who, namespace, name):
            return False
        if (group, asked) == ("", "namespaces") and name and name == who.namespace:
            return verb in READ
        return any(
            verb in rule.verbs
            and rule.group == group
            and asked in rule.resources
            and (rule.where == "cluster" or (namespace != "" and namespace == who.namespace))
            for rule in self.user_rules
        )

    def may_enter(self, who: Identity, namespace: str, pod: str) -> bool:
        """Whether a caller may run commands in a pod: only its creator and admins, since they run as its account."""
        creator = self.creator(namespace, pod)
        return who.admin or creator is None or creator == who.name

    def may_path(self, who: Identity, verb: str, path: str) -> bool:
        """Whether a caller may use a verb on a non-resource path."""
        if who.admin:
            return True
        if verb not in ("get", "head"):
            return False
        if AUTHENTICATED not in who.groups:
            return path.rstrip("/").removesuffix("/ping") in OPEN_PATHS
        return any(path == told or path.startswith(f"{told}/") for told in TOLD_PATHS)

    def check(self, who: Identity, verb: str, *, call: RequestInfo | None, path: str) -> None:
        """Raise a `StatusError` if a caller may not use a verb on a resource."""
        if call is None:
            allowed = self.may_path(who, verb, path)
        else:
            allowed = self.may(who, verb, call.group, call.plural, call.subresource, call.namespace, call.name)
        if not allowed:
            raise refused(who, verb, call=call, path=path, why=self.why_not(who, call))

    def why_not(self, who: Identity, call: RequestInfo | None) -> str:
        """What to add to the standard message of a refusal."""
        if call is None or not call.name or call.resource not in ENTERING or call.namespace != who.namespace:
            return ""
        if self.may_enter(who, call.namespace, call.name):
            return ""
        creator = self.creator(call.namespace, call.name)
        owner = f'"{creator}"' if creator else "another user"
        return f": the pod was created by {owner}, and only its creator and administrators may enter it"

    def rules(self, who: Identity, namespace: str) -> tuple[list[Json], list[Json]]:
        """What a caller may do in a namespace: resource rules and non-resource rules."""
        if who.admin:
            return [rule_of(("*",), ("*",), ("*",))], [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        if AUTHENTICATED not in who.groups:
            return [], []
        shown: list[Json] = [
            rule_of(rule.verbs, (rule.group,), rule.resources)
            for rule in self.user_rules
            if rule.where == "cluster" or namespace == who.namespace
        ]
        if who.namespace:
            shown.append(rule_of(READ, ("",), ("namespaces",)) | {"resourceNames": [who.namespace]})
        paths: list[Json] = [path for told in TOLD_PATHS for path in (told, f"{told}/*")]
        return shown, [{"verbs": ["get"], "nonResourceURLs": paths}]


def no_creator(namespace: str, pod: str) -> str | None:
    """The creator of a pod where there are none."""
    return None


def rule_of(verbs: Iterable[str], groups: Iterable[str], resources: Iterable[str]) -> Tree:
    """A rule as access reviews show it."""
    return {"verbs": [*verbs], "apiGroups": [*groups], "resources": [*resources]}


def identity_of(user: User) -> Identity:
    """The identity of a user."""
    if user.role == "admin":
        return Identity(user.name, frozenset({MASTERS, AUTHENTICATED}), user.namespace, admin=True)
    return Identity(user.name, frozenset({USERS, AUTHENTICATED}), user.namespace)


def refused(who: Identity, verb: str, *, call: RequestInfo | None, path: str, why: str = "") -> StatusError:
    """The 403 error for a caller without this right."""
    why = cannot(who.name, verb, call=call, path=path) + why
    for letter, harmless in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        why = why.replace(letter, harmless)
    if call is None:
        return StatusError(403, "Forbidden", f"forbidden: {why}", {})
    return forbidden(Resource(call.group, call.version, call.plural, ""), call.name, why)


def with_recorded_creator(operation: Operation, resource: Resource, new: Tree, old: Tree | None, who: Identity) -> Tree:
    """The object with its creator recorded; raises `StatusError` if another user created it.

    The server overwrites a value that a client sets. Writes of the controllers of this process are not passed here:
    they copy the creator of a Job to its pods. `old` is the stored object; for a deletion `new` is the same object.
    """
    if (resource.group, resource.kind) not in STAMPED:
        return new
    if old is None:
        return with_creator(new, who.name)
    creator = text(old, "metadata", "annotations", Annotation.CREATOR)
    if not who.admin and creator != who.name:
        raise not_creator(resource, old, creator, who)
    return new if operation == "DELETE" else with_creator(new, creator)


def not_creator(resource: Resource, old: Tree, creator: str, who: Identity) -> StatusError:
    """The 403 error for changing an object that another user created."""
    owner = f'"{creator}"' if creator else "another user"
    why = f'it was created by {owner}, and User "{who.name}" may only change or delete objects of their own'
    return forbidden(resource, text(old, "metadata", "name"), why)


def with_creator(tree: Tree, creator: str) -> Tree:
    """The object with this creator or none; its pod template never names one."""
    made = annotated(tree, creator)
    spec = made.get("spec")
    inner = spec.get("template") if isinstance(spec, dict) else None
    if isinstance(spec, dict) and isinstance(inner, dict) and has_creator(inner):
        made = made | {"spec": spec | {"template": annotated(inner, "")}}
    return made


def has_creator(tree: Tree) -> bool:
    """Whether an object, or a template, names a creator."""
    metadata = tree.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and Annotation.CREATOR in annotations


def annotated(tree: Tree, creator: str) -> Tree:
    """The object or template with this creator or none in its annotations."""
    found = tree.get("metadata")
    metadata: Tree = found if isinstance(found, dict) else {}
    held = metadata.get("annotations")
    annotations: Tree = held if isinstance(held, dict) else {}
    if annotations.get(Annotation.CREATOR, "") == creator and (creator or Annotation.CREATOR not in annotations):
        return tree
    rest: Tree = {key: value for key, value in annotations.items() if key != Annotation.CREATOR}
    if creator:
        rest[Annotation.CREATOR] = creator
    kept: Tree = {key: value for key, value in metadata.items() if key != "annotations"}
    return tree | {"metadata": kept | ({"annotations": rest} if rest else {})}
