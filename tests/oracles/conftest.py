"""The scripts that ask other libraries run in those libraries' environment, not in the tests'."""

collect_ignore_glob = ["make_*.py"]
