"""Every tier-2 code of the wire contract is answered: what mqadmin and dashboards need."""

import pytest

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.wire_client import WireClient

TO_NAME_SERVER = [100, 101, 102, 106, 205, 206, 216, 219, 224, 304, 311, 312, 313, 318, 319, 327]
TO_BROKER = [
    *(17, 18, 21, 25, 26, 28, 43, 45, 200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 225),
    *(300, 303, 305, 306, 307, 308, 309, 314, 315, 316, 317, 321, 323, 328, 329, 343, 345, 351, 352, 353),
]


@pytest.mark.parametrize("code", TO_BROKER)
async def test_the_broker_knows_the_code_of_operators(client: WireClient, code: int) -> None:
    # Without its fields it is refused, but by whoever knows it.
    answer = await client.ask(RequestCode(code), {}, b"{}")
    assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("code", TO_NAME_SERVER)
async def test_the_name_server_knows_the_code_of_operators(cluster: Cluster, code: int) -> None:
    async with WireClient(cluster.namesrv_address) as client:
        answer = await client.ask(RequestCode(code), {})
    assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED


@pytest.mark.parametrize("code", [RequestCode.SWITCH_MASTER, RequestCode.LIST_REPLICAS])
async def test_a_broker_without_failover_says_so_and_warns_nobody(
    client: WireClient, caplog: pytest.LogCaptureFixture, code: RequestCode
) -> None:
    # The dashboard and `pyromq admin replicas` ask every broker.
    answer = await client.ask(code)

    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "without failover" in (answer.remark or "")
    assert caplog.records == []
