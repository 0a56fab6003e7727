"""Pages as text: pure functions from what is known to HTML."""
