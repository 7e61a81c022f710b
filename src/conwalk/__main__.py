"""``python -m conwalk`` is the ``conwalk`` command."""

from conwalk.cli import main

if __name__ == "__main__":
    main()
