"""Arrays in, arrays out, no checks, compiled."""
