// Which ClusterQueue a job belongs to, as far as the server tells.
import type { JobSummary, Policy } from "../api/types";
import { live } from "./live";

let known: { policies: Record<string, Policy>; byLocal: Map<string, string> } | null = null;

function byLocal(): Map<string, string> {
  const policies = live.overview?.policies ?? {};
  if (known?.policies !== policies) {
    known = { policies, byLocal: new Map() };
    for (const [name, policy] of Object.entries(policies)) {
      for (const local of policy.localQueues ?? []) known.byLocal.set(local, name);
    }
  }
  return known.byLocal;
}

/** Its ClusterQueue; its LocalQueue where the user may not know that. */
export function clusterQueueOf(job: JobSummary): string {
  return job.clusterQueue || byLocal().get(`${job.namespace}/${job.queue ?? ""}`) || job.queue || "";
}
