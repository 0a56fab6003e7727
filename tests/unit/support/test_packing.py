"""The best packing that worlds are judged by: exact for pods that are alike, and never above what is possible."""

import pytest

from tests.e2e.fleet.packing import Pods, Size, best_alike, best_mixed, size

EIGHT, SIXTEEN = size("8", "32", 0.4), size("16", "64", 0.8)


@pytest.mark.parametrize(
    ("pods", "machine", "daemon", "machines"),
    [
        pytest.param(Pods(200, size("7.5", "1")), EIGHT, None, 200, id="one on each"),
        pytest.param(Pods(60, size("1", "1"), per_machine=1), EIGHT, None, 60, id="one per host"),
        pytest.param(Pods(3000, size("0.01", "0.01")), EIGHT, None, 28, id="the kubelet's 110 pods decide"),
        pytest.param(Pods(100, size("1.2", "1")), size("4", "16"), None, 34, id="three without the daemon"),
        pytest.param(
            Pods(100, size("1.2", "1")), size("4", "16"), size("0.5", "0.1"), 50, id="two beside the daemon"
        ),
        pytest.param(Pods(10, size("1", "16")), EIGHT, None, 5, id="memory decides"),
    ],
)
def test_pods_that_are_alike(pods: Pods, machine: Size, daemon: Size | None, machines: int) -> None:
    assert best_alike(pods, machine, daemon).machines == machines


def test_a_pod_that_fits_nowhere_has_no_packing() -> None:
    with pytest.raises(ValueError, match="no pod"):
        best_alike(Pods(1, size("9", "1")), EIGHT)


def test_the_bound_of_a_mix_is_the_price_of_its_sum_and_reached_by_a_packing() -> None:
    best = best_mixed((Pods(40, size("5", "1")), Pods(400, size("0.3", "0.1"))), (EIGHT, SIXTEEN))
    # 40 machines of 8 with one large and ten small pods each hold it all: 5 + 10 * 0.3 = 8.
    assert best.price == pytest.approx(40 * EIGHT.price)
    assert best.machines == 20
