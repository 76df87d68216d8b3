"""What `query.pykueue.io` answers, the same on a cluster and on one machine."""

from collections.abc import Callable

from pykueue.app.controllers import Controllers
from pykueue.controllers.previews import OF_CLUSTER, OF_NAMESPACE, Previews
from pykueue.controllers.queries import query_group
from pykueue.controllers.questions import Questions
from pykueue.kube.aggregated import AggregatedGroup, AggregatedResource, Answer


def queries(controllers: Callable[[], Controllers]) -> AggregatedGroup:
    """The group; its handlers read the controllers when they are called."""
    questions = Questions()
    previews = Previews(lambda: controllers().cluster, lambda: controllers().pump.engine, questions)
    handlers: dict[AggregatedResource, Answer] = {
        OF_NAMESPACE: previews.answer,
        OF_CLUSTER: previews.answer,
    }
    return query_group(handlers)
