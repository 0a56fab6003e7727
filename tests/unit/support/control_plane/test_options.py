"""What a test may ask of a cluster."""

import pytest

from bigfleet.model.errors import InvalidFieldError
from tests.support.control_plane.options import ADMIN, ClusterOptions, User


def test_a_user_is_found_by_name_among_the_usual_and_the_added_ones() -> None:
    options = ClusterOptions(users=(User("reader"),))
    assert options.user(ADMIN).groups == ("system:masters",)
    assert options.user("reader").token == "reader-token"


def test_a_user_that_the_cluster_does_not_know_is_refused_with_those_it_knows() -> None:
    with pytest.raises(InvalidFieldError, match=r"user: found 'writer', allowed is one of admin, .*, reader"):
        ClusterOptions(users=(User("reader"),)).user("writer")
