"""One folder per program: its settings, its wiring, its `main`."""
