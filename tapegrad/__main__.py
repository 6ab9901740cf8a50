"""`python -m tapegrad`: the same commands as `tapegrad`."""

import sys

from tapegrad.cli import main

if __name__ == "__main__":
    sys.exit(main())
