"""`pykueue list pods`: the pods of a job, in the table that the server makes."""

from typing import Final

import msgspec

from pykueue.api.trees import Tree, mapping, mappings, text
from pykueue.cli.formats import Column, echo, printed
from pykueue.cli.kueuectl.discovery import ForError, object_called
from pykueue.cli.kueuectl.listing import POD_SELECTORS, nothing_found, pod_selector, table_cells
from pykueue.cli.kueuectl.lists import tell
from pykueue.cli.kueuectl.writes import bare
from pykueue.cli.serverstate import fail
from pykueue.cli.tables import KUBECTL_GAP
from pykueue.kube.client.http import Call, HttpKube, called, collection, query
from pykueue.kube.port import PODS

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def show_pods(
    kube: HttpKube,
    given: str,
    namespace: str,
    *,
    everywhere: bool,
    labels: str,
    fields: str,
    output: str | None,
    no_headers: bool,
) -> None:
    """Print the pods of the job that `TYPE[.GROUP]/NAME` names."""
    try:
        served, job = await object_called(kube, given, namespace)
    except ForError as error:
        fail(str(error), 1)
    if served.kind not in POD_SELECTORS:
        fail(f"unsupported kind: {served.resource.kind}", 1)
    selector = pod_selector(served.kind, job)
    within = "" if everywhere else namespace
    if selector is None:
        tell(nothing_found(within))
        return
    path = collection(PODS, within) + query(
        labelSelector=",".join(filter(None, (labels, selector))), fieldSelector=fields, includeObject="Object"
    )
    answer = await kube.call(Call("GET", path, called("list", PODS, within), repeatable=True, accept=TABLE))
    table: Tree = msgspec.json.decode(answer)
    rows = [row for _, row in mappings(table, "rows")]
    if not rows:
        tell(nothing_found(within))
        return
    headers, cells = table_cells(table, wide=True)
    narrow, _ = table_cells(table, wide=False)

    def column(at: int) -> Column[int]:
        return Column(headers[at], lambda row: cells[row][at], wide=headers[at] not in narrow)

    spread: Column[int] = Column("NAMESPACE", lambda row: text(rows[row], "object", "metadata", "namespace"))
    documents = [{"apiVersion": "v1", "kind": "Pod", **bare(mapping(row, "object"))} for row in rows]
    echo(
        printed(
            range(len(rows)),
            [*([spread] if everywhere else []), *map(column, range(len(headers)))],
            output,
            name=lambda row: f"pod/{text(rows[row], 'object', 'metadata', 'name')}",
            document=lambda: {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": documents},
            no_headers=no_headers,
            gap=KUBECTL_GAP,
        )
    )
