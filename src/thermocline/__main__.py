"""`python -m thermocline` is the thermocline command."""

from thermocline.cli.main import main

if __name__ == "__main__":
    main()
