"""The key index: from "topic#key" to the positions of messages."""
