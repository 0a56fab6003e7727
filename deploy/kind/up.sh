#!/usr/bin/env bash
# Two kind clusters on this machine: bf-mgmt with the control plane, bf-work with the operator and a workload that does not fit.
# Run it again at any time: what is there stays. `down.sh` removes everything.
set -euo pipefail
cd "$(dirname "$0")/../.."
image=${BIGFLEET_IMAGE:-bigfleet:local}
namespace=bigfleet-system

step() {
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  "$@"
  echo "== $name: $((SECONDS - start)) s"
}

tools() {
  local tool
  for tool in docker kind kubectl helm; do
    command -v "$tool" >/dev/null || { echo "up.sh: $tool is needed on the path" >&2; return 2; }
  done
  case $(helm version --short) in
    v3.[89]* | v3.[1-9][0-9]* | v4.*) ;;
    *) echo "up.sh: Helm 3.8 or newer is needed, found $(helm version --short)" >&2; return 2 ;;
  esac
  docker image inspect "$image" >/dev/null 2>&1 || { echo "up.sh: no image $image; run make image first" >&2; return 2; }
}

cluster() {
  kind get clusters 2>/dev/null | grep -qx "$1" || kind create cluster --name "$1" --wait 120s
  kind load docker-image "$image" --name "$1"
}

# The image is on the nodes already; asking a registry for it would fail.
chart() {
  local context=$1 release=$2 chart=$3
  shift 3
  helm upgrade --install "$release" "charts/$chart" --kube-context "kind-$context" --namespace "$namespace" --create-namespace \
    --set "image.repository=${image%:*}" --set "image.tag=${image##*:}" --set image.pullPolicy=Never --wait --timeout 5m "$@"
}

# kind's clusters share one network, so a node port of one is reachable from the pods of the other.
shard_address() {
  local node port
  node=$(kubectl --context kind-bf-mgmt get nodes -o 'jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}')
  port=$(kubectl --context kind-bf-mgmt -n "$namespace" get service bigfleet-shard-0-external -o 'jsonpath={.spec.ports[0].nodePort}')
  echo "$node:$port"
}

workload() {
  kubectl --context kind-bf-work apply -f deploy/kind/workload.yaml
}

operator() {
  chart bf-work bigfleet-operator bigfleet-operator --set clusterID=kind-work --set insecure=true --set "shardAddress=$(shard_address)" --set rollupInterval=2s
}

show() {
  kubectl --context kind-bf-work wait --for=jsonpath='{.status.phase}'=Acknowledged capacityrequests --all --timeout=120s
  kubectl --context kind-bf-work get capacityrequests,upcomingnodes -A
}

step "tools" tools
step "cluster bf-mgmt" cluster bf-mgmt
step "cluster bf-work" cluster bf-work
step "control plane" chart bf-mgmt bigfleet bigfleet --values deploy/examples/values-kind.yaml
step "operator" operator
step "pod controller" chart bf-work bigfleet-unschedulable-pod-controller bigfleet-unschedulable-pod-controller
step "a workload that does not fit" workload
step "what came of it" show
echo "dashboard: kubectl --context kind-bf-mgmt -n $namespace port-forward service/bigfleet-dashboard 8760, then http://127.0.0.1:8760/"
echo "its password: kubectl --context kind-bf-mgmt -n $namespace get secret bigfleet-dashboard-token -o 'go-template={{.data.token | base64decode}}'"
