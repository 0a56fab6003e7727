"""The pure part of what readers get: queries, counts and bounded logs over completed cycles."""
