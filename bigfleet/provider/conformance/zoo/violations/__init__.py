"""Planted violations, by family; each class breaks one rule of the honest model."""
