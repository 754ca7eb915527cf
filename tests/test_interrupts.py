"""A signal stops work between its units; a second one at once."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from turnwise.interrupts import Interrupted, at_once, check, checked, deferred


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_first_signal_waits_for_the_unit_in_hand() -> None:
    done = []

    def work() -> None:
        with deferred():
            for unit in checked(range(5)):
                if unit == 2:
                    interrupt()
                done.append(unit)

    with pytest.raises(Interrupted):
        work()
    assert done == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_signal_raises_at_once() -> None:
    reached = []

    def work() -> None:
        with deferred():
            interrupt()
            reached.append(1)
            interrupt()
            reached.append(2)

    with pytest.raises(Interrupted):
        work()
    assert reached == [1]


def test_work_that_waits_is_interrupted_at_once() -> None:
    reached = []

    def work() -> None:
        with deferred(), at_once():
            interrupt()
            reached.append(1)

    with pytest.raises(Interrupted):
        work()
    assert not reached


def test_a_signal_after_the_last_unit_is_not_lost() -> None:
    def work() -> None:
        with deferred():
            interrupt()

    with pytest.raises(Interrupted):
        work()
    check()


def test_what_was_told_once_is_not_told_again() -> None:
    with deferred():
        interrupt()
        with pytest.raises(Interrupted):
            check()
        check()


def test_other_threads_leave_the_handlers_alone() -> None:
    found = []

    def work() -> None:
        with deferred():
            found.append(signal.getsignal(signal.SIGINT))
            check()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
