"""Names of `query.pykueue.io`, our aggregated API: why a workload waits, when it will start, what a change would do."""

from typing import Final

QUERY_GROUP: Final = "query.pykueue.io"
QUERY_VERSION: Final = "v1alpha1"
EXPLANATIONS: Final = "explanations"
"""The subresource of `workloads`, `localqueues` and `clusterqueues` that says why."""
ESTIMATES: Final = "estimates"
"""The subresource of `workloads` that says when."""
PREVIEWS: Final = "previews"
"""Questions about new jobs of a namespace."""
CLUSTER_PREVIEWS: Final = "clusterpreviews"
"""Questions about any change."""
