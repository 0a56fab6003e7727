"""Seams to the outside (clock, randomness, ids, network, disk, process) with their system form, and tools for waiting."""
