"""`python cmd/bigfleet-unschedulable-pod-controller`: the same as the console script of that name."""

import sys

from bigfleet.app.unschedulable_pod_controller import main

sys.exit(main())
