"""A few shapes of plain SVG, readable on light and dark pages.

The picture brings its own background, since as an image it follows the reader's system and not the page around it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from math import hypot

WIDTH, HEIGHT = 140, 46
_GAP = 5  # between an arrow's tip and the box it points to

_STYLE = """
    .paper { fill: #ffffff }
    .box { stroke-width: 2; stroke: #3f51b5; fill: #e8eaf6 }
    .passing { stroke-dasharray: 6 4; fill: #ffffff }
    .failed { stroke: #b71c1c; fill: #ffebee }
    .line { fill: none; stroke-width: 2; stroke: #37474f }
    .fault { stroke: #b71c1c; stroke-dasharray: 3 4 }
    .tip { fill: #37474f }
    .fault-tip { fill: #b71c1c }
    text { font: 600 16px system-ui, sans-serif; text-anchor: middle; dominant-baseline: central; fill: #1a237e }
    .on-failed { fill: #b71c1c }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #1e2129 }
      .box { stroke: #9fa8da; fill: #283593 }
      .passing { fill: #1e2129 }
      .failed { stroke: #ef9a9a; fill: #4a1616 }
      .line { stroke: #cfd8dc }
      .fault { stroke: #ef9a9a }
      .tip { fill: #cfd8dc }
      .fault-tip { fill: #ef9a9a }
      text { fill: #e8eaf6 }
      .on-failed { fill: #ffcdd2 }
    }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A labelled box around a centre."""

    x: float
    y: float
    label: str


def document(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """Return a whole picture."""
    body = "\n".join(f"  {part}" for part in parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">\n'
        f"  <title>{escape(title)}</title>\n"
        f"  <style>{_STYLE}  </style>\n"
        f"  <defs>\n{_marker('tip')}\n{_marker('fault-tip')}\n  </defs>\n"
        f'  <rect class="paper" width="{width}" height="{height}" rx="12"/>\n'
        f"{body}\n</svg>\n"
    )


def rounded_box(box: Box, *, style: str, title: str) -> str:
    """Return a box with its label; the title shows on hovering."""
    left, top = box.x - WIDTH / 2, box.y - HEIGHT / 2
    return (
        f"<g><title>{escape(title)}</title>"
        f'<rect class="box {style}" x="{left:g}" y="{top:g}" width="{WIDTH}" height="{HEIGHT}" rx="10"/>'
        f'<text class="on-{style}" x="{box.x:g}" y="{box.y:g}">{escape(box.label)}</text></g>'
    )


def arrow(start: Box, end: Box, *, title: str, style: str, bend: float = 0) -> str:
    """Return an arrow between two boxes, from border to border; `bend` moves its middle to the left."""
    dx, dy = end.x - start.x, end.y - start.y
    length = hypot(dx, dy)
    # In a picture y grows downwards, so left of the direction (dx, dy) is (dy, -dx).
    middle = ((start.x + end.x) / 2 + dy / length * bend * 2, (start.y + end.y) / 2 - dx / length * bend * 2)
    x1, y1 = _border(start, middle, 0)
    x2, y2 = _border(end, middle, _GAP)
    tip = "fault-tip" if style == "fault" else "tip"
    return (
        f'<path class="line {style}" marker-end="url(#{tip})" '
        f'd="M {x1:.1f} {y1:.1f} Q {middle[0]:.1f} {middle[1]:.1f} {x2:.1f} {y2:.1f}"><title>{escape(title)}</title></path>'
    )


def _border(box: Box, towards: tuple[float, float], gap: float) -> tuple[float, float]:
    """Return where the line from a box's centre to a point leaves the box."""
    dx, dy = towards[0] - box.x, towards[1] - box.y
    half_width, half_height = WIDTH / 2 + gap, HEIGHT / 2 + gap
    scale = min(half_width / abs(dx) if dx else float("inf"), half_height / abs(dy) if dy else float("inf"))
    return box.x + dx * scale, box.y + dy * scale


def _marker(name: str) -> str:
    return (
        f'    <marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
        f'<path class="{name}" d="M 0 0 L 10 5 L 0 10 z"/></marker>'
    )
