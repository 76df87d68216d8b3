"""Which Workloads show what each of their rules means? See `cases` for the other kinds."""

from tests.api.rules.cases import (
    AT_BOOST,
    AT_GATES,
    BOOST,
    EITHER,
    IMMUTABLE,
    NEGATIVE,
    PSU,
    RUNNING,
    SLICE,
    TR,
    TWO,
    WHILE,
    Case,
    admission,
    asks,
    assigned,
    boost,
    done,
    gated,
    held,
    part,
    placed,
    pod_ref,
    pod_set,
    ref,
    resized,
    template,
    tolerations,
    true,
    update,
    was,
    workload,
)
from tests.api.test_labels import NAME, VALUE

WPC = "kueue.x-k8s.io/workloadpriorityclass"
PC = "scheduling.k8s.io/priorityclass"
OBJECT = 'Invalid value: "object":'
LONG = f"a.b/{'c' * 60}"

SCHEMA_CASES: list[Case] = [
    Case(
        "WL-CEL-1",
        "an assignment for each pod set",
        held(*TWO),
        held(*TWO, admission=admission(assigned("a"))),
        (f"{OBJECT} podSetAssignments must have the same number of podSets as the spec",),
    ),
    Case(
        "WL-CEL-2",
        "no priority class is added",
        held(spec=ref()),
        held(spec=ref()),
        (f"{OBJECT} priorityClassRef {WHILE}",),
        good_before=workload(),
        bad_before=held(),
    ),
    Case(
        "WL-CEL-2",
        "no priority class is removed, not even with the quota",
        held(spec=ref("low")),
        workload(),
        (f"{OBJECT} priorityClassRef {WHILE}",),
        good_before=held(spec=ref()),
        bad_before=held(spec=ref()),
    ),
    Case(
        "WL-CEL-3",
        "the group of the priority class stays",
        held(spec=ref("low")),
        held(spec=pod_ref("high")),
        (f"{OBJECT} priorityClassRef.group {WHILE}",),
        good_before=held(spec=ref()),
        bad_before=held(spec=ref()),
    ),
    Case(
        "WL-CEL-4",
        "the kind of the priority class stays",
        held(spec=ref("low")),
        held(spec=pod_ref("high")),
        (f"{OBJECT} priorityClassRef.kind {WHILE}",),
        good_before=held(spec=ref()),
        bad_before=held(spec=ref()),
    ),
    Case(
        "WL-CEL-5",
        "the pods' priority class stays",
        held(spec=pod_ref("high")),
        held(spec=pod_ref("low")),
        (
            f"{OBJECT} priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass "
            "while workload quota reserved",
        ),
        good_before=held(spec=pod_ref("high")),
        bad_before=held(spec=pod_ref("high")),
    ),
    Case(
        "WL-CEL-6",
        "the queue stays",
        workload(spec={"queueName": "b"}),
        held(spec={"queueName": "b"}),
        (f"{OBJECT} queueName {WHILE}",),
        good_before=held(spec={"queueName": "a"}),
        bad_before=held(spec={"queueName": "a"}),
    ),
    Case(
        "WL-CEL-6",
        "the queue is not taken away",
        held(spec={"queueName": "a"}),
        held(),
        (f"{OBJECT} queueName {WHILE}",),
        good_before=held(spec={"queueName": "a"}),
        bad_before=held(spec={"queueName": "a"}),
    ),
    Case(
        "WL-CEL-7",
        "the longest run time stays once admitted",
        held(spec={"maximumExecutionTimeSeconds": 5}),
        held(spec={"maximumExecutionTimeSeconds": 5}, **RUNNING),
        (f"{OBJECT} maximumExecutionTimeSeconds {WHILE}",),
        good_before=held(),
        bad_before=held(**RUNNING),
    ),
    Case(
        "WL-CEL-7",
        "the longest run time changes until then",
        held(spec={"maximumExecutionTimeSeconds": 5}, **RUNNING),
        held(spec={"maximumExecutionTimeSeconds": 5}, **RUNNING),
        (f"{OBJECT} maximumExecutionTimeSeconds {WHILE}",),
        good_before=held(spec={"maximumExecutionTimeSeconds": 6}),
        bad_before=held(spec={"maximumExecutionTimeSeconds": 6}, **RUNNING),
    ),
    Case(
        "WL-CEL-8",
        "a class gives a priority",
        workload(spec=ref()),
        workload(spec={**ref(), "priority": None}),
        (f"spec: {OBJECT} priority should not be nil when priorityClassRef is set",),
    ),
    Case(
        "WL-CEL-9",
        "no fewer than at least",
        workload(pod_set(count=2, minCount=2)),
        workload(pod_set(count=2, minCount=3)),
        (f"spec.podSets[0]: {OBJECT} minCount should be positive and less or equal to count",),
    ),
    Case(
        "WL-CEL-9",
        "one pod, where nobody says how many",
        workload({"name": "main", "minCount": 1}),
        workload({"name": "main", "minCount": 2}),
        (f"spec.podSets[0]: {OBJECT} minCount should be positive and less or equal to count",),
    ),
    Case(
        "WL-CEL-10",
        "a class for pods",
        workload(spec=pod_ref("a")),
        workload(spec=ref(group="scheduling.k8s.io")),
        (f"spec.priorityClassRef: {OBJECT} only the PriorityClass kind is allowed for the scheduling.k8s.io group",),
    ),
    Case(
        "WL-CEL-11",
        "a class for workloads",
        workload(spec=ref()),
        workload(spec=ref(kind="PriorityClass")),
        (
            f"spec.priorityClassRef: {OBJECT} "
            "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
        ),
    ),
    Case(
        "WL-CEL-12",
        "the cluster is not exchanged",
        workload(status={"clusterName": "a"}),
        workload(status={"clusterName": "b"}),
        (f"status: {OBJECT} clusterName is immutable once set",),
        good_before=workload(status={"nominatedClusterNames": ["a"]}),
        bad_before=workload(status={"clusterName": "a"}),
    ),
    Case(
        "WL-CEL-13",
        "chosen, and still nominated",
        workload(status={"clusterName": "a", "nominatedClusterNames": []}),
        workload(status={"clusterName": "a", "nominatedClusterNames": ["a"]}),
        (f"status: {OBJECT} clusterName and nominatedClusterNames are mutually exclusive",),
    ),
    Case(
        "WL-CEL-14",
        "values for each level",
        placed(part()),
        placed(part(), levels=("block", "rack")),
        (
            f"{SLICE.removesuffix('.slices[0]')}: {OBJECT} "
            "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
        ),
    ),
    Case(
        "WL-CEL-15",
        "a count for each domain",
        placed(part(podCounts={"individual": [1, 2]})),
        placed(part(podCounts={"individual": [1, 2, 3]})),
        (f"{SLICE}: {OBJECT} podCounts.individual must have length equal to domainCount",),
    ),
    Case(
        "WL-CEL-16",
        "a root for each domain",
        placed(part(valuesPerLevel=[{"individual": {"roots": ["a", "b"]}}])),
        placed(part(valuesPerLevel=[{"individual": {"roots": ["a"]}}])),
        (
            f"{SLICE}: {OBJECT} valuesPerLevel.individual, if set, must have roots of length equal to domainCount "
            "of this TopologyAssignmentSlice",
        ),
    ),
    Case(
        "WL-CEL-17",
        "one count for all, or one for each",
        placed(part()),
        placed(part(podCounts={})),
        (f"{SLICE}.podCounts: {OBJECT} {EITHER}",),
    ),
    Case(
        "WL-CEL-18",
        "one value for all, or one for each",
        placed(part()),
        placed(part(valuesPerLevel=[{"universal": "a", "individual": {"roots": ["b", "c"]}}])),
        (f"{SLICE}.valuesPerLevel[0]: {OBJECT} {EITHER}",),
    ),
    *tolerations("WL", 19, lambda listed: workload(status=update(tolerations=listed))),
    Case(
        "WL-CEL-24",
        "the source stays, in the old version",
        was(WPC),
        was(PC),
        (f"{OBJECT} priorityClassSource {WHILE}",),
        good_before=was(WPC),
        bad_before=was(WPC),
    ),
    Case(
        "WL-CEL-25",
        "the pods' class stays, in the old version",
        was(WPC, {"priorityClassName": "b"}),
        was(PC, {"priorityClassName": "b"}),
        (
            f"{OBJECT} priorityClassName is immutable while workload quota reserved and priorityClassSource is not "
            f"equal to {WPC}",
        ),
        good_before=was(WPC),
        bad_before=was(PC),
    ),
    Case(
        "WL-CEL-26",
        "a class gives a priority, in the old version",
        workload(spec={"priorityClassName": "a", "priority": 0}),
        workload(spec={"priorityClassName": "a"}),
        (f"spec: {OBJECT} priority should not be nil when priorityClassName is set",),
    ),
]

