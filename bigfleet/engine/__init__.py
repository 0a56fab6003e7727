"""The decision engine: snapshot, demand and time in, decision out. README.md shows the way through it."""
