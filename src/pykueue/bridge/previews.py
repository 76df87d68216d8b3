"""The question what changes would do, sent with the state of the engine; `api.previews` has the answer."""

from collections.abc import Mapping
from typing import Any, Final

from pykueue.api.config.file import Loaded
from pykueue.api.previews import PreviewSpec
from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.bridge.runtimes import Learned

KIND: Final = "preview"
"""The name of this kind of question."""


class Question(Frozen):
    """Changes, and what they meet besides the state of the engine."""

    spec: PreviewSpec
    loaded: Loaded
    now: Instant
    objects: tuple[dict[str, Any], ...] = ()
    """Objects that exist and that the changes refer to."""
    jobs: Mapping[str, str] = {}
    """The workload of each Job whose name is known."""
    namespace: str = ""
    """The only namespace in which something may change; empty for all."""
    limits: Mapping[str, int] = {}
    """How many seconds a job may run, by its UID, where that is not in its workload; only read for waits."""
    learned: Learned = Learned()
    """How long finished jobs ran; only read for waits."""
    machine: Mapping[str, int] = {}
    """What the one machine has of each resource; empty on a cluster, where nodes may be added."""
