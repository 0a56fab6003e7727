"""`python cmd/bigfleet-fake-provider`: the same as the console script `bigfleet-fake-provider`."""

import sys

from bigfleet.app.fake_provider import main

sys.exit(main())
