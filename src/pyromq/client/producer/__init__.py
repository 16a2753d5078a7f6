"""Parts of a producer: encoding, queue choice, transactions, request and reply."""
