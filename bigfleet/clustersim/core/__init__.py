"""The demand of a simulated cluster over time, as a pure function of its file."""
