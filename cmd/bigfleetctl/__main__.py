"""`python cmd/bigfleetctl`: the same as the console script `bigfleetctl`."""

import sys

from bigfleet.app.bigfleetctl import main

sys.exit(main())
