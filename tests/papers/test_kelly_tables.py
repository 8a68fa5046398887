"""Kelly and Smyth's tables from the authors' own model outputs, at the printed digits."""

from __future__ import annotations

import pytest

from studies import reproduce_paper_000 as paper


@pytest.fixture(scope="module")
def adult(shared_data):
    task = paper.adult(shared_data)
    return task, paper.adult_results(task)


@pytest.fixture(scope="module")
def cifar(shared_data):
    task = paper.cifar(shared_data)
    return task, paper.cifar_results(task)


def two_digits(*values):
    return tuple(f"{value:.2f}" for value in values)


@pytest.mark.parametrize(("name", "printed"), (paper.TABLE_2 | paper.TABLE_10).items())
def test_tables_2_and_10(adult, name, printed):
    task, results = adult
    found = paper.authors(task, results[name])
    assert two_digits(found.expected, found.by_variable["age"]) == two_digits(*printed)


def test_table_1_is_printed_beside_what_is_recomputed(adult, capsys):
    """VECE at the printed digits; VCE(v*) within .13 points, as the authors' smoother interpolates."""
    task, results = adult
    paper.table_1(task, results["Beta calibration"])
    lines = {line.split()[0]: line.replace("|", "").split()[1:] for line in capsys.readouterr().out.splitlines()[3:]}
    assert set(lines) == set(paper.TABLE_1)
    for variable, (vece, worst, place) in paper.TABLE_1.items():
        found = [float(word) for word in lines[variable]]
        assert found[:2] == [vece, vece]
        assert found[2] == worst
        assert abs(found[3] - worst) < 0.13
        assert found[4] == place
        assert abs(found[5] - place) < 0.2


@pytest.mark.parametrize(("name", "printed"), paper.TABLE_5.items())
def test_table_5(cifar, name, printed):
    task, results = cifar
    found = paper.authors(task, results[name])
    assert two_digits(found.expected, found.by_variable["median_rt"]) == two_digits(*printed)


@pytest.mark.parametrize("variable", paper.TABLE_7)
def test_table_7(adult, variable):
    task, results = adult
    found = [paper.authors(task, results[name]).by_variable[variable] for name in paper.COLUMNS_7]
    assert two_digits(*found) == two_digits(*paper.TABLE_7[variable])


@pytest.mark.parametrize("which", ["adult", "cifar"])
def test_table_6(which, request):
    task, results = request.getfixturevalue(which)
    for name, printed in paper.TABLE_6[which].items():
        assert f"{paper.consistent(task, results[name]).accuracy:.1f}" == f"{printed:.1f}"


def test_the_consistent_convention(adult, cifar):
    """Own bins and own labels, the library's default. The last is 1.4157: converged to a gradient of 1e-16."""
    task, results = adult
    for name, printed in {"Beta calibration": (2.98, 9.64), "Variable-based calibration": (1.55, 2.11)}.items():
        found = paper.consistent(task, results[name])
        assert two_digits(found.expected, found.by_variable["age"]) == two_digits(*printed)
    task, results = cifar
    for name, printed in {"Dirichlet calibration": (0.51, 1.16), "Variable-based calibration": (1.17, 1.42)}.items():
        found = paper.consistent(task, results[name])
        assert two_digits(found.expected, found.by_variable["median_rt"]) == two_digits(*printed)


def test_the_tables_depend_on_the_convention(adult):
    """The check above could fail: under the other convention Table 2's beta row has other digits."""
    task, results = adult
    found = paper.consistent(task, results["Beta calibration"])
    assert two_digits(found.expected) != two_digits(paper.TABLE_2["Beta calibration"][0])
