"""The admission interface: mutates and validates a write before it is stored."""

from typing import Literal, Protocol, TypeAlias

from pykueue.api.core import Tree
from pykueue.apiserver.kinds.served import Served
from pykueue.apiserver.wire.identity import Identity
from pykueue.apiserver.wire.writeterms import Operation, Strictness, Terms
from pykueue.base.struct import Frozen

Stage: TypeAlias = Literal["mutate", "validate"]


class AdmissionCall(Frozen):
    """A write at one stage of admission.

    Trees are in the storage version, and must not be modified.
    """

    stage: Stage
    operation: Operation
    served: Served
    new: Tree
    old: Tree | None
    subresource: str
    who: Identity
    validation: Strictness = "Warn"
    """How unknown fields are treated."""
    large: bool = False
    """Whether work on the object belongs in a thread; see `offload`."""


class Admitter(Protocol):
    """Mutates (stage `mutate`) and validates (stage `validate`) writes.

    At `mutate` it returns the object to store; at `validate` the returned object is ignored. Either may add warnings.
    A refusal is a `StatusError`.
    """

    async def __call__(self, call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
        """The object, and warnings."""


async def admit_all(call: AdmissionCall) -> tuple[Tree, tuple[str, ...]]:
    """Every object, unchanged."""
    return call.new, ()


class Admission:
    """Runs admission for writes of users; those of our controllers skip it."""

    def __init__(self, admit: Admitter) -> None:
        self.admit = admit

    async def run(
        self,
        stage: Stage,
        served: Served,
        operation: Operation,
        new: Tree,
        old: Tree | None,
        subresource: str,
        terms: Terms,
        *,
        large: bool = False,
    ) -> Tree:
        """The object after a stage of admission; that of `validate` is not to be used."""
        if terms.who.is_controller:
            return new
        validation = terms.validation if stage == "validate" else "Warn"
        call = AdmissionCall(stage, operation, served, new, old, subresource, terms.who, validation, large)
        new, warnings = await self.admit(call)
        for text in warnings:
            terms.warn(text)
        return new
