"""The nouns of the glossary as frozen types with their invariants; inventory and needs table; the root of all errors."""
