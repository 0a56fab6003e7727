"""`python cmd/bigfleet`: the same as the console script `bigfleet`."""

import sys

from bigfleet.app.bigfleet import main

sys.exit(main())
