"""The store's part: records, queue entries and index keys of messages that are stored, copied or verified."""
