"""Reference pages made from the code: command line, settings, exit codes, errors, metrics, alerts, boards, chart values,
wire, machine states, the formulas of the concepts page, ADR index.

Why: a page written by hand is wrong after the next change; these are drift-checked (`python -m docs.generate --check`).
Must never: read anything but the code, the protos, charts, rules and the ADR pages, or depend on order, time or machine.
"""
