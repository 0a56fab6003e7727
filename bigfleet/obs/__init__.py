"""Logs, metrics and the audit file."""
