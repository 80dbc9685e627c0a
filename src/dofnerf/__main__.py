"""`python -m dofnerf` is the command `dofnerf`."""

import sys

from dofnerf.process import start


def main(arguments: list[str] | None = None) -> int:
    """The command; nothing else is imported before signals are taken care of."""

    def command(given: list[str]) -> int:
        from dofnerf.cli import main as run

        return run(given)

    return start(command, arguments)


if __name__ == "__main__":
    sys.exit(main())
