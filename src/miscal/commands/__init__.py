"""Commands that live in files of their own; `cli` imports each when it is asked for."""
