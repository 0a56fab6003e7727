"""Pages: pure functions from the picture of the fleet to HTML."""
