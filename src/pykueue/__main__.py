"""What does `python -m pykueue` do? The same as the command `pykueue`; read `cli/main.py` next."""

from pykueue.cli.main import main

if __name__ == "__main__":
    main()
