"""The part of Go's text templates that bootstrap templates use: `lexer`, `parser`, `evaluate`, `values`.

Why: the templates of existing installations are in this syntax.
Rules: `operator#bootstrap`; ADR-0011.
"""
