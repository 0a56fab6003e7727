"""Explanations of a need or a machine, and what-if: the engine run again with edits."""
