"""The sections of the report: each function takes the `AuditReport` and returns markup, empty where it has nothing."""
