"""Run CPython's regrtest, and say of each test how it ended, as it ends.

The report is lines of JSON on the standard output, each after MARK, so that what a test printed, and a sandbox that ends
in the middle of one, take nothing away from what was said before:

    {"test": "test.test_json.test_tool.TestTool.test_writing_in_place", "result": "ok"}

result is "start", then one of ok, skip, fail, error, expected failure, unexpected success; a failed subtest makes its
test fail. A line {"end": true} follows the last test.
"""

import json
import os
import unittest

from test.libregrtest import main, single
from test.libregrtest.testresult import RegressionTestResult

MARK = "\n@silk-compat "

report = os.dup(1)


def say(**line):
    os.write(report, (MARK + json.dumps(line) + "\n").encode())


class Result(RegressionTestResult):
    """Result says what it is told, at once."""

    def startTest(self, test):
        self.subtest = None
        say(test=test.id(), result="start")
        super().startTest(test)

    def addSuccess(self, test):
        super().addSuccess(test)
        say(test=test.id(), result=self.subtest or "ok")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        say(test=test.id(), result="fail", why=str(err[1])[-400:])

    def addError(self, test, err):
        super().addError(test, err)
        say(test=test.id(), result="error", why=f"{err[0].__name__}: {err[1]}"[-400:])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        say(test=test.id(), result="skip", why=reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        say(test=test.id(), result="expected failure")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        say(test=test.id(), result="unexpected success")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            kind = "fail" if issubclass(err[0], test.failureException) else "error"
            say(test=test.id(), result=kind, why=f"{subtest}: {err[1]}"[-400:])


def get_test_runner(stream, verbosity, capture_output=False):
    return unittest.TextTestRunner(stream, verbosity=2, resultclass=Result)


if __name__ == "__main__":  # multiprocessing imports this file anew in each process that it spawns
    single.get_test_runner = get_test_runner
    try:
        main.main()
    finally:
        say(end=True)
