"""The exit-code page, from the enumeration that the commands return."""

from bigfleet.cli.framework.exit_codes import ExitCode
from docs.generate.markdown import code, table
from docs.generate.markdown import page as markdown_page


def page() -> str:
    """Return the page."""
    rows = [(str(exit_code.value), code(exit_code.name), exit_code.meaning) for exit_code in ExitCode]
    return markdown_page(
        "Exit codes",
        "Every program of BigFleet ends with one of these numbers. A failure is one line on standard error: the "
        "program, a colon, the cause with the field and what is allowed. A traceback is shown only with `--log-level debug`.",
        table(("Code", "Name", "Meaning"), rows),
    )
