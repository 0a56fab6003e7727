"""YAML that refuses a key given twice, where plain YAML lets the last one win."""

from collections.abc import Hashable
from typing import Any

import yaml


class _StrictLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [str(key.value) for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {twice} is given twice", node.start_mark
            )
        return super().construct_mapping(node, deep=deep)


def load_strict_yaml(text: str | bytes) -> object:
    """Read one YAML document; `yaml.YAMLError` if it is invalid or has a key twice."""
    document: object = yaml.load(text, Loader=_StrictLoader)  # noqa: S506  a SafeLoader by descent
    return document
