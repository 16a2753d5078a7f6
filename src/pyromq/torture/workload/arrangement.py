"""The preparation of a stage for a workload: settings of the brokers, accounts, topics and groups."""

from typing import Final

from pyromq.torture import promise_model
from pyromq.torture.stage import WorkloadUser

#: Settings of every broker, by RocketMQ's names: short delays and intervals, so that a minute has room for
#: the whole way of a message.
BROKER_SETTINGS: Final[dict[str, str]] = {
    "messageDelayLevel": "1s 2s 1s 1s 2s 2s 3s 3s 3s 3s 3s 3s 3s 3s 3s 3s 3s 3s",
    "transactionTimeOut": "1500",
    "transactionCheckInterval": "1000",
    # More than a run has time for: what is undecided is asked about until the end.
    "transactionCheckMax": "1000",
    "flushConsumerOffsetInterval": "1000",
    "enablePropertyFilter": "true",
    # The least that there is: a name server that lost its memory has it again before the run is judged.
    "registerNameServerPeriod": "10000",
    "autoCreateTopicEnable": "true",
}
#: Seconds of the delay levels above, from level 1 on.
LEVELS_S: Final = (1, 2, 1, 1, 2, 2, 3)

#: Who may do everything, and who may see nothing but `OPEN_TOPIC`.
OPERATOR: Final = "operator"
STRANGER: Final = "stranger"
ACCOUNTS: Final[dict[str, WorkloadUser]] = {
    OPERATOR: WorkloadUser("torture-operator", "torture-operators-secret"),
    STRANGER: WorkloadUser("torture-stranger", "torture-strangers-secret"),
}

PLAIN: Final = "t-plain"
LARGE: Final = "t-large"
ORDERED: Final = "t-ordered"
DELAYED: Final = "t-delayed"
TIMED: Final = "t-timed"
PAID: Final = "t-paid"
FAILING: Final = "t-failing"
REQUESTS: Final = "t-requests"
STAGED: Final = "t-staged"
POPPED: Final = "t-popped"
OPEN_TOPIC: Final = "t-open"
TOPICS: Final = (PLAIN, LARGE, ORDERED, DELAYED, TIMED, PAID, FAILING, REQUESTS, STAGED, POPPED, OPEN_TOPIC)
#: Queues of each topic on each broker.
QUEUE_COUNT: Final = 2

#: The push consumer of most topics, and the others.
READERS: Final = "g-readers"
ORDERLY: Final = "g-orderly"
FAILERS: Final = "g-failers"
TAGGED: Final = "g-tagged"
CHOSEN: Final = "g-chosen"
PULLERS: Final = "g-pullers"
BIG_PULLERS: Final = "g-big-pullers"
ANSWERERS: Final = "g-answerers"
OUTSIDERS: Final = "g-outsiders"
#: Members that pop: one with a listener, and one that receives and acknowledges.
POPPERS: Final = "g-poppers"
#: Tries after which a message of the failing group is a dead letter, and failures that never end.
TRIES_MAX: Final = promise_model.TRIES_MAX
ALWAYS: Final = 99


def accounts_file() -> str:
    """Return the text of `plain_acl.yml` for brokers of a run with access control."""
    operator, stranger = ACCOUNTS[OPERATOR], ACCOUNTS[STRANGER]
    return f"""\
globalWhiteRemoteAddresses:

accounts:
- accessKey: {operator.access_key}
  secretKey: {operator.secret_key}
  admin: true
- accessKey: {stranger.access_key}
  secretKey: {stranger.secret_key}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - {OPEN_TOPIC}=PUB|SUB
  groupPerms:
  - {OUTSIDERS}=SUB
"""
