"""The name server: who serves which topic. Name servers know nothing of each other."""
