"""Shapes by number: each kept once, with its encoded bytes, while some machine has it.

Why: a million machines have a few hundred shapes, and the shape is most of a record's bytes. Prices change all day, so
unused shapes must be dropped.
Must never: give the number of a shape in use to another one.
"""

from collections.abc import Callable

from bigfleet.model.machine import Shape


class ShapeTable:
    """Shapes and their bytes by number, with reference counts."""

    def __init__(self, encode: Callable[[Shape], bytes]) -> None:
        self._encode = encode
        self._numbers: dict[Shape, int] = {}
        self._met: dict[int, int] = {}  # by identity, to be checked: a shape takes long to hash
        self._values: list[Shape] = []
        self._uses: list[int] = []
        self._free: list[int] = []
        self.pieces: list[bytes] = []

    def take(self, shape: Shape, uses: int = 1) -> int:
        """Return the shape's number and add so many references."""
        number = self._met.get(id(shape))
        if number is None or self._values[number] is not shape:
            number = self._numbers.get(shape)
            if number is None:
                number = self._add(shape)
        self._uses[number] += uses
        return number

    def drop(self, number: int) -> None:
        self._uses[number] -= 1
        if not self._uses[number]:
            shape = self._values[number]
            del self._numbers[shape]
            self._met.pop(id(shape), None)
            self.pieces[number] = b""
            self._free.append(number)

    def __getitem__(self, number: int) -> Shape:
        return self._values[number]

    def __len__(self) -> int:
        return len(self._numbers)

    def _add(self, shape: Shape) -> int:
        piece = self._encode(shape)
        if self._free:
            number = self._free.pop()
            self._values[number], self.pieces[number] = shape, piece
        else:
            number = len(self._values)
            self._values.append(shape)
            self._uses.append(0)
            self.pieces.append(piece)
        self._numbers[shape] = self._met[id(shape)] = number
        return number
