import pytest

from pyromq.net.routes import Answer, Request, RequestTable, Route, not_supported
from pyromq.wire.command import Command


def answer_nothing(request: Request[None]) -> None:
    return None


def test_a_table_knows_its_codes():
    table = RequestTable([Route(10, answer_nothing), Route(11, answer_nothing)])

    assert table.codes == {10, 11}


def test_a_code_is_routed_once():
    with pytest.raises(AssertionError, match="10"):
        RequestTable([Route(10, answer_nothing), Route(10, answer_nothing)])


def test_an_unknown_code_is_answered_in_rocketmqs_words():
    answer = not_supported(Request(Command(9999), None, link=None))

    assert (answer.code, answer.remark) == (3, " request type 9999 not supported")


def test_an_answer_has_no_fields_unless_told():
    answer = Answer()

    assert (answer.code, answer.remark, answer.header, answer.ext, answer.body) == (0, None, None, None, b"")
