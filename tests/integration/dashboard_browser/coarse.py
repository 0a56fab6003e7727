"""Pictures of pages as coarse grey blocks: what a reader takes in at a glance, and nothing finer.

Why: pixels differ between versions of a browser, and ages between runs; the layout does not. A picture is a few lines
of text, so that a change of it can be read in a review.
How: 48 by 27 blocks, each the mean brightness of its pixels in one of 64 steps, as one character.
"""

import base64
from collections.abc import Mapping
from pathlib import Path

from playwright.async_api import Page

ACROSS, DOWN = 48, 27
STEPS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-+"
NOTICED = 3
"""Steps by which a block must differ to be seen as another one; text that is a little bolder stays below."""
ALLOWED = 0.04
"""Part of the blocks that may be others: a number that has become longer, a line of text a little further on."""
FONTS = """
:root { --mono: "DejaVu Sans Mono" !important; }
body, input, select, textarea, button { font-family: "DejaVu Sans" !important; }
textarea, code, .id { font-family: "DejaVu Sans Mono" !important; }
"""
_HAS_FONT = """() => {
  const pen = document.createElement('canvas').getContext('2d');
  const width = (font) => { pen.font = `72px ${font}`; return pen.measureText('mmmmmmmmmmlli').width; };
  return ['serif', 'monospace'].every((other) => width(`"DejaVu Sans", ${other}`) !== width(other));
}"""
_BLOCKS = """async ([data, across, down]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${data}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  const pen = canvas.getContext('2d');
  pen.drawImage(image, 0, 0);
  const seen = pen.getImageData(0, 0, image.width, image.height).data;
  const sums = new Float64Array(across * down), counts = new Float64Array(across * down);
  for (let y = 0; y < image.height; y += 1)
    for (let x = 0; x < image.width; x += 1) {
      const at = (y * image.width + x) * 4;
      const block = Math.floor((y * down) / image.height) * across + Math.floor((x * across) / image.width);
      sums[block] += 0.299 * seen[at] + 0.587 * seen[at + 1] + 0.114 * seen[at + 2];
      counts[block] += 1;
    }
  return Array.from(sums, (sum, block) => Math.floor(sum / counts[block] / 4));
}"""


async def font_is_there(page: Page) -> bool:
    """Whether the one font is installed in which pictures are compared."""
    return bool(await page.evaluate(_HAS_FONT))


async def blocks_of(page: Page, png: bytes) -> str:
    """Return a picture as lines of blocks; the page is where it is worked out, and stays as it is."""
    found = await page.evaluate(_BLOCKS, [base64.b64encode(png).decode(), ACROSS, DOWN])
    signs = "".join(STEPS[step] for step in found)
    return "\n".join(signs[at : at + ACROSS] for at in range(0, len(signs), ACROSS))


def difference(one: str, other: str) -> float:
    """Return which part of the blocks is another, from 0 to 1."""
    pairs = list(zip(one.replace("\n", ""), other.replace("\n", ""), strict=True))
    return sum(abs(STEPS.index(a) - STEPS.index(b)) > NOTICED for a, b in pairs) / len(pairs)


def read(path: Path) -> Mapping[str, str]:
    """Return the pictures of a page by theme; none where there is no file."""
    if not path.exists():
        return {}
    parts = path.read_text().strip().split("\n\n")
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def write(path: Path, pictures: Mapping[str, str]) -> None:
    """Keep the pictures of a page."""
    path.write_text("\n\n".join(f"{theme}\n{picture}" for theme, picture in pictures.items()) + "\n")
