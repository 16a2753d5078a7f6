"""Clients of 5.x are told what 5.x's servers tell them; all others get 4.9's bytes.

`golden/answers_4.9.txt` and `answers_5.5.0.txt` are what Apache's servers answered to the same questions,
asked as their own clients ask (`tests/interop/test_fields_of_apache.py` records them).
"""

import asyncio
import json
from pathlib import Path

import pytest
from version_questions import TOPIC, ask_all

from pyromq import Admin
from pyromq.codes import VERSION, VERSION_5, Serializer
from pyromq.testing.cluster import Cluster
from pyromq.testing.golden import GoldenAnswer, read_answers
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.route_bodies import decode_cluster, decode_route

GOLDEN = Path(__file__).parent / "golden"
V5_0_0, V5_5_0 = 413, 513


async def answers(*, version: int, serializer: Serializer = Serializer.JSON) -> dict[str, GoldenAnswer]:
    async with Cluster() as cluster:
        (broker,) = cluster.broker_addresses
        await asyncio.to_thread(create_topic, cluster.namesrv_address)
        return await asyncio.to_thread(
            ask_all, cluster.namesrv_address, broker, version=version, serializer=serializer
        )


def create_topic(name_server: str) -> None:
    with Admin(name_server) as admin:
        admin.create_topic(TOPIC, 2)


def test_5_0_0_is_the_first_version_with_the_fields() -> None:
    assert VERSION_5 == V5_0_0


@pytest.mark.row("PR-26")
@pytest.mark.parametrize("serializer", Serializer)
@pytest.mark.parametrize("version", [VERSION, V5_0_0 - 1])
async def test_clients_before_5_get_4_9_s_bytes(version: int, serializer: Serializer) -> None:
    found = await answers(version=version, serializer=serializer)

    recorded = read_answers(GOLDEN / f"answers_4.9{'_binary' if serializer else ''}.txt")
    assert found == recorded


@pytest.mark.row("PR-26")
@pytest.mark.parametrize("serializer", Serializer)
@pytest.mark.parametrize("version", [V5_0_0, V5_5_0])
async def test_clients_of_5_get_5_s_fields(version: int, serializer: Serializer) -> None:
    found = await answers(version=version, serializer=serializer)

    recorded = read_answers(GOLDEN / "answers_5.5.0.txt")
    assert list(found) == list(recorded)
    for name, answer in found.items():
        theirs = recorded[name]
        assert (answer.command.code == 0) == (theirs.command.code == 0), name
        assert answer.command.ext == theirs.command.ext, name
        assert answer.body == theirs.body, name


async def test_the_answer_to_a_transaction_s_send_has_its_id() -> None:
    """rocketmq-spring on client 5.0 looks the transaction up by it."""
    found = await answers(version=V5_0_0)

    for name, expected in {"plain": "0A0A", "plain 2": "0A0A", "half": "0A0B", "half 2": "0A0B"}.items():
        assert (found[name].command.ext or {})["transactionId"] == expected
    assert "transactionId" not in (found["batch"].command.ext or {})


async def test_an_id_that_json_must_escape_is_told_as_it_is() -> None:
    """The kernel leaves such a message to Python."""
    strange = 'a"b\\cé'
    async with Cluster() as cluster:
        await asyncio.to_thread(create_topic, cluster.namesrv_address)
        (broker,) = cluster.broker_addresses
        async with WireClient(broker, version=V5_5_0) as client:
            for _ in range(3):
                fields = {
                    "a": "g",
                    "b": TOPIC,
                    "c": "TBW102",
                    "d": 4,
                    "e": 1,
                    "f": 0,
                    "g": 1,
                    "h": 0,
                    "i": f"UNIQ_KEY\x01{strange}",
                    "j": 0,
                    "k": "false",
                    "m": "false",
                }
                answer = await client.ask(310, fields, b"x")
                assert (answer.ext or {})["transactionId"] == strange


async def test_every_broker_of_a_route_says_whether_slaves_act_as_masters() -> None:
    """The Rust client reads no route without it."""
    found = await answers(version=V5_0_0)

    (broker,) = json.loads(found["route"].body)["brokerDatas"]
    assert broker["enableActingMaster"] is False
    assert b'"enableActingMaster":false' in found["cluster"].body
    # And our own clients read both.
    assert decode_route(found["route"].body).broker_datas[0].broker_name == "broker-a"
    assert "broker-a" in decode_cluster(found["cluster"].body).broker_addr_table
