import os

import pytest

from pyromq.client.identity import local_address, new_identity
from pyromq.config.settings import ClientSettings


@pytest.mark.row("PR-03")
def test_a_client_s_id_is_address_instance_and_unit() -> None:
    settings = ClientSettings(client_ip="10.1.2.3", instance_name="shop", unit_name="north")

    assert new_identity(settings).client_id == "10.1.2.3@shop@north"


@pytest.mark.row("PR-02", "PR-03")
def test_without_an_instance_s_name_the_process_and_a_random_number_stand_for_it() -> None:
    settings = ClientSettings(client_ip="10.1.2.3")

    ids = {new_identity(settings).client_id for _ in range(10)}

    # In containers many clients have one address and the process id 1.
    assert len(ids) == 10
    assert all(each.startswith(f"10.1.2.3@{os.getpid()}#") for each in ids)


@pytest.mark.row("MM-03")
def test_unique_ids_begin_with_the_client_s_address_and_process() -> None:
    identity = new_identity(ClientSettings(client_ip="10.1.2.3"))

    first, second = (identity.unique_ids.next(1_700_000_000_000) for _ in range(2))

    assert first[:12] == f"0A010203{os.getpid() & 0xFFFF:04X}"
    assert first != second


def test_a_host_s_name_as_address_still_gives_proper_ids() -> None:
    identity = new_identity(ClientSettings(client_ip="worker-7.local"))

    assert identity.client_id.startswith("worker-7.local@")
    assert len(identity.unique_ids.next(0)) == 32


def test_this_machine_has_an_address() -> None:
    assert local_address().count(".") == 3
