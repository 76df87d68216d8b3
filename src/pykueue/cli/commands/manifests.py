"""`pykueue manifests`: print the manifests of a cluster installation as YAML."""

import sys
from typing import Literal, cast

import click

from pykueue.api.config.types import DEFAULT_NAMESPACE
from pykueue.api.config.unbuilt import read_built
from pykueue.api.install.deployment import shipped
from pykueue.api.install.install import Install
from pykueue.api.install.manifests import OPTIONAL, PARTS, rendered
from pykueue.api.install.manifests import manifests as made
from pykueue.base.text import printable
from pykueue.cli.flags import tolerating_unknown_gates
from pykueue.cli.manifestfiles import content, unreadable


@click.command()
@click.option("--namespace", default=DEFAULT_NAMESPACE, show_default=True, help="Namespace of the manager.")
@click.option("--image", default=Install().image, show_default=True, help="Container image of the manager.")
@click.option(
    "--replicas",
    type=click.IntRange(min=0),
    default=Install().replicas,
    show_default=True,
    help="Number of manager replicas.",
)
@click.option("--config", metavar="FILE", default="", help="Configuration file to install instead of the default one.")
@tolerating_unknown_gates
@click.option(
    "--default-queues",
    type=click.Choice(["policy", "webhook"]),
    default="policy",
    show_default=True,
    help="How a Job without a queue name gets the LocalQueue `default`: from a MutatingAdmissionPolicy, which "
    "requires Kubernetes 1.36, or from a webhook, which is skipped while the manager is down.",
)
@click.option(
    "--only",
    type=click.Choice([*PARTS, *OPTIONAL]),
    multiple=True,
    metavar="PART",
    help=f"Print only this part: {', '.join(PARTS)}, or {', '.join(OPTIONAL)}, which is not printed by default. "
    "Repeatable.",
)
def manifests(
    namespace: str,
    image: str,
    replicas: int,
    config: str,
    tolerate_unknown_gates: bool,
    default_queues: str,
    only: tuple[str, ...],
) -> None:
    """Print the manifests of a cluster installation.

    Prints all parts unless --only selects some. To change an installation, apply the output again with other options.

    \b
    Example:
      pykueue manifests --image example.com/pykueue:1 | kubectl apply --server-side -f -
      pykueue manifests --only crds --only rbac

    Exit codes: 0, success; 2, invalid input.
    """
    text, where = (read_text(config), config) if config else (shipped(namespace), "")
    loaded, mistakes = read_built(text, tolerate_unknown_gates=tolerate_unknown_gates)
    for mistake in mistakes:
        click.echo(printable(f"{where}: {mistake}"), err=True)
    if loaded is None or mistakes:
        sys.exit(2)
    for warning in loaded.warnings:
        click.echo(printable(f"{where}: warning: {warning}"), err=True)
    said = loaded.configuration.namespace
    if said != namespace:
        click.echo(
            f"{where}: namespace: {said!r} differs from --namespace {namespace!r}; use the same in both", err=True
        )
        sys.exit(2)
    install = Install(
        namespace=namespace,
        image=image,
        replicas=replicas,
        configuration=loaded.configuration,
        text=text,
        tolerate_unknown_gates=tolerate_unknown_gates,
        default_queues=cast("Literal['policy', 'webhook']", default_queues),
    )
    click.echo(rendered(made(install, only or PARTS)), nl=False)


def read_text(file: str) -> str:
    """The text of a file; exits with an error if it cannot be read."""
    try:
        return content(file).decode()
    except UnicodeDecodeError:
        wrong = "not valid UTF-8; convert the file to UTF-8"
    except (OSError, ValueError) as error:
        wrong = unreadable(error)
    click.echo(printable(f"{file}: {wrong}"), err=True)
    sys.exit(2)
