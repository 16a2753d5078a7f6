"""Checks of service: one master at a time answers, calls and replies arrive, strangers are refused."""

from collections.abc import Iterator

from pyromq.torture.checks.evidence import Evidence, text, whole
from pyromq.torture.history import HistoryEvent
from pyromq.torture.stage import Topology

#: Events that tell of a call that failed, and of one that succeeded.
_FAILED = (
    "fail",
    "lift_failed",
    "pull_failed",
    "ask_failed",
    "order_failed",
    "recall_failed",
    "stage_failed",
    "replay_failed",
    "readout_failed",
    "unanswered",
    "client_failed",
)
_ANSWERED = ("ack", "lifted", "committed", "end", "topic_created", "recalled", "published", "reply", "log")
#: Seconds that an answer may be under way when nothing hinders it, and by which a change of masters may be
#: noticed late.
IN_FLIGHT_S = 1.5
_NOTICED_S = 2.0
#: Faults that may hold an answer up on its way to a client.
_HINDRANCES = ("client", "slow-network", "chop", "delay", "pause-client", "lost-answers", "clock", "tear")
#: Seconds after the last fault in which brokers may still be on their way up.
_UP_S = 20.0
_REGISTERED_S = 15.0


def is_one_master(evidence: Evidence) -> Iterator[str | None]:
    """A master that was replaced acknowledges nothing more."""
    tries: dict[int, float] = {}
    hosts: dict[str, str] = {}
    elections = [event for event in evidence.history.of("leader", "master") if text(event, "address")]
    for event in evidence.history.of("try", "ack"):
        number = whole(event, "number")
        if event.kind == "try":
            tries[number] = event.at_s
            continue
        host, broker = text(event, "host"), text(event, "place").split("/")[-2]
        if not host or event.fields["status"] != "SEND_OK":
            continue
        if evidence.promises.topology is not Topology.FAILOVER:
            first = hosts.setdefault(broker, host)
            yield None if first == host else f"two masters of {broker}: {first} and {host}, by {event}"
        elif elections:
            yield _deposed(evidence, elections, event, tries.get(number, event.at_s))


def _deposed(
    evidence: Evidence, elections: list[HistoryEvent], ack: HistoryEvent, asked_at_s: float
) -> str | None:
    host = text(ack, "host")
    if not any(text(event, "address") == host for event in elections):
        return None
    known = [event for event in elections if event.at_s <= ack.at_s]
    if not known or text(known[-1], "address") == host:
        return None
    chosen = known[-1]
    # Of those who were elected in a row the first counts: since then it is not this one.
    for event in reversed(known):
        if text(event, "address") == host:
            break
        chosen = event
    # Who looks now and then sees an election late.
    if any(
        text(event, "address") == host and chosen.at_s < event.at_s <= ack.at_s + _NOTICED_S
        for event in elections
    ):
        return None
    is_asked_after = asked_at_s > chosen.at_s
    is_late = ack.at_s > chosen.at_s + IN_FLIGHT_S and not _is_hindered(evidence, chosen.at_s, ack.at_s)
    if not is_asked_after and not is_late:
        return None
    return (
        f"two masters: {text(chosen, 'address')} was elected at {chosen.at_s:.3f} s, and {host} acknowledged "
        f"at {ack.at_s:.3f} s what was asked at {asked_at_s:.3f} s: {ack}"
    )


def _is_hindered(evidence: Evidence, begin_s: float, end_s: float) -> bool:
    for fault in evidence.model.faults:
        name = str(fault.fields.get("fault") or fault.fields.get("what") or "")
        lasts_s = fault.fields.get("lasts_s") or fault.fields.get("for_s") or 0.0
        assert isinstance(lasts_s, int | float)
        is_near = fault.at_s <= end_s and begin_s <= fault.at_s + lasts_s + IN_FLIGHT_S
        if is_near and any(word in name for word in _HINDRANCES):
            return True
    return False


def is_answered(evidence: Evidence) -> Iterator[str | None]:
    """While nothing is wrong no call fails."""
    for event in evidence.history.of(*_FAILED, *_ANSWERED):
        if event.at_s >= evidence.calm_until_s:
            break
        yield f"failed while nothing was wrong: {event}" if event.kind in _FAILED else None


def is_serving_again(evidence: Evidence) -> Iterator[str | None]:
    """Check that brokers serve after the faults: everything can be read, on connections that answer."""
    for event in evidence.history.of("read_out", "unreadable", "readout_failed", "absent"):
        if event.kind == "read_out":
            yield None
        elif event.kind == "absent":
            yield f"no name server knew a queue when the faults were over: {event}"
        elif event.kind == "unreadable":
            yield f"not all could be read when the faults were over: {event}"
        elif "did not answer within" in text(event, "error") and event.at_s > evidence.healed_s + _UP_S:
            yield f"no answer when the faults were over: {event}"


def is_own_reply(evidence: Evidence) -> Iterator[str | None]:
    """A request gets the reply to itself, once."""
    replied: set[int] = set()
    for event in evidence.history.of("reply"):
        number, got = whole(event, "number"), whole(event, "got")
        if number in replied:
            yield f"two replies to request {number}: {event}"
        elif got != number:
            yield f"request {number} got the reply to {got}: {event}"
        else:
            yield None
        replied.add(number)


def is_kept_out(evidence: Evidence) -> Iterator[str | None]:
    """An account does not see, send or change what it may not."""
    for event in evidence.history.of("kept_out", "let_in"):
        yield None if event.kind == "kept_out" else f"let in: {event}"


def is_topic_there(evidence: Evidence) -> Iterator[str | None]:
    """A topic that was created is there, and one that was deleted is not."""
    listed = list(evidence.history.of("topics"))
    if not listed:
        return
    names = listed[-1].fields["names"]
    assert isinstance(names, list)
    if listed[-1].at_s < evidence.healed_s + _REGISTERED_S and evidence.has_fault("namesrv"):
        # A name server that was killed knows nothing until brokers tell it again.
        return
    doomed = {text(event, "topic") for event in evidence.history.of("topic_delete")}
    for event in evidence.history.of("topic_created"):
        topic = text(event, "topic")
        if topic not in doomed:
            is_there = topic in names or evidence.model.may_be_lost(event.at_s)
            yield None if is_there else f"topic {topic} was created at {event.at_s:.3f} s and is not there"
    # Slaves copy the table of topics later, and tell the name servers what they have.
    if evidence.promises.topology is Topology.ALONE:
        for event in evidence.history.of("topic_deleted"):
            topic = text(event, "topic")
            is_gone = topic not in names or evidence.model.may_be_lost(event.at_s)
            yield None if is_gone else f"topic {topic} was deleted at {event.at_s:.3f} s and is there"
