"""Every decision of the library as a code: an enum, or a small record of one with typed fields.

The rule: no decision reads a sentence. A module that has to say *why* (a test's method, a column left out, a note, a
verdict) returns a code from here, and `miscal.words` turns it into a sentence when something is shown. Codes are
`StrEnum`s, so that a code equals its string: what JSON files and user programs compare stays as it is.

- `data`: what a column is and what the outcome is.
- `inference`: which null model and which test gave a p-value, and why.
- `audit`: kinds and forms of findings, reasons for what was excluded or not tested, notes, verdicts.
- `recalibration`: why a recalibrator was chosen.

To add one: a member here and its template in the module of `miscal.words` that has the same name. A test holds that
every member has a template, and another that no answer changes when all templates are nonsense.
"""
