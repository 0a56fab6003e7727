"""`python cmd/bigfleet-fault-provider`: the same as the console script `bigfleet-fault-provider`."""

import sys

from bigfleet.app.fault_provider import main

sys.exit(main())