SPEC_CASES: list[Case] = [
    Case(
        "WL-1",
        "two pod sets may shrink",
        workload(pod_set("a", 2, minCount=1), pod_set("b", 2)),
        workload(pod_set("a", 2, minCount=1), pod_set("b", 2, minCount=1)),
        ("spec.podSets: Invalid value: 2: at most one podSet can use minCount",),
    ),
    Case(
        "WL-2",
        "smaller now and resized later",
        workload(pod_set(count=2, minCount=1), annotations={"kueue.x-k8s.io/elastic-job": "false"}),
        workload(pod_set(count=2, minCount=1), annotations={"kueue.x-k8s.io/elastic-job": "true"}),
        ("spec.podSets: Invalid value: 1: partial admission and elastic job cannot be used together",),
    ),
    Case(
        "WL-3",
        "labels and annotations of pods",
        workload(pod_set(template={"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b c"}}})),
        workload(pod_set(template={"metadata": {"labels": {"a": "b c"}, "annotations": {"a b": ""}}})),
        (
            f'spec.podSets[0].template.metadata.labels: Invalid value: "b c": {VALUE}',
            f'spec.podSets[0].template.metadata.annotations: Invalid value: "a b": name part {NAME}',
        ),
    ),
    Case(
        "WL-4",
        "pods as a resource",
        workload(template(containers=[{"resources": {"requests": {"cpu": 1}}}])),
        workload(
            template(
                initContainers=[{"resources": {"limits": {"pods": 1}}}],
                containers=[{}, {"resources": {"requests": {"pods": 1}}}],
                resources={"requests": {"pods": 1}},
            )
        ),
        tuple(
            f'spec.podSets[0].template.spec.{where}[pods]: Invalid value: "pods": '
            "the key is reserved for internal kueue use"
            for where in (
                "initContainers[0].resources.limits",
                "containers[1].resources.requests",
                "resources.requests",
            )
        ),
    ),
    Case(
        "WL-5",
        "a negative request",
        workload(template(containers=[{"resources": {"requests": {"cpu": 0}}}])),
        workload(
            template(
                containers=[{"resources": {"requests": {"cpu": -1}, "limits": {"memory": "-1Gi"}}}],
                resources={"limits": {"cpu": "-100m"}},
            )
        ),
        (
            f'spec.podSets[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "-1": {NEGATIVE}',
            f'spec.podSets[0].template.spec.containers[0].resources.limits[memory]: Invalid value: "-1Gi": {NEGATIVE}',
            f'spec.podSets[0].template.spec.resources.limits[cpu]: Invalid value: "-100m": {NEGATIVE}',
        ),
    ),
    Case(
        "WL-6",
        "slices of no size",
        asks(podSetSliceRequiredTopology="rack", podSetSliceSize=2),
        asks(podSetSliceRequiredTopology="rack"),
        (f"{TR}.podSetSliceSize: Required value: must be set when podSetSliceRequiredTopology is specified",),
    ),
    Case(
        "WL-7",
        "a size of no slices",
        asks(preferred="rack"),
        asks(podSetSliceSize=2),
        (f"{TR}.podSetSliceSize: Forbidden: may not be set when podSetSliceRequiredTopology is not specified",),
    ),
    Case(
        "WL-8",
        "slices of nothing",
        asks(podsetSliceRequiredTopologyConstraints=[{"topology": "rack", "size": 1}]),
        asks(
            podSetSliceRequiredTopology="rack",
            podSetSliceSize=0,
            podsetSliceRequiredTopologyConstraints=[{"topology": "rack", "size": 1}, {"topology": "b", "size": -1}],
        ),
        (
            f"{TR}.podSetSliceSize: Invalid value: 0: must be greater than 0",
            f"{TR}.podsetSliceRequiredTopologyConstraints[1].size: Invalid value: -1: must be greater than 0",
        ),
    ),
    Case(
        "WL-9",
        "a gate without a name",
        gated("a.b/c, a.b/d"),
        gated("a.b/c,,a.b/d"),
        (f'{AT_GATES}: Invalid value: "a.b/c,,a.b/d": cannot contain empty gate names',),
    ),
    Case(
        "WL-10",
        "a gate twice",
        gated("a.b/c,a.b/d"),
        gated("a.b/c, a.b/c"),
        (f'{AT_GATES}: Invalid value: "a.b/c, a.b/c": duplicate gate name: a.b/c',),
    ),
    Case(
        "WL-11",
        "a gate below no domain, and one too long",
        gated(LONG[:63]),
        gated(f"c,{LONG}"),
        (
            f'{AT_GATES}: Invalid value: "c": must be a domain-prefixed path (such as "acme.io/foo")',
            f"{AT_GATES}: Too long: may not be more than 63 bytes",
        ),
    ),
    Case(
        "WL-12",
        "a gate after the fact",
        workload(),
        gated("a.b/c"),
        (f"{AT_GATES}: Forbidden: cannot add admission gate after creation",),
        good_before=gated("a.b/c"),
        bad_before=workload(),
    ),
    Case(
        "WL-13",
        "one gate more",
        gated("a.b/d, a.b/c"),
        gated("a.b/c,a.b/d,a.b/e"),
        (f"{AT_GATES}: Forbidden: can only remove gates, not add new ones",),
        good_before=gated("a.b/c,a.b/d,a.b/e"),
        bad_before=gated("a.b/c,a.b/d"),
    ),
    Case(
        "WL-14",
        "a boost of nothing",
        boost("0"),
        boost(""),
        (
            f'{AT_BOOST}: Invalid value: "": must be a valid signed integer; use "0" explicitly, '
            "empty string is not allowed",
        ),
        gates=BOOST,
    ),
    *(
        Case(
            "WL-15",
            title,
            boost(good),
            boost(bad),
            (f'{AT_BOOST}: Invalid value: "{bad}": must be a valid signed integer',),
            gates=BOOST,
        )
        for title, good, bad in (
            ("a boost in words", "+5", "high"),
            ("a boost beyond 32 bits", "2147483647", "2147483648"),
            ("a boost below 32 bits", "-2147483648", "-2147483649"),
            ("a boost with a fraction", "-0005", "1.5"),
            ("a boost of very many digits", "0" * 40 + "1", "9" * 40),
        )
    ),
    Case(
        "WL-16",
        "more pods than quota was reserved for",
        workload(pod_set(count=2)),
        held(pod_set(count=2)),
        (
            'spec.podSets.0: Invalid value: {"count":2,"name":"main","template":{"spec":{"containers":[]}}}: '
            f"{IMMUTABLE}",
        ),
        good_before=workload(),
        bad_before=held(),
    ),
    Case(
        "WL-16",
        "fewer pods are fine",
        held(pod_set(count=1)),
        held(pod_set(count=1, topologyRequest={})),
        (
            'spec.podSets.0: Invalid value: {"count":1,"name":"main","template":{"spec":{"containers":[]}},'
            f'"topologyRequest":{{}}}}: {IMMUTABLE}',
        ),
        good_before=held(pod_set(count=2)),
        bad_before=held(pod_set(count=2)),
    ),
    Case(
        "WL-16",
        "fewer pods are not fine without the gate",
        held(template(containers=[{"resources": {"requests": {"cpu": "1"}}, "env": []}])),
        held(pod_set(count=1)),
        (
            'spec.podSets.0: Invalid value: {"count":1,"name":"main","template":{"spec":{"containers":[]}}}: '
            f"{IMMUTABLE}",
        ),
        good_before=held(template(containers=[{"resources": {"requests": {"cpu": "1000m"}, "limits": {}}}])),
        bad_before=held(pod_set(count=2)),
        gates={"ElasticJobsViaWorkloadSlices": False},
    ),
    Case(
        "WL-16",
        "a pod set more",
        held(),
        held(pod_set("a"), pod_set("b")),
        (
            'spec.podSets: Invalid value: [{"count":1,"name":"a","template":{"spec":{"containers":[]}}},'
            f'{{"count":1,"name":"b","template":{{"spec":{{"containers":[]}}}}}}]: {IMMUTABLE}',
        ),
        good_before=held(),
        bad_before=held(),
    ),
    Case(
        "WL-30",
        "three pod sets of two names",
        workload(pod_set("a"), pod_set("b")),
        workload(pod_set("a"), pod_set("b"), pod_set("a")),
        ('spec.podSets[2]: Duplicate value: {"name":"a"}',),
    ),
]

