"""The page's blocks, top to bottom: each reads the audit's dictionary and returns markup."""
