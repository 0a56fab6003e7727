"""Real members of etcd on free ports of loopback, for tests of the log in etcd."""
