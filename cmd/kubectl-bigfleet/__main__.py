"""`python cmd/kubectl-bigfleet`: the same as the console script `kubectl-bigfleet`, and as `kubectl bigfleet`."""

import sys

from bigfleet.app.kubectl_bigfleet import main

sys.exit(main())
