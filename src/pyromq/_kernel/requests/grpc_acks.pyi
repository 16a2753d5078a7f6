from pyromq.wire.receipt_handle import ReceiptHandle

def read_ack(
    data: bytes, broker: bytes, broker_name: str
) -> tuple[str, str, list[ReceiptHandle], bytes] | None: ...
