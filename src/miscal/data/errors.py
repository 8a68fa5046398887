"""Every error and every warning of the library, and the one way their text is built.

A message answers four questions: what was expected, where, what was found, what to do. An error keeps the answers as
attributes (`parameter`, `expected`, `got`, `hint`).

The rule for messages: a parameter that a user sets is named with `parameter(...)`, in Python as in

    raise refusal("needs the column of the time", "'every'", hint=f"add {parameter('time', 'COLUMN')}")

so that the command line, where it is an option, can spell it as one (`--time COLUMN`) without reading the message.
"""

import difflib
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from types import FrameType
from typing import NamedTuple, Self

#: Controls of both sets, ends of lines and paragraphs, overrides of direction, halves of characters.
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BOXED = re.compile(r"np\.(?:float|u?int|str)\d*_?\(([^()]*)\)|np\.(True|False)_")


#: A parameter within a text: its name, value, function and what to do otherwise, between marks that no text has.
_MARKED = re.compile("\ue000([^\ue001]*)\ue001([^\ue001]*)\ue001([^\ue001]*)\ue001([^\ue002]*)\ue002")
_NAME_ALONE = re.compile(r"'(\w+)'")


class Parameter(NamedTuple):
    """A parameter that a message names.

    Attributes
    ----------
    name : str
        The parameter's name in Python.
    value : str
        The value to give; empty where the parameter is only named.
    function : str
        The function that has it, where it is another one than was called.
    otherwise : str
        What to do where there is no such parameter, in the place of "use" and the parameter.
    """

    name: str
    value: str = ""
    function: str = ""
    otherwise: str = ""

    def in_python(self) -> str:
        """The parameter as Python has it."""
        if not self.value:
            return f"'{self.name}'"
        text = f"{self.name}={self.value}"
        text = f"{self.function}(..., {text})" if self.function else text
        return f"use {text}" if self.otherwise else text


Spelling = Callable[[Parameter], str]


def parameter(name: str, value: str = "", function: str = "", otherwise: str = "") -> str:
    """Name a parameter within a message, by the fields of `Parameter`.

    >>> spelled(f"pass {parameter('logit', 'True')}")
    'pass logit=True'
    """
    return f"\ue000{name}\ue001{value}\ue001{function}\ue001{otherwise}\ue002"


def spelled(text: str, spelling: Spelling = Parameter.in_python) -> str:
    """A text with its parameters in a spelling, by default Python's."""
    return _MARKED.sub(lambda found: spelling(Parameter(*found.groups())), text)


class MiscalError(ValueError):
    """Base of every error: the input, a parameter or a file is not what it must be.

    Attributes
    ----------
    parameter : str
        The parameter that the error is about; empty where it is about something else, such as a column.
    expected, got, hint : str
        What was expected, what was found, and what to do; each empty where the error does not say.
    template : str
        The message with its parameters marked, as `spelled` reads it.
    """

    template: str
    parameter: str
    expected: str
    got: str
    hint: str

    def __init__(
        self, text: object = "", *, parameter: str = "", expected: str = "", got: str = "", hint: str = ""
    ) -> None:
        if isinstance(text, MiscalError):
            parameter, expected, got, hint = text.parameter, text.expected, text.got, text.hint
            text = text.template
        self.template = visible(text, keep="\n")
        self.parameter, self.expected, self.got, self.hint = parameter, expected, got, spelled(hint)
        super().__init__(spelled(self.template))

    def text(self, spelling: Spelling = Parameter.in_python) -> str:
        """The message, its parameters in a spelling."""
        return spelled(self.template, spelling)

    def with_text(self, template: str) -> Self:
        """The same error with another message, such as one that also says which file it is about."""
        error = type(self).__new__(type(self))
        fields = {"parameter": self.parameter, "expected": self.expected, "got": self.got, "hint": self.hint}
        MiscalError.__init__(error, template, **fields)
        return error

    def _render_traceback_(self) -> list[str]:
        """What IPython prints in place of its own traceback: the user's lines, down to the call that was refused."""
        users = takewhile(lambda at: _package(at[0]) != "miscal", traceback.walk_tb(self.__traceback__))
        stack = traceback.StackSummary.extract(at for at in users if _package(at[0]) != "IPython")
        lines = [
            "Traceback (most recent call last):\n",
            *stack.format(),
            *traceback.format_exception_only(self),
        ]
        return "".join(lines).splitlines()


