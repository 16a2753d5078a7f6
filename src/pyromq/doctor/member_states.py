"""Asks members of groups what they do (307, by way of a broker), and members that stand still for stacks."""

import asyncio
from typing import Final

from pyromq.client.aio.asking import UNDER_WAY_MAX, Asker
from pyromq.client.observation.observation import Tell, side_by_side
from pyromq.clock import SystemClock
from pyromq.codes import RequestCode
from pyromq.doctor.group_seen import GroupSeen, lag_of
from pyromq.doctor.motion import still_queues
from pyromq.doctor.survey import Survey
from pyromq.errors import PyroError
from pyromq.wire.bodies.running_info import RunningState, decode_running_state
from pyromq.wire.headers.group_headers import GetConsumerRunningInfo

#: Milliseconds for one member, and seconds for all: many may be silent.
MEMBER_MS: Final = 3_000
MEMBERS_S: Final = 15.0
#: Members that are asked, and members whose stacks are fetched.
MEMBERS_MAX: Final = 1_000
STACKS_MAX: Final = 20


async def ask_members(asker: Asker, survey: Survey, tell: Tell) -> None:
    """Ask members what they do, those of the groups with the largest lags first."""
    seen = sorted(survey.groups.seen.values(), key=lag_of, reverse=True)
    members = [(group, client_id) for group in seen for client_id in group.client_ids]
    if len(members) > MEMBERS_MAX:
        survey.give_up(f"ask {len(members) - MEMBERS_MAX} of {len(members)} members what they do")

    clock, left_out = SystemClock(), 0
    # Each question looks at the clock when its turn comes.
    turns = asyncio.Semaphore(UNDER_WAY_MAX)
    end_s = clock.monotonic() + MEMBERS_S

    async def ask(group: GroupSeen, client_id: str) -> None:
        nonlocal left_out
        look = group.latest
        if look is group.after and client_id in group.before.silent:
            look.silent[client_id] = group.before.silent[client_id]
            return
        async with turns:
            if clock.monotonic() > end_s:
                left_out += 1
                return
            try:
                look.states[client_id] = await _ask_member(asker, survey, group, client_id)
            except PyroError as error:
                look.silent[client_id] = str(error)

    await side_by_side(tell, "members", ask, members[:MEMBERS_MAX])
    if left_out:
        survey.give_up(f"ask {left_out} members what they do, since so many others did not answer")


async def ask_stacks(asker: Asker, survey: Survey, tell: Tell) -> None:
    """Fetch the stacks of members that have a queue whose first message was not finished during the watch."""
    still = sorted(
        {
            (group.name, one.client_id)
            for group in survey.groups.seen.values()
            for one in still_queues(group, survey.groups)
            if survey.scope.concerns(one.queue.topic)
        }
    )

    async def ask(name: str, client_id: str) -> None:
        group = survey.groups.seen[name]
        try:
            state = await _ask_member(asker, survey, group, client_id, with_stacks=True)
        except PyroError as error:
            survey.could_not.append(f"get the stacks of {client_id}: {error}")
            return
        group.stacks[client_id] = state.stacks or ""

    await side_by_side(tell, "stacks", ask, still[:STACKS_MAX])


async def _ask_member(
    asker: Asker, survey: Survey, group: GroupSeen, client_id: str, *, with_stacks: bool = False
) -> RunningState:
    header = GetConsumerRunningInfo(consumer_group=group.name, client_id=client_id, jstack_enable=with_stacks)
    broker = survey.master(next(iter(group.latest.addresses(client_id))))
    assert broker is not None, "only masters that answered were asked for members"
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    answer = await asker.ask(broker.address, code, header, timeout_ms=MEMBER_MS)
    return decode_running_state(answer.body)
