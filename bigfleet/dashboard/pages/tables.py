"""Tables of rows: captions, sorted columns, rows that open a drawer.

Must never: leave a column without a header cell, or an action without a link that works without scripts.
Rules: `dashboard#page-contents`, `dashboard#look`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bigfleet.dashboard.core.glossary import GLOSSARY
from bigfleet.dashboard.html import Child, Html, el
from bigfleet.dashboard.pages.frame import Frame


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its title, whether it holds numbers, and the word it can be sorted by."""

    title: str
    numeric: bool = False
    sort: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: its cells, a key that stays the same between refreshes, and the page behind it."""

    cells: Sequence[Child]
    key: str = ""
    open: str = ""
    class_: str = ""


@dataclass(frozen=True, slots=True)
class RowNote:
    """Words across all columns, between rows."""

    words: Child
    class_: str = ""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that belong together, under a heading if they have one."""

    rows: Sequence[TableRow | RowNote]
    heading: Child = None


def table(
    caption: Child,
    columns: Sequence[TableColumn],
    rows: Iterable[TableRow],
    sorted_by: "SortOrder | None" = None,
) -> Html:
    """Return a table; columns that can be sorted by are links."""
    return grouped_table(caption, columns, [RowGroup(list(rows))], sorted_by)


def grouped_table(
    caption: Child,
    columns: Sequence[TableColumn],
    groups: Iterable[RowGroup],
    sorted_by: "SortOrder | None" = None,
) -> Html:
    """Return a table whose rows are in groups."""
    head = el("tr", (_header(column, sorted_by) for column in columns))
    return el(
        "div",
        el("table", el("caption", caption), el("thead", head), (_group(group, columns) for group in groups)),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label="table",
    )


@dataclass(frozen=True, slots=True)
class SortOrder:
    """The sort order of a table, and the addresses of other orders."""

    frame: Frame
    page: str
    query: Mapping[str, str]
    by: str

    def link(self, word: str) -> str:
        """Return the address that sorts the table by a word, or reverses the order if it already does."""
        return self.frame.to(
            self.page, **{**self.query, "sort": f"-{word}" if self.by == word else word, "page": None}
        )


def _header(column: TableColumn, sorted_by: SortOrder | None) -> Html:
    if sorted_by is None or not column.sort:
        return el(
            "th",
            column.title,
            scope="col",
            class_="num" if column.numeric else None,
            title=GLOSSARY.get(column.title),
        )
    now = sorted_by.by.removeprefix("-") == column.sort
    direction = ("descending" if sorted_by.by.startswith("-") else "ascending") if now else None
    mark = {"ascending": " ▲", "descending": " ▼", None: ""}[direction]
    return el(
        "th",
        el("a", f"{column.title}{mark}", href=sorted_by.link(column.sort)),
        scope="col",
        aria_sort=direction,
        class_="num" if column.numeric else None,
        title=GLOSSARY.get(column.title),
    )


def _group(group: RowGroup, columns: Sequence[TableColumn]) -> Html:
    heading = None
    if group.heading is not None:
        heading = el("tr", el("th", group.heading, colspan=len(columns), scope="rowgroup"), class_="group")
    return el("tbody", heading, [_row(row, columns) for row in group.rows])


def _row(row: TableRow | RowNote, columns: Sequence[TableColumn]) -> Html:
    if isinstance(row, RowNote):
        return el("tr", el("td", row.words, colspan=len(columns)), class_=row.class_ or None)
    cells = (
        el(
            "td",
            cell,
            class_="num" if column.numeric else None,
            data_cell=f"{row.key}/{column.title}" if row.key else None,
        )
        for cell, column in zip(row.cells, columns, strict=True)
    )
    return el(
        "tr",
        cells,
        class_=row.class_ or None,
        data_key=row.key or None,
        data_open=row.open or None,
        tabindex=0 if row.open else None,
    )


def filters(frame: Frame, page: str, fields: Sequence[Html], hidden: Mapping[str, str] | None = None) -> Html:
    """Return a form whose values go into the address."""
    kept = (
        el("input", type="hidden", name=name, value=value) for name, value in (hidden or {}).items() if value
    )
    return el(
        "form",
        fields,
        kept,
        el("button", "Show", type="submit"),
        action=frame.to(page),
        method="get",
        class_="filters",
    )


def choice(name: str, title: str, options: Iterable[tuple[str, str]], chosen: str) -> Html:
    """Return a labelled list to choose from."""
    listed = (el("option", words, value=value, selected=value == chosen) for value, words in options)
    return el("label", title, el("select", listed, name=name))


def search(name: str, title: str, value: str) -> Html:
    """Return a labelled field for text."""
    return el(
        "label",
        title,
        el("input", type="search", name=name, value=value, autocomplete="off", spellcheck="false"),
    )


def identity(text: str) -> Html:
    """Return an id, in a font that distinguishes l from 1."""
    return el("span", text, class_="id")


def copy_button(text: str) -> Html:
    """Return a button that copies a text; it works only with scripts."""
    return el("button", "copy", type="button", class_="copy", data_copy=text, aria_label=f"Copy {text[:60]}")


def pairs(values: Mapping[str, Any]) -> Html:
    """Return names and values as a small table."""
    return el(
        "table",
        el(
            "tbody",
            (el("tr", el("th", name, scope="row"), el("td", value)) for name, value in values.items()),
        ),
    )
