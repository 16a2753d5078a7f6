import pytest

import pyromq
from pyromq import AlreadyStarted, ClientSettings, aio

NAMED = ClientSettings(client_ip="10.0.0.1", instance_name="shop")
NOWHERE = "127.0.0.1:1"


@pytest.mark.row("PR-04", "PR-03")
def test_a_second_producer_of_a_group_under_one_client_id_does_not_start() -> None:
    with pyromq.Producer("pg", NOWHERE, NAMED):
        second = pyromq.Producer("pg", NOWHERE, NAMED)
        with pytest.raises(AlreadyStarted, match=r"has been created before.*10\.0\.0\.1@shop"):
            second.start()
    second.close()


@pytest.mark.row("PR-04")
async def test_both_faces_share_the_rule() -> None:
    async with aio.Producer("pg-both", NOWHERE, NAMED):
        with pytest.raises(AlreadyStarted, match="instance_name"):
            pyromq.Producer("pg-both", NOWHERE, NAMED).start()
        with pytest.raises(AlreadyStarted, match="instance_name"):
            await aio.Producer("pg-both", NOWHERE, NAMED).start()


@pytest.mark.row("PR-01", "PR-04")
def test_a_producer_whose_start_failed_can_start_when_the_group_is_free() -> None:
    first, second = (pyromq.Producer("pg-free", NOWHERE, NAMED) for _ in range(2))
    first.start()
    with pytest.raises(AlreadyStarted):
        second.start()
    first.close()

    with second:
        assert second.group == "pg-free"


@pytest.mark.row("PR-04")
def test_other_groups_and_other_instances_and_other_namespaces_are_others() -> None:
    spaced = ClientSettings(client_ip="10.0.0.1", instance_name="shop", namespace="n")
    with (
        pyromq.Producer("pg-1", NOWHERE, NAMED),
        pyromq.Producer("pg-2", NOWHERE, NAMED),
        pyromq.Producer("pg-1", NOWHERE, spaced),
        pyromq.Producer("pg-1", NOWHERE, ClientSettings(instance_name="other")),
    ):
        pass


@pytest.mark.row("PR-02", "PR-03")
def test_producers_without_a_name_of_their_own_may_share_a_group() -> None:
    with pyromq.Producer("pg", NOWHERE), pyromq.Producer("pg", NOWHERE):
        pass
