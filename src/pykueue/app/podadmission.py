"""Validate pod specs for this machine: reject forbidden ids and impossible GPU shares, warn about ignored fields."""

from collections.abc import Callable

from pykueue.api.core import Tree
from pykueue.api.trees import text
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.statuserrors import forbidden
from pykueue.base.struct import Frozen
from pykueue.kube.port import Resource
from pykueue.node.ignoredfields import ignored, spec_in
from pykueue.node.setup.accounts import Account
from pykueue.node.setup.gpus import share_errors
from pykueue.node.setup.securitycontext import id_errors, scope


class PodAdmission(Frozen):
    """Validates the pod specs of Pods and Jobs for the machine that runs them."""

    account: Callable[[Tree], Account | None]
    """The account that the pods of an object run as."""
    may_choose: Callable[[Tree], bool]
    """Whether its creator may use any user and group id."""
    enforced: Callable[[], frozenset[str]]
    """The resources whose limits are enforced."""
    runtime: bool = False

    def __call__(self, resource: Resource, new: Tree, old: Tree | None, who: Identity) -> tuple[str, ...]:
        """Warnings for the author; raises `StatusError` to reject. An unchanged spec is not validated again."""
        found = spec_in(resource.group, resource.kind, new)
        if found is None:
            return ()
        spec, path = found
        if old is not None and spec_in(resource.group, resource.kind, old) == found:
            return ()
        anyone = who.admin or self.may_choose(new)
        errors = id_errors(spec, path, scope(None, any=anyone))
        if errors:
            # Most specs name no id; only for the others the account is looked up, which asks the operating system.
            errors = id_errors(spec, path, scope(self.account(new), any=anyone))
        errors += share_errors(spec, path)
        if errors:
            why = str(errors[0]) if len(errors) == 1 else f"[{', '.join(map(str, errors))}]"
            raise forbidden(resource, text(new, "metadata", "name"), why)
        return ignored(spec, path, enforced=self.enforced(), runtime=self.runtime)
