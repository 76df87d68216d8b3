"""The entry point of `pykueue` and of `python -m pykueue`; read `cli/main.py` next."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it without a traceback, even while modules are imported."""
    try:
        from pykueue.cli.main import main as run

        run()
    except KeyboardInterrupt:
        # 128 + SIGINT, as shells report it.
        sys.exit(130)


if __name__ == "__main__":
    main()