RESERVED = {"conditions": [true("QuotaReserved")]}

STATUS_CASES: list[Case] = [
    Case(
        "WL-17",
        "quota reserved nowhere",
        workload(status=RESERVED),
        workload(status=RESERVED),
        ("status.admission: Required value: must be set while the QuotaReserved condition is true",),
        good_before=workload(status=RESERVED),
        bad_before=workload(),
    ),
    Case(
        "WL-18",
        "given to nobody",
        held(),
        held(admission=admission(assigned("other"))),
        ('status.admission.podSetAssignments[0].name: Not found: "other"',),
    ),
    Case(
        "WL-19",
        "so much for each pod",
        held(admission=admission(assigned(count=3, resourceUsage={"cpu": "3", "memory": "3Gi"}))),
        held(admission=admission(assigned(count=3, resourceUsage={"cpu": "1", "memory": "3Gi", "gpu": 4}))),
        (
            'status.admission.podSetAssignments[0].resourceUsage[cpu]: Invalid value: "1": is not a multiple of 3',
            'status.admission.podSetAssignments[0].resourceUsage[gpu]: Invalid value: "4": is not a multiple of 3',
        ),
    ),
    Case(
        "WL-19",
        "something for no pod",
        held(admission=admission(assigned(count=0, resourceUsage={"cpu": "1"}))),
        held(admission=admission(assigned(count=2, resourceUsage={"cpu": "1001m"}))),
        ('status.admission.podSetAssignments[0].resourceUsage[cpu]: Invalid value: "1001m": is not a multiple of 2',),
    ),
    Case(
        "WL-20",
        "conditions as Kubernetes wants them",
        workload(status={"conditions": [true("A"), true("B")]}),
        workload(
            status={
                "conditions": [
                    true("A"),
                    {**true("A"), "status": "Maybe", "observedGeneration": -1, "lastTransitionTime": None},
                    {**true("@"), "reason": "", "message": "m" * 32769},
                    {**true("C"), "reason": "a" * 1025},
                ]
            }
        ),
        (
            'status.conditions[1].type: Duplicate value: "A"',
            'status.conditions[1].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
            "status.conditions[1].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
            "status.conditions[1].lastTransitionTime: Required value: must be set",
            f'status.conditions[2].type: Invalid value: "@": name part {NAME}',
            "status.conditions[2].reason: Required value: must be set",
            "status.conditions[2].message: Too long: may not be more than 32768 bytes",
            "status.conditions[3].reason: Too long: may not be more than 1024 bytes",
        ),
    ),
    Case(
        "WL-20",
        "a reason is a word",
        workload(status={"conditions": [{**true("A"), "reason": "A,b:c_"}]}),
        workload(status={"conditions": [{**true("A"), "reason": "no word"}]}),
        (
            'status.conditions[0].reason: Invalid value: "no word": a condition reason must start with alphabetic '
            "character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an "
            "alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or "
            "'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
        ),
    ),
    Case(
        "WL-21",
        "reclaimed from nobody",
        workload(*TWO, status=done(("b", 1))),
        workload(*TWO, status=done(("c", 1))),
        ('status.reclaimablePods[c].name: Unsupported value: "c": supported values: "a", "b"',),
    ),
    Case(
        "WL-22",
        "one pod too many",
        workload(*TWO, status=done(("a", 3))),
        workload(*TWO, status=done(("a", 4))),
        ("status.reclaimablePods[a].count: Invalid value: 4: should be less or equal to 3",),
    ),
    Case(
        "WL-22",
        "an entry from before the resize",
        resized(3, 4),
        resized(3, 5),
        ("status.reclaimablePods[main].count: Invalid value: 5: should be less or equal to 3",),
        good_before=resized(8, 4),
        bad_before=resized(8, 4),
    ),
    Case(
        "WL-23",
        "a pod comes back",
        held(*TWO, **done(("a", 2), ("b", 1))),
        held(*TWO, **done(("a", 1))),
        ("status.reclaimablePods[a].count: Invalid value: 1: cannot be less than 2",),
        good_before=held(*TWO, **done(("a", 1))),
        bad_before=held(*TWO, **done(("a", 2))),
    ),
    Case(
        "WL-23",
        "pods come back after a resize",
        resized(10, 0, given=20),
        resized(8, 2, given=8),
        ("status.reclaimablePods[main].count: Invalid value: 2: cannot be less than 4",),
        good_before=resized(10, 9, given=20),
        bad_before=resized(8, 4, given=8),
    ),
    Case(
        "WL-24",
        "a pod set is forgotten",
        workload(*TWO),
        held(*TWO, **done(("a", 2))),
        ("status.reclaimablePods[b]: Required value: cannot be removed",),
        good_before=held(*TWO, **done(("a", 2))),
        bad_before=held(*TWO, **done(("a", 2), ("b", 1))),
    ),
    Case(
        "WL-24",
        "a pod set is forgotten after a resize",
        resized(1, None, given=8),
        resized(8, None),
        ("status.reclaimablePods[main]: Required value: cannot be removed",),
        good_before=resized(8, 4, given=8),
        bad_before=resized(8, 4),
    ),
    Case(
        "WL-25",
        "a change for nobody",
        workload(*TWO, status=update(name="a")),
        workload(*TWO, status=update(name="c")),
        (f'{PSU}.name: Unsupported value: "c": supported values: "a", "b"',),
    ),
    Case(
        "WL-26",
        "changes as Kubernetes wants them",
        workload(
            status=update(
                labels={"a": "b"},
                annotations={"a": "b c"},
                nodeSelector={"a": "b"},
                tolerations=[{"key": "a", "operator": "Exists"}],
            )
        ),
        workload(
            status=update(labels={"a": "@"}, annotations={"@": ""}, nodeSelector={"@": "a"}, tolerations=[{"key": "@"}])
        ),
        (
            f'{PSU}.tolerations[0].key: Invalid value: "@": name part {NAME}',
            f'{PSU}.annotations: Invalid value: "@": name part {NAME}',
            f'{PSU}.nodeSelector: Invalid value: "@": name part {NAME}',
            f'{PSU}.labels: Invalid value: "@": {VALUE}',
        ),
    ),
    Case(
        "WL-27",
        "an admission is changed",
        held(admission=admission(assigned(topologyAssignment={"levels": [], "slices": []}))),
        held(admission=admission(assigned(flavors={"cpu": "b"}))),
        (
            'status.admission: Invalid value: {"clusterQueue":"cq","podSetAssignments":'
            f'[{{"flavors":{{"cpu":"b"}},"name":"main"}}]}}: {IMMUTABLE}',
        ),
        good_before=held(admission=admission(assigned(delayedTopologyRequest="Pending"))),
        bad_before=held(admission=admission(assigned(flavors={"cpu": "a"}))),
    ),
    Case(
        "WL-27",
        "places are not filled in without the gate",
        held(),
        held(admission=admission(assigned(delayedTopologyRequest="Ready"))),
        (
            'status.admission: Invalid value: {"clusterQueue":"cq","podSetAssignments":'
            f'[{{"delayedTopologyRequest":"Ready","name":"main"}}]}}: {IMMUTABLE}',
        ),
        good_before=held(),
        bad_before=held(admission=admission(assigned(delayedTopologyRequest="Pending"))),
        gates={"TopologyAwareScheduling": False},
    ),
    Case(
        "WL-28",
        "a check changes its mind",
        workload(status=update(labels={"a": "b"})),
        workload(status=update(labels={"a": "c"})),
        (
            'status.admissionChecks[0].podSetUpdates: Invalid value: [{"labels":{"a":"c"},"name":"main"}]: '
            f"{IMMUTABLE}",
        ),
        good_before=workload(status={"admissionChecks": [{"name": "check", "state": "Pending"}]}),
        bad_before=workload(status=update(labels={"a": "b"})),
    ),
    Case(
        "WL-29",
        "a cluster that nobody nominated",
        workload(status={"clusterName": "a"}),
        workload(status={"clusterName": "b"}),
        (
            'status.clusterName: Invalid value: "b": '
            "when setting clusterName it must be one of the nominatedClusterNames",
        ),
        good_before=workload(status={"nominatedClusterNames": ["a"]}),
        bad_before=workload(status={"nominatedClusterNames": ["a"]}),
    ),
    Case(
        "WL-29",
        "a slice follows the one it replaces",
        workload(
            status={"clusterName": "b"}, annotations={"kueue.x-k8s.io/workload-slice-replacement-for": "ns/other"}
        ),
        workload(status={"clusterName": "b"}),
        (
            'status.clusterName: Invalid value: "b": '
            "when setting clusterName it must be one of the nominatedClusterNames",
        ),
        good_before=workload(annotations={"kueue.x-k8s.io/workload-slice-replacement-for": "ns/other"}),
        bad_before=workload(),
    ),
]

WORKLOAD_CASES = [*SCHEMA_CASES, *SPEC_CASES, *STATUS_CASES]
