"""`pykueue version`: the versions of client, server and manager, as `kueuectl version` prints them."""

from typing import Any, Final

import click

from pykueue.cli.flags import choosing_server

NAMESPACE: Final = "kueue-system"
DEPLOYMENT: Final = "kueue-controller-manager"
CONTAINER: Final = "manager"


@click.command()
@click.option("--client", is_flag=True, help="Print only the version of this program; do not contact a server.")
@choosing_server
def version(client: bool, **given: Any) -> None:
    """Print the versions of client, server and manager.

    The image of the manager is shown if it runs as the Deployment `kueue-controller-manager` and you may read it. The
    local server does not have such a Deployment.

    \b
    Example:
      pykueue version
      pykueue version --client

    Exit codes: 0, success; 1, the server rejected the request or does not respond; 2, no server was found.
    """
    from pykueue.cli.main import version as installed

    click.echo(f"Client Version: v{installed()}")
    if client:
        return
    from pykueue.base.text import printable
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    target = chosen(given["kubeconfig"], given["context"], given["data"])
    for line in asked(target, "version", lines):
        click.echo(printable(line))


async def lines(kube: Any) -> tuple[str, ...]:
    """What the server says about itself and its manager."""
    import msgspec

    from pykueue.api.trees import mappings, text
    from pykueue.cli.objects import everything
    from pykueue.kube.client.http import Call
    from pykueue.kube.port import DeniedError, NotFoundError, Resource

    about = msgspec.json.decode(await kube.call(Call("GET", "/version", "get /version", repeatable=True)))
    server = f"Server Version: {text(about, 'gitVersion')}"
    deployments = Resource("apps", "v1", "deployments", "Deployment", True)
    found = []
    try:
        found = [msgspec.json.decode(await kube.get(deployments, DEPLOYMENT, NAMESPACE))]
    except (NotFoundError, DeniedError):
        # It may be installed in another namespace.
        try:
            found = await everything(kube, deployments, fields=f"metadata.name={DEPLOYMENT}")
        except (NotFoundError, DeniedError):
            return (server,)
    images = (
        text(container, "image")
        for one in found
        for _, container in mappings(one, "spec", "template", "spec", "containers")
        if text(container, "name") == CONTAINER
    )
    return (server, *(f"Kueue Controller Manager Image: {image}" for image in images))
