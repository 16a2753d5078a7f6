"""POP: messages that a broker hands out one by one, and has acknowledged one by one."""
