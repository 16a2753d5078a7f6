"""Messages with a delay of their own: kept until they are due, then stored in their own topic."""
