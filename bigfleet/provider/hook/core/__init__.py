"""What the hook provider decides: inventory, words to and from a hook, what an exit code means. Nothing here waits or reads."""
