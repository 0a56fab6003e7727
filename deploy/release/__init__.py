"""Builds and checks releases: `python -m deploy.release build` and `python -m deploy.release check`."""
