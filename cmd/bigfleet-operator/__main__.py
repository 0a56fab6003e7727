"""`python cmd/bigfleet-operator`: the same as the console script `bigfleet-operator`."""

import sys

from bigfleet.app.operator import main

sys.exit(main())
