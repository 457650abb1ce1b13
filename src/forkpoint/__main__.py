"""``python -m forkpoint``: the command line, where no script of that name is on the path."""

import sys

from forkpoint.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
