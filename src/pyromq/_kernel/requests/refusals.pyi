def refuse_sends(
    received: bytes | bytearray,
    start: int,
    *,
    json_before: bytes,
    json_after: bytes,
    binary: bytes,
    answer_bytes_max: int,
) -> tuple[int, bytes, int]: ...