def _package(frame: FrameType) -> str:
    """The package whose code runs in a frame."""
    return str(frame.f_globals.get("__name__", "")).split(".")[0]


class MissingExtra(MiscalError, ImportError):
    """An optional package is needed for what was asked."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed.\nHint: pip install 'miscal[{extra}]'"
        )


class MixedTypes(MiscalError):
    """A vector holds values of several types, such as numbers and text."""


class NotPlain(MiscalError):
    """A vector holds lists, records or spans of the calendar."""


class MiscalWarning(UserWarning):
    """Base of every warning: the result stands, but read it with care."""

    def __init__(self, text: str = "") -> None:
        self.template = visible(text)
        super().__init__(spelled(self.template))

    def text(self, spelling: Spelling = Parameter.in_python) -> str:
        """The message, its parameters in a spelling."""
        return spelled(self.template, spelling)


def refusal(what: str, where: str = "", *, got: str = "", hint: str = "") -> MiscalError:
    """Build an error.

    Parameters
    ----------
    what : str
        What was expected, such as "must lie in [0, 1]".
    where : str
        What must: a parameter's name in quotes, such as "'bins'", or a column, a file, ...
    got : str
        What was found.
    hint : str
        What to do.

    Examples
    --------
    >>> print(refusal("must lie in [0, 1]", "'y_prob'", got="row 3 has 1.2", hint="logits? pass logit=True"))
    'y_prob' must lie in [0, 1]; row 3 has 1.2.
    Hint: logits? pass logit=True
    """
    named = _NAME_ALONE.fullmatch(where)
    subject = parameter(named[1]) if named else where
    got = unboxed(got)
    found = f"; {got}" if got else ""
    then = f"\nHint: {visible(hint)}" if hint else ""
    text = visible(f"{subject} {what}{found}.".strip()) + then
    return MiscalError(text, parameter=named[1] if named else "", expected=what, got=got, hint=hint)


@contextmanager
def refusing(what: str, where: str, *, got: str = "", hint: str = "") -> Iterator[None]:
    """Turn whatever foreign code raises within the block into one refusal, with the first line of what it said.

    got : in the place of that line; refusals pass as they are
    """
    try:
        yield
    except MiscalError:
        raise
    except Exception as error:  # foreign code may fail in its own way
        said = str(getattr(error, "strerror", None) or error).strip() or type(error).__name__
        said = f"it has no {said}" if type(error) is KeyError else said
        raise refusal(what, where, got=got or said.splitlines()[0], hint=hint) from error


def visible(text: object, keep: str = "") -> str:
    r"""Text in one line, what a terminal or a log would act on spelt: controls, escapes, ends of lines, overrides.

    keep : controls that are ours and stay

    >>> print(visible("a\nb\x1b[31m \u202ec"))
    a\nb\x1b[31m \u202ec
    """
    return _ACTING.sub(lambda found: found[0] if found[0] in keep else repr(found[0])[1:-1], str(text))


def unboxed(text: str) -> str:
    """Words in which numpy's numbers are numbers.

    >>> unboxed("it is np.float64(2.5)")
    'it is 2.5'
    """
    return _BOXED.sub(lambda found: found[1] or found[2], text)


def nearest(name: str, known: Iterable[str]) -> str:
    """Name the most similar of the known names, as the end of a hint, or list a few of them."""
    names = [str(item) for item in known]
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    shown = [f"'{item}'" for item in names]
    return f"known names: {listed(shown, 8)}" if names else "there are no named columns"


def listed(items: Sequence[str], most: int) -> str:
    """Some of the items, in one line.

    >>> listed(["a", "b"], 2), listed(["a", "b", "c"], 2)
    ('a, b', 'a, b, ...')
    """
    return ", ".join([*items[:most], *["..."] * (len(items) > most)])


def check_named(names: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse the first of the names that is no known column, and offer the nearest of those.

    >>> check_named(["agee"], ["age", "y"], "the data")
    Traceback (most recent call last):
    miscal.data.errors.MiscalError: the data has no column 'agee'.
    Hint: did you mean 'age'?
    """
    for name in names:
        if name not in known:
            raise refusal(f"has no column '{name}'", where, hint=nearest(name, known))


def warn(text: str) -> None:
    """Warn at the first line outside the library, so that the user sees their own call."""
    ours = takewhile(lambda at: _package(at[0]) == "miscal", traceback.walk_stack(sys._getframe()))
    warnings.warn(MiscalWarning(text), stacklevel=1 + len(list(ours)))
