"""The awaitable faces of the client."""
