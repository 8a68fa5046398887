"""`python -m miscal` is the command."""

from miscal.cli import main

if __name__ == "__main__":
    main(prog_name="miscal")
