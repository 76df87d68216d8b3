"""What `query.pykueue.io` answers, the same on a cluster and on one machine."""

from collections.abc import Callable, Mapping

from pykueue.app.controllers import Controllers
from pykueue.controllers.queries.estimates import OF_WORKLOADS, Estimates
from pykueue.controllers.queries.explanations import Explanations
from pykueue.controllers.queries.group import query_group
from pykueue.controllers.queries.previews import OF_CLUSTER, OF_NAMESPACE, Previews
from pykueue.controllers.queries.questions import Questions
from pykueue.kube.aggregated import AggregatedCall, AggregatedGroup, AggregatedResource, Answer


def queries(controllers: Callable[[], Controllers], machine: Callable[[], Mapping[str, int]] = dict) -> AggregatedGroup:
    """The group; its handlers read the controllers when they are called.

    `machine` returns what the one machine has of each resource, and nothing on a cluster.
    """
    questions = Questions()
    previews = Previews(lambda: controllers().cluster, lambda: controllers().pump.engine, questions, machine)

    async def estimates(call: AggregatedCall) -> bytes:
        known = controllers()
        return await Estimates(known.cluster, known.pump.engine, known.estimates, questions).answer(call)

    handlers: dict[AggregatedResource, Answer] = {
        **Explanations(lambda: controllers().cluster, lambda: controllers().pump).handlers,
        OF_WORKLOADS: estimates,
        OF_NAMESPACE: previews.answer,
        OF_CLUSTER: previews.answer,
    }
    return query_group(handlers)
