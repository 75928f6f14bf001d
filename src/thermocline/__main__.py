"""The thermocline command, also as `python -m thermocline`. Ctrl-C is understood from the first moment."""

import sys


def main() -> None:
    """Run the command and exit with a code that means something."""
    try:
        from thermocline.cli.main import run
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
