"""Generated: messages and stubs of the wire contract (`proto/bigfleet/v1alpha1`).

Why here: the generated modules import each other by exactly this package name.
Must never: be edited by hand. `python proto/generate.py` writes it, its `--check` refuses any difference.
"""
