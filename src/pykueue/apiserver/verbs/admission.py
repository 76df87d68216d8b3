"""The admission interface: what a write is passed to, to be completed and validated, before it is stored."""

from typing import Literal, Protocol, TypeAlias

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.writeterms import Operation
from pykueue.base.struct import Frozen

Stage: TypeAlias = Literal["mutate", "validate"]


class AdmissionCall(Frozen):
    """A write at one stage of its admission.

    Trees are of the version in which the kind is stored; they may not be altered in place.
    """

    stage: Stage
    operation: Operation
    served: Served
    new: Tree
    old: Tree | None
    subresource: str
    who: Identity


class Admitter(Protocol):
    """Completes (stage `mutate`) and judges (stage `validate`) what is written.

    At `mutate` it returns the object as it is to be stored, at `validate` what it returns is ignored; either may add
    warnings. A refusal is a `StatusError`.
    """

    async def __call__(self, call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        """The object, and warnings."""


async def admit_all(call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
    """Every object, unchanged."""
    return call.new, ()
