"""`python cmd/bigfleet-hook-provider`: the same as the console script `bigfleet-hook-provider`."""

import sys

from bigfleet.app.hook_provider import main

sys.exit(main())
