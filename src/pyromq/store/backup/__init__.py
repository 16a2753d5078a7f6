"""A copy of a store, made while its broker runs, that a broker can be started on.

A backup is what a power cut would leave, taken in an order in which it fits together. Recovery, which knows
what to do with that, does the rest at the first start.

    1. whole files of the log       most of the bytes; they do not change any more
    2. checkpoint                   read, and kept in memory: the followers were synced up to its position
    3. queues, index                they hold what the checkpoint says, and what is torn stands behind it
    4. timers, offsets, tables      read, and kept beside: they speak of messages that are in the log by now
    5. the log up to its end        so nothing speaks of a message that the copy has not
    6. topics, groups, epochs       last: without its topic a message could not be read
    7. sync
    8. timers, tables, checkpoint   put in place, each whole
    9. backup.json                  says that it is done

Until step 8 an older backup in the same folder stays what it was, with a longer log: it is good at every
moment. Only new bytes are copied into it: the log from where the copy ends, and the other files if their time
or length is another.

    backup_manifest.py    backup.json: whose copy it is, and up to where
    log.py         the commit log: where it ends, what is new
    follower_backup.py   queues and index
    table_backup.py      tables, epochs, and what waits for its time
    backup.py      the order, and what is refused
"""
