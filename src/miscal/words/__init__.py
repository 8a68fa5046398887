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

#: The template of every code, by its enum and its value: codes of two enums may share a value, and then compare equal.
#: A test replaces all templates by nonsense.
TEMPLATES: dict[tuple[type[Enum], str], str] = {}
SUBJECTS = ("data", "inference", "audit", "recalibration")


def templates(words: Mapping[Enum, str]) -> None:
    """Register the templates of some codes; a code has one template."""
    TEMPLATES.update({(type(code), code.value): text for code, text in words.items()})


def load_templates() -> dict[tuple[type[Enum], str], str]:
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
    key = type(code), code.value
    if key not in TEMPLATES:
        load_templates()
    return TEMPLATES[key].format(**fields)
