"""Records as a pull may bring them, the strange ones too."""

import zlib

from hypothesis import strategies as st

from pyromq.wire.record import Record, encode_host

HOSTS = st.sampled_from([encode_host("127.0.0.1", 10911), encode_host("::1", 1), bytes(8), b"\xff" * 8])
TEXT = st.text("aZ é漢\U0001f600\x01\x02", max_size=12)
PROPERTIES = st.lists(
    st.tuples(
        st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "MIN_OFFSET", "x", ""]), st.one_of(TEXT, st.just("a b"))
    )
).map(lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs))
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
RECORDS = st.lists(
    st.builds(
        Record,
        topic=st.sampled_from(["a", "orders", "ünï", "x" * 130, ""]),
        body=st.one_of(st.binary(max_size=200), st.binary(max_size=40).map(zlib.compress)),
        queue_id=INT32,
        properties=PROPERTIES,
        flag=INT32,
        sys_flag=st.sampled_from([0, 0, 0, 0, 1, 0x101, 0x301, 4, 8]),
        queue_offset=INT64,
        position=INT64,
        born_at_ms=INT64,
        stored_at_ms=INT64,
        born_host=HOSTS,
        store_host=HOSTS,
        reconsume_times=INT32,
        prepared_position=INT64,
    ),
    max_size=5,
)
