"""What `query.pykueue.io` answers, the same on a cluster and on one machine."""

from collections.abc import Callable

from pykueue.app.controllers import Controllers
from pykueue.controllers.explanations import Explanations
from pykueue.controllers.queries import query_group
from pykueue.kube.aggregated import AggregatedGroup, AggregatedResource, Answer


def queries(controllers: Callable[[], Controllers]) -> AggregatedGroup:
    """The group; its handlers read the controllers when they are called."""
    handlers: dict[AggregatedResource, Answer] = {
        **Explanations(lambda: controllers().cluster, lambda: controllers().pump).handlers,
    }
    return query_group(handlers)
