"""Which faults are tried, and which rule of the auditor must find each? docs/faults.md has the same table."""

from tests.mutants import fairfaults, faults
from tests.mutants.faults import Mutant

MUTANTS = {
    "greedy": Mutant("overuse", "assumes that each queue has one cpu more than it has", faults.greedy),
    "unlimited": Mutant("overuse", "ignores borrowingLimit", faults.boundless("borrowing_limit")),
    "overlending": Mutant("overuse", "lends beyond lendingLimit", faults.boundless("lending_limit")),
    "stubborn": Mutant("overuse", "ignores edits of quotas", faults.stubborn),
    "double": Mutant("overuse", "admits two workloads into the same capacity", faults.double),
    "separate": Mutant("overuse", "does not count borrowed quota in the cohort", faults.separate),
    "miserly": Mutant("stuck", "counts quota that was released as used", faults.miserly),
    "cheap": Mutant("reservation", "counts half of the pods' requests", faults.cheap),
    "jealous": Mutant("preemption", "preempts workloads of equal priority", faults.jealous),
    "upside-down": Mutant("preemption", "preempts workloads of higher priority", faults.upside_down),
    "ruthless": Mutant("preemption", "preempts under the policy Never", faults.ruthless),
    "needless": Mutant("preemption", "preempts although capacity is free", faults.needless),
    "lavish": Mutant("preemption", "preempts more workloads than it needs to", faults.lavish),
    "grabbing": Mutant("preemption", "reclaims from queues that do not borrow", faults.grabbing),
    "selfish": Mutant("preemption", "reclaims for workloads that would borrow", faults.selfish),
    "reckless": Mutant("preemption", "ignores maxPriorityThreshold", faults.reckless),
    "mute": Mutant("eviction", "does not name the preemptor", faults.mute),
    "silent": Mutant("eviction", "does not count evictions", faults.silent),
    "backward": Mutant("order", "admits the youngest first", faults.backward),
    "levelling": Mutant("order", "ignores priorities in a queue", faults.levelling),
    "pushing": Mutant("order", "lets workloads overtake in a StrictFIFO queue", faults.pushing),
    "forgetful": Mutant("stuck", "forgets one workload in six", faults.forgetful),
    "hurried": Mutant("reservation", "ignores the backoff after an eviction", faults.hurried),
    "open-house": Mutant("reservation", "ignores namespaceSelector", faults.open_house),
    "unstoppable": Mutant("reservation", "admits while the ClusterQueue is stopped", faults.unstoppable),
    "anywhere": Mutant("reservation", "assigns flavors with nodes on which the pods cannot run", faults.anywhere),
    "trusting": Mutant("conditions", "skips AdmissionChecks", faults.trusting),
    "hopeful": Mutant("capacity", "considers capacity available before it is provisioned", faults.hopeful),
    "untidy": Mutant("orphan", "keeps the requests of evicted workloads", faults.untidy),
    "uncounting": Mutant("attempt", "does not count failed attempts", faults.uncounting),
    "hasty": Mutant("unadmitted", "starts Jobs before they are admitted", faults.hasty),
    "impatient": Mutant("unadmitted", "releases quota before the pods have terminated", faults.impatient),
    "generous": Mutant("uncovered", "releases the quota of running pods when one of them is done", faults.generous),
    "clinging": Mutant("undone", "does not drain a queue", faults.clinging),
    "undying": Mutant("undone", "does not evict deactivated workloads", faults.undying),
    "ignoring": Mutant("undone", "does not stop the Jobs of evicted workloads", faults.ignoring),
    "lazy": Mutant("undone", "does not start admitted Jobs", faults.lazy),
    "leaky": Mutant("lost", "keeps the quota of one finished Job in four", faults.leaky),
    "careless": Mutant("lost", "does not create a Workload for one Job in six", faults.careless),
    "destructive": Mutant("lost", "deletes Workloads of running Jobs", faults.destructive),
    "premature": Mutant("finish", "finishes Workloads of running Jobs", faults.premature),
}

FAIR_MUTANTS = {
    "weightless": Mutant("share", "ignores the weights of fair sharing", fairfaults.weightless),
    "reversed": Mutant("share", "compares the shares of preemptor and victim in reverse", fairfaults.reversed_sides),
    "shallow": Mutant(
        "share", "compares the shares of queues, not of the cohorts below their common cohort", fairfaults.queue_level
    ),
    "optimistic": Mutant(
        "share", "takes the victim's share before a preemption for that after it", fairfaults.before_only
    ),
    "entitled": Mutant("share", "reclaims for queues that exceed their nominal quota", fairfaults.entitled),
    "taking": Mutant("share", "preempts in queues that borrow nothing", fairfaults.taking_own),
    "rich-first": Mutant("tournament", "admits the head with the largest share first", fairfaults.richest_first),
    "near-sighted": Mutant(
        "tournament", "orders heads by the shares of their queues at every level", fairfaults.heads_by_queue
    ),
}
"""Those that need fair sharing; they run under a load of their own."""
