"""What the coordinator client decides, without waiting for anything."""
