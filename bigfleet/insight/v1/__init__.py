"""Version 1; see `bigfleet.insight`."""
