"""What does a cycle make of what comes from outside it: bounds of a namespace, and writes that fail too late?"""

from msgspec.structs import replace

from pykueue.api.pods import Container, LimitRange, LimitRangeItem, LimitRangeSpec, PodSpec, ResourceList, Resources
from pykueue.base.units import parse_quantity
from pykueue.bridge.limits import adjusted, problem
from pykueue.engine.facts import Refused
from tests.facts import covers
from tests.story import Story


def cpu(text: str) -> ResourceList:
    return ResourceList({"cpu": parse_quantity(text)})


@covers("S75")
def test_a_request_above_a_default_limit_is_refused_before_any_flavor_is_looked_at() -> None:
    asked = PodSpec(containers=(Container(resources=Resources(requests=cpu("9"))),))
    namespace = [LimitRange(spec=LimitRangeSpec((LimitRangeItem("Container", default=cpu("4")),)))]
    assert problem([asked], []) is None, "without the default there is no limit to exceed"
    told = problem([adjusted(asked, namespace, {})], namespace)
    assert told is not None
    story = Story(queues=["main cpu=8"])
    story.do("queue w main cpu=9")
    story.put("Workload", "ns/w", replace(story.workload("w"), problem=told))
    story.decide()
    assert [str(line) for line in story.told] == [
        "wait w (Misconfigured): resources validation failed: spec.podSets[0].template.spec.containers[0]: "
        'Invalid value: ["cpu"]: requests must not exceed its limits'
    ]


@covers("S92")
def test_a_refusal_that_comes_after_the_workload_is_gone_is_forgotten() -> None:
    story = Story(queues=["main cpu=2"])
    story.do("queue w main cpu=2", "delay w")
    assert story.decide() == ["admit w"]
    story.do("delete w")
    story.engine.observe(Refused("ns/w"))
    story.do("queue x main cpu=2")
    assert story.decide() == ["admit x"]
    assert story.holding("main") == ["x"]
    assert (story.queued("main"), story.parked("main")) == ([], [])
