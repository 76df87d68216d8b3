"""`pykueue completion`: the script by which a shell completes our commands."""

import click


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print a completion script for a shell.

    It completes commands, options, and the names of queues, namespaces, jobs and Workloads, which it gets from the
    server. If the server does not respond, no names are offered.

    \b
    Example:
      eval "$(pykueue completion bash)"              # in ~/.bashrc
      eval "$(pykueue completion zsh)"               # in ~/.zshrc, after compinit
      pykueue completion fish | source               # in ~/.config/fish/config.fish

    `kubectl pykueue` is completed automatically if `kubectl completion` is set up.

    Exit codes: 0, success; 2, invalid input.
    """
    from click.shell_completion import ShellComplete, get_completion_class

    from pykueue.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None, f"click has no completion for {shell}"
    # The method of bash starts bash to learn its version; its script needs 4.4, which is from 2016.
    click.echo(ShellComplete.source(found(cli, {}, "pykueue", "_PYKUEUE_COMPLETE")))
