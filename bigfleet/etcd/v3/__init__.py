"""Generated; see `proto/bigfleet/etcd/v3/etcd.proto`."""
