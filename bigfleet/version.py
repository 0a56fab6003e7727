"""The one place that states the version; package, charts and release read it here."""

__version__ = "0.1.0.dev0"
