"""Messages of the part of etcd's API that a coordinator uses; generated from `proto/bigfleet/etcd`."""
