"""Brokers and name servers, as `pyromq admin` and `pyromq cluster` show them."""

from collections.abc import Sequence

from pyromq.cli.bars import tracked
from pyromq.cli.exit_status import DONE, IN_PART, NotThere
from pyromq.cli.views.listing import Listing, did_not_answer
from pyromq.client.plans.admin.brokers import Said
from pyromq.client.plans.admin.targets import Silence
from pyromq.client.sync.admin import Admin
from pyromq.wire.headers.operation_headers import QueryConsumeQueue


def status(admin: Admin, *, cluster: str | None, address: str | None) -> Listing:
    """Show the brokers' runtime information."""
    return said(admin.broker_status(cluster=cluster, address=address), separator=": ")


def config(admin: Admin, *, cluster: str | None, address: str | None) -> Listing:
    """The settings of brokers."""
    return said(admin.broker_config(cluster=cluster, address=address), separator="=  ")


def name_server_config(admin: Admin) -> Listing:
    """The settings of name servers."""
    return said(admin.name_server_config(), separator="=  ")


def said(answers: Sequence[Said], *, separator: str) -> Listing:
    """Names and values, a server behind the other; raises the first one's error when none answered."""
    notes: list[str] = []
    errors = [one.error for one in answers if one.error is not None]
    if errors and len(errors) == len(answers):
        raise errors[0]
    for one in answers:
        if one.failure is None:
            title = f"{one.place.broker_name} {one.place.address}"
            notes.append(f"============={title}=============")
            notes += [f"{name:<40}{separator}{one.values[name]}" for name in sorted(one.values)]
    return Listing(
        (),
        [
            {
                "cluster": one.place.cluster,
                "name": one.place.broker_name,
                "broker_id": one.place.broker_id,
                "address": one.place.address,
                "values": dict(one.values),
                "failure": one.failure,
            }
            for one in answers
        ],
        notes,
        [did_not_answer(one.place.broker_name, one.failure) for one in answers if one.failure is not None],
        IN_PART if errors else DONE,
    )


def queue_entries(admin: Admin, address: str | None, query: QueryConsumeQueue) -> Listing:
    """Entries of a queue's index; raises NotThere when the broker has none there."""
    if address is None:
        first = sorted(admin.route(query.topic).broker_datas, key=lambda broker: broker.broker_name)[0]
        address = first.broker_addrs[min(first.broker_addrs)]
    rows, remark = admin.queue_entries(address, query)
    if remark is not None:
        raise NotThere(remark)
    notes = [f"Queue data: max: {rows.max_queue_index}, min: {rows.min_queue_index}"]
    if rows.subscription_data is not None:
        wanted = rows.subscription_data
        notes.append(f"Subscription data: {wanted.topic} {wanted.sub_string} ({wanted.expression_type})")
    if rows.filter_data is not None:
        notes.append(f"Filter data: {rows.filter_data}")
    return Listing(
        (
            ("#idx", "index"),
            ("#physicOffset", "position"),
            ("#physicSize", "size"),
            ("#tagsCode", "tags_code"),
        ),
        [
            {
                "topic": query.topic,
                "queue": query.queue_id,
                "index": query.index + at,
                "position": row.physic_offset,
                "size": row.physic_size,
                "tags_code": row.tags_code,
            }
            for at, row in enumerate(rows.queue_data)
        ],
        notes,
    )


def behind(admin: Admin, least: int) -> Listing:
    """The groups that are behind, and whether anybody of them is there."""
    prefix = "%RETRY%"
    names = [name.removeprefix(prefix) for name in admin.topics() if name.startswith(prefix)]
    silence = Silence()
    groups = [admin.group_overview(name, silence) for name in tracked(names, "groups")]
    return Listing(
        (("#Group", "group"), ("#Count", "members"), ("#TPS", "tps"), ("#Undone", "lag")),
        [
            {"group": one.group, "members": one.member_count, "tps": one.tps, "lag": one.lag}
            for one in groups
            if one.lag >= least
        ],
        [f"{len(groups)} groups looked at"],
    ).without(silence)
