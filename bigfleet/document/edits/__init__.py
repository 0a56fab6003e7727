"""Edits: changes to a snapshot document for a what-if, as a public form of their own."""

from bigfleet.document.edits.edit import KINDS, Edit, apply_edits, edits_of, read_edits

__all__ = ["KINDS", "Edit", "apply_edits", "edits_of", "read_edits"]
