"""The public JSON of snapshots and decisions: read, write, edit, compare."""
