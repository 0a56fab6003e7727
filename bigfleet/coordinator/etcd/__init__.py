"""The coordinator's log in etcd: the second store behind `bigfleet.coordinator.log`."""
