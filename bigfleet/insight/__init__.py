"""Generated: messages and stubs of the insight service (`proto/bigfleet/insight/v1`).

Why here: the generated modules are found by exactly this package name. It is separate from the wire contract, of
which it imports only the shape of a need, so that what is shown to people can grow without touching what peers agreed on.
Must never: be edited by hand. `python proto/generate.py` writes it, its `--check` refuses any difference.
"""
