"""Reads a workload catalogue from a file.

Must never: fill in a weight or a size that the file does not give.
Rules: `providers#fake-flags`, `testing#realistic-catalogue`.
"""

from typing import Final

from bigfleet.document.errors import DocumentError
from bigfleet.document.fields import INT32, REQUIRED, Fields, Form, checked_texts
from bigfleet.model.resources import Resources
from bigfleet.provider.fake.inventory import parse_yaml, read_form, read_items
from bigfleet.workload.archetype import RACK_KEY, Archetype, Catalogue, GangRule, Size, SpreadRule

_CATALOGUE: Final[Form] = {
    "name": REQUIRED,
    "zones": ["zone-a", "zone-b", "zone-c"],
    "racks_per_zone": 10,
    "archetypes": REQUIRED,
}
_ARCHETYPE: Final[Form] = {
    "name": REQUIRED,
    "weight": REQUIRED,
    "instance_types": REQUIRED,
    "sizes": REQUIRED,
    "priority": 0,
    "interruption_penalty": 0,
    "reclamation_penalty": 0,
    "spread": None,
    "gang": None,
    "pods_per_node": 0,
    "mean_life_s": None,
    "stateful": False,
    "burst_only": False,
}
_SIZE: Final[Form] = {"amounts": REQUIRED, "share": 100}
_SPREAD: Final[Form] = {"probability": REQUIRED, "max_skew": 1, "strict": False}
_GANG: Final[Form] = {"fewest": REQUIRED, "most": REQUIRED, "topology_key": RACK_KEY}
_POSITIVE: Final = (1, 2**31 - 1)


def read_catalogue(data: bytes) -> Catalogue:
    """Read a catalogue; `DocumentError` names the path of what is invalid."""
    fields = read_form(parse_yaml(data), _CATALOGUE)
    archetypes = read_items(fields, "archetypes", _ARCHETYPE, _archetype)
    zones = fields.texts("zones")
    if not zones or not any(not archetype.burst_only for archetype in archetypes):
        raise DocumentError("archetypes", "nothing to seed", "a zone and an archetype that is no burst")
    return Catalogue(fields.name("name"), archetypes, zones, fields.integer("racks_per_zone", _POSITIVE))


def _archetype(fields: Fields) -> Archetype:
    sizes = read_items(fields, "sizes", _SIZE, _size)
    shares = sum(size.share for size in sizes)
    if shares != 100:
        raise DocumentError("sizes", f"shares that add up to {shares}", "shares that add up to 100")
    instance_types = fields.texts("instance_types")
    if not instance_types:
        raise DocumentError("instance_types", "an empty list", "one type or more")
    return Archetype(
        name=fields.name("name"),
        weight=fields.integer("weight", _POSITIVE),
        instance_types=instance_types,
        sizes=sizes,
        priority=fields.integer("priority", INT32),
        interruption_penalty=fields.dollars("interruption_penalty"),
        reclamation_penalty=fields.dollars("reclamation_penalty"),
        spread=_spread(fields.part_or_null("spread", _SPREAD)),
        gang=_gang(fields.part_or_null("gang", _GANG)),
        pods_per_node=fields.integer("pods_per_node", (0, 2**31 - 1)) or None,
        mean_life_s=fields.number_or_null("mean_life_s"),
        stateful=fields.flag("stateful"),
        burst_only=fields.flag("burst_only"),
    )


def _size(fields: Fields) -> Size:
    raw = {
        key: str(value) if type(value) is int else value for key, value in fields.mapping("amounts").items()
    }
    return Size(Resources.parse(checked_texts(raw, "amounts")), fields.integer("share", (1, 100)))


def _spread(fields: Fields | None) -> SpreadRule | None:
    if fields is None:
        return None
    return SpreadRule(
        fields.number("probability", low=0), fields.integer("max_skew", _POSITIVE), fields.flag("strict")
    )


def _gang(fields: Fields | None) -> GangRule | None:
    if fields is None:
        return None
    fewest, most = fields.integer("fewest", _POSITIVE), fields.integer("most", _POSITIVE)
    if most < fewest:
        raise DocumentError("most", str(most), f"a number from {fewest} on")
    return GangRule(fewest, most, fields.text("topology_key") or RACK_KEY)
