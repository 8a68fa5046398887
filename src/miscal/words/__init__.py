"""Sentences, made from codes at the very end.

The rule: a sentence is made where something is shown, and nowhere else. Each module here has the templates of the codes
of the module of `miscal.codes` with the same name, registered with `templates`:

    templates({Null.BERNOULLI: "outcomes simulated from the predictions", ...})

and a caller writes `sentence(code, rows="1,204", column="age")`. Fields arrive as text or numbers that are ready to be
printed. Nothing here decides anything, and nobody compares what comes out of here.
"""

from collections.abc import Mapping
from enum import Enum
from importlib import import_module

#: The template of every code, by the code. A test replaces them all by nonsense.
TEMPLATES: dict[Enum, str] = {}
SUBJECTS = ("data", "inference", "audit", "recalibration")


def templates(words: Mapping[Enum, str]) -> None:
    """Register the templates of some codes; a code has one template."""
    TEMPLATES.update(words)


def load_templates() -> dict[Enum, str]:
    """Import the templates of all subjects."""
    for subject in SUBJECTS:
        import_module(f"miscal.words.{subject}")
    return TEMPLATES


def sentence(code: Enum, /, **fields: object) -> str:
    """The words of a code, its fields filled in.

    Parameters
    ----------
    code : Enum
        A member of an enum of `miscal.codes`.
    **fields : object
        What the template names in braces.

    Returns
    -------
    str
        The sentence, or the part of one that the template is.
    """
    if code not in TEMPLATES:
        load_templates()
    return TEMPLATES[code].format(**fields)
