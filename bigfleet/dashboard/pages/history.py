"""Parts of pages that show a range of time, and what is wrong with the history.

Rules: `dashboard#history-trouble`.
"""

from bigfleet.dashboard.history import History
from bigfleet.dashboard.html import Html, el


def history_problem(history: History) -> Html | None:
    """Return what is wrong with the file of the history; nothing when it is well."""
    trouble = history.trouble
    if trouble is None:
        return None
    what = "Charts end with this process" if trouble.lasting else "Charts begin anew"
    return el("p", f"▲ {what}: {trouble.text}", class_="warn")
