"""``python -m forkpoint``: the command line."""

import sys

from forkpoint.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
