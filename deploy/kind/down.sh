#!/usr/bin/env bash
# Removes both clusters of up.sh, and all that is in them.
set -euo pipefail
for name in bf-mgmt bf-work; do kind delete cluster --name "$name"; done
