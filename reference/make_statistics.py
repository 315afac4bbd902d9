"""Writes the numbers that the laboratory's statistics are held against.

    python3 -m venv V && V/bin/pip install scipy statsmodels
    V/bin/python reference/make_statistics.py

writes crates/lab/tests/data/statistics.json. The file is committed; CI never runs this.
"""

import json
from pathlib import Path

import numpy
import scipy
import statsmodels
from scipy import stats
from statsmodels.stats.power import TTestIndPower

SAMPLES = [
    ([5.55, 5.50, 5.74], [5.68, 5.86, 5.62]),
    ([3.22, 3.24], [3.25, 3.23]),
    ([10.1, 9.7, 10.4, 10.0], [12.5, 13.1, 11.0]),
    ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2.5, 2.6, 2.4, 2.55]),
]


def apart(first, second, axis):
    return numpy.abs(numpy.mean(second, axis=axis) - numpy.mean(first, axis=axis))


def tails():
    degrees = [1, 1.5, 2, 3.99, 7, 30.2, 200]
    return [[t, df, 2 * stats.t.sf(t, df)] for df in degrees for t in [0.0, 0.1, 1.2, 2.776, 6.0, 40.0]]


def quantiles():
    degrees = [1, 2.5, 4, 10, 38.7, 500]
    return [[share, df, stats.t.ppf(share, df)] for df in degrees for share in [0.5, 0.8, 0.95, 0.975, 0.9995]]


def welch():
    for first, second in SAMPLES:
        found = stats.ttest_ind(second, first, equal_var=False)
        interval = found.confidence_interval(0.95)
        yield [first, second, [found.statistic, found.df, found.pvalue, interval.low, interval.high]]


def permutation():
    for first, second in SAMPLES:
        found = stats.permutation_test(
            (first, second), apart, vectorized=True, n_resamples=numpy.inf, alternative="greater"
        )
        yield [first, second, found.pvalue]


def power():
    for deviation, difference in [(2.25, 2), (1, 3), (2, 3), (2, 1), (5, 1), (1, 2), (3, 4)]:
        runs = TTestIndPower().solve_power(difference / deviation, power=0.8, alpha=0.05)
        yield [deviation, difference, float(numpy.ravel(runs)[0])]


def main():
    made = {
        "made_by": f"scipy {scipy.__version__}, statsmodels {statsmodels.__version__}",
        "tails": tails(),
        "quantiles": quantiles(),
        "welch": list(welch()),
        "permutation": list(permutation()),
        "power": list(power()),
    }
    folder = Path(__file__).parent.parent / "crates/lab/tests/data"
    text = json.dumps(made, default=float)
    text = text.replace('], "', '],\n "').replace("], [", "],\n  [").replace('{"', '{\n "', 1)
    (folder / "statistics.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
