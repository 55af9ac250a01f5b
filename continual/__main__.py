"""`python -m continual`; see `continual.cli`."""

import sys

from continual.cli import main

if __name__ == "__main__":
    sys.exit(main())
