"""Go's text templates, as far as bootstrap values files use them: `lexer`, `parser`, `evaluate`, `values`.

Why: existing installations have their templates in this syntax, and another engine would break every one of them.
Rules: operator 5, ADR-0011.
"""
