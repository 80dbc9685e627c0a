"""`python -m dofnerf` is the command `dofnerf`."""

import sys

from dofnerf.cli import main

sys.exit(main())
