"""May a Pod or Job ask for this? Ids that it may not name are refused; of what is ignored its author is warned."""

from collections.abc import Callable

from pykueue.api.core import Tree
from pykueue.api.trees import text
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.statuserrors import forbidden
from pykueue.base.struct import Frozen
from pykueue.kube.port import Resource
from pykueue.node.accounts import Account
from pykueue.node.ignoredfields import ignored, spec_in
from pykueue.node.securitycontext import id_errors, scope


class PodAdmission(Frozen):
    """Judges the pod specs of Pods and Jobs by the machine that runs them."""

    account: Callable[[Tree], Account | None]
    """As whom the pods of an object run, by who created it."""
    may_choose: Callable[[Tree], bool]
    """Whether its creator may name any user and group."""
    enforced: Callable[[], frozenset[str]]
    """The resources to whose limits containers are held here."""
    runtime: bool = False

    def __call__(self, resource: Resource, new: Tree, old: Tree | None, who: Identity) -> tuple[str, ...]:
        """What the author should know; a refusal is a `StatusError`. An unchanged spec is not judged again."""
        found = spec_in(resource.group, resource.kind, new)
        if found is None:
            return ()
        spec, path = found
        if old is not None and spec_in(resource.group, resource.kind, old) == found:
            return ()
        errors = id_errors(spec, path, scope(self.account(new), any=who.admin or self.may_choose(new)))
        if errors:
            why = str(errors[0]) if len(errors) == 1 else f"[{', '.join(map(str, errors))}]"
            raise forbidden(resource, text(new, "metadata", "name"), why)
        return ignored(spec, path, enforced=self.enforced(), runtime=self.runtime)
