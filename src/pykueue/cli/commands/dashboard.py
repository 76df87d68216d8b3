"""`pykueue dashboard`: queues and jobs in a browser, with the rights of the user."""

import os
import sys

import click

from pykueue.cli.flags import Count, choosing_server, namespaced


@click.command()
@click.option(
    "--port", type=Count(0, 65535), default=0, metavar="PORT", help="Port to listen on; default: any free one."
)
@click.option("--no-browser", is_flag=True, help="Do not start a browser; print the path of the file to open instead.")
@click.option("--view-only", is_flag=True, help="A session that cannot act, such as for a screen on the wall.")
@click.option(
    "--session",
    "lasting",
    default="12h",
    show_default=True,
    metavar="DURATION",
    help="How long the session lasts, as in 30m, 12h or 168h.",
)
@click.option("--code", "prints_code", is_flag=True, help="Print a one-time code and the address at which to enter it.")
@namespaced
@choosing_server
def dashboard(
    port: int,
    no_browser: bool,
    view_only: bool,
    lasting: str,
    prints_code: bool,
    kubeconfig: str | None,
    context: str | None,
    data: str | None,
    namespace: str | None,
) -> None:
    """Show queues and jobs in a browser.

    The page is served on a loopback address of this machine until Ctrl-C, and asks the server with your kubeconfig: it
    shows what you may see, and does what you may do. The browser gets a one-time code in a file that only you can read;
    the code is valid for a minute. Other users of this machine cannot use the page.

    If you may not list the jobs of all namespaces, it shows those of the namespace that -n names.

    With --code nothing is opened; you enter the printed code by hand, for example in a browser that cannot read the
    file because it was installed by Snap or Flatpak. The server of `pykueue up` has the same page at /ui, for browsers
    that trust its certificate authority (tls/ca.crt in its data directory): the code is for that page, and the command
    ends. For a cluster the page is served here, as without --code.

    \b
    Example:
      pykueue dashboard
      pykueue dashboard --view-only --session 168h
      pykueue dashboard --code

    Exit codes: 0, success; 1, the server refused it or does not respond; 2, invalid input, or the port is in use.
    """
    # Imported here so that help and usage errors are fast.
    from pykueue.cli.session import asked
    from pykueue.cli.target import chosen

    seconds = seconds_of(lasting)
    target = chosen(kubeconfig, context, data)
    from pykueue.cli.dashboard.serving import Wanted, serve
    from pykueue.cli.serverstate import fail
    from pykueue.web.loopback import bind

    try:
        sock = bind(port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        fail(f"--port: cannot listen on port {port}: {why}; choose another one, or leave the option out")
    wanted = Wanted(seconds, view_only, not no_browser, namespace or "", prints_code)
    with sock:
        sys.exit(asked(target, "dashboard", lambda kube: serve(kube, target, wanted, sock)))


def seconds_of(lasting: str) -> int:
    """The length of a session; exits with an error if it is malformed, too short or too long."""
    from pykueue.api.durations import DurationError, parse_duration
    from pykueue.base.units import MICROS
    from pykueue.cli.dashboard.codes import SECONDS_MAX, SECONDS_MIN
    from pykueue.cli.serverstate import fail

    try:
        seconds = parse_duration(lasting) // MICROS
    except DurationError:
        fail(f"--session: {lasting!r} is not a duration; write it as in 30m, 12h or 168h")
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        fail(f"--session: {lasting} is out of range; use 1m to {SECONDS_MAX // 3600}h")
    return seconds
