"""Law: the request of any pod is valid by the schema, so that no demand is missing.

Rules: `operator#pod-requirements`, `operator#schema-limits`, `operator#reported-condition`.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bigfleet.kube.crds.capacity_request import CAPACITY_REQUEST, MAX_REQUIREMENTS, MAX_SPREADS, MAX_VALUES
from bigfleet.kube.crds.schema import MAX_KEY, MAX_RESOURCES, MAX_VALUE
from bigfleet.model.quantity import parse_amount
from bigfleet.podcontroller.core.penalties import NO_DEFAULTS
from bigfleet.podcontroller.core.translate import translate
from tests.support.kube_api.schema import problems

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KEYS = st.sampled_from(
    ("zone", "arch", "example.com/disk", "k" * MAX_KEY, "k" * (MAX_KEY + 1), "", "metadata.name")
)
VALUES = st.lists(
    st.sampled_from(("a", "b", "", "v" * MAX_VALUE, "v" * (MAX_VALUE + 1))), max_size=4
) | st.integers(250, 260).map(lambda count: [f"v{number}" for number in range(count)])
EXPRESSIONS = st.lists(
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))},
        optional={"values": VALUES},
    ),
    max_size=5,
) | st.integers(60, 70).map(
    lambda count: [{"key": f"k{number}", "operator": "Exists"} for number in range(count)]
)
TERMS = st.lists(
    st.fixed_dictionaries({}, optional={"matchExpressions": EXPRESSIONS, "matchFields": EXPRESSIONS}),
    max_size=3,
)
SELECTORS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")),
        "matchExpressions": st.lists(
            st.fixed_dictionaries({"key": st.just("a"), "operator": st.just("Exists")}), max_size=2
        ),
    },
)
AMOUNTS = st.sampled_from(
    ("0", "1", "500m", "1Gi", "1536Mi", "1e3", "3750m", "12345678901234567890", "1n", "2Ei")
)
REQUESTS = st.dictionaries(
    st.sampled_from(("cpu", "memory", "hugepages-2Mi", "example.com/gpu")), AMOUNTS
) | st.integers(60, 70).map(lambda count: {f"example.com/r{number}": "1" for number in range(count)})
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("c")},
        optional={
            "resources": st.fixed_dictionaries({}, optional={"requests": REQUESTS, "limits": REQUESTS}),
            "restartPolicy": st.sampled_from(("Always", "OnFailure")),
        },
    ),
    max_size=3,
)
SPREADS = st.lists(
    st.fixed_dictionaries(
        {
            "topologyKey": st.sampled_from(("zone", "rack")),
            "maxSkew": st.integers(1, 5),
            "whenUnsatisfiable": st.sampled_from(("DoNotSchedule", "ScheduleAnyway")),
        }
    ),
    max_size=20,
)
TOGETHER = st.lists(
    st.fixed_dictionaries(
        {"topologyKey": st.sampled_from(("rack", "zone"))},
        optional={
            "labelSelector": SELECTORS,
            "namespaces": st.lists(st.sampled_from("ab"), max_size=2),
            "namespaceSelector": SELECTORS,
        },
    ),
    max_size=2,
)
PENALTIES = st.sampled_from(("", "0", "0.5", "4096", "-1", "NaN", "much", "1" * 65, "1e99", " 1"))
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("p")},
            optional={
                "annotations": st.dictionaries(
                    st.sampled_from(
                        ("bigfleet.lucy.sh/interruption-penalty", "bigfleet.lucy.sh/reclamation-penalty")
                    ),
                    PENALTIES,
                )
            },
        ),
        "spec": st.fixed_dictionaries(
            {"containers": CONTAINERS},
            optional={
                "initContainers": CONTAINERS,
                "overhead": REQUESTS,
                "resources": st.fixed_dictionaries({}, optional={"requests": REQUESTS}),
                "nodeSelector": st.dictionaries(KEYS, st.sampled_from(("a", "", "v" * 64))),
                "priority": st.none() | st.integers(-(2**31), 2**31 - 1),
                "topologySpreadConstraints": SPREADS,
                "affinity": st.fixed_dictionaries(
                    {},
                    optional={
                        "nodeAffinity": st.fixed_dictionaries(
                            {REQUIRED: st.fixed_dictionaries({"nodeSelectorTerms": TERMS})}
                        ),
                        "podAffinity": st.fixed_dictionaries({REQUIRED: TOGETHER}),
                        "podAntiAffinity": st.fixed_dictionaries({REQUIRED: TOGETHER}),
                    },
                ),
            },
        ),
    }
)


@given(PODS)
def test_every_pods_request_is_one_that_the_schema_takes(pod: dict[str, Any]) -> None:
    spec = translate(pod, NO_DEFAULTS).spec
    assert list(problems({"spec": spec}, CAPACITY_REQUEST.schema(), "")) == []
    # What the rules of the schema say beyond its shapes.
    assert len(spec["requirements"]) <= MAX_REQUIREMENTS
    for item in spec["requirements"]:
        assert 0 < len(item["key"]) <= MAX_KEY
        assert item["operator"] in ("In", "NotIn", "Exists", "DoesNotExist")
        values = item.get("values", [])
        assert bool(values) == (item["operator"] in ("In", "NotIn"))
        assert len(values) <= MAX_VALUES
        assert all(len(value) <= MAX_VALUE for value in values)
    assert len(spec["resources"]) <= MAX_RESOURCES
    assert all(parse_amount(amount) >= 0 for amount in spec["resources"].values())
    assert len(spec.get("topologySpread", ())) <= MAX_SPREADS
    for name in ("interruptionPenalty", "reclamationPenalty"):
        assert name not in spec or parse_amount(spec[name]) >= 0


@given(PODS)
def test_what_is_written_is_read_back_as_the_same_demand(pod: dict[str, Any]) -> None:
    spec = translate(pod, NO_DEFAULTS).spec
    assert translate(pod, NO_DEFAULTS).spec == spec
    assert len({repr(item) for item in spec["requirements"]}) == len(spec["requirements"])  # none twice
