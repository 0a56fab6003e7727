"""Reference pages made from the code: command line, settings, exit codes, metrics, wire, machine states, ADR index.

Why: a page written by hand is wrong after the next change; these are drift-checked (`python -m docs.generate --check`).
Must never: read anything but the code, the protos and the ADR pages, or depend on order, time or machine.
"""
