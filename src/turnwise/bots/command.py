"""A bot that is a command: it reads one line of JSON for every prompt and writes one line of JSON in answer."""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import PurePath
from typing import IO

from turnwise.bots.base import MOST_CHARACTERS, Bot, BotError, Prompt, answer_in, shown
from turnwise.errors import TurnwiseError

PATIENCE_AT_END = 2.0
# So long a line may take that was written together with an answer; after the last answer there is more time.
AFTERTHOUGHT, LAST_THOUGHT = 0.02, 0.3


class CommandBot(Bot):
    """Starts the command when it is first asked, and again whenever it has ended.

    The command is run as it was typed, without a shell; it may stay and answer many prompts, or end after one.
    """

    def __init__(self, command: str, timeout: float) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError as problem:
            raise TurnwiseError(f"`bot=command`: '{command}' cannot be split into words ({problem})") from None
        if not self._arguments:
            raise TurnwiseError("`bot=command`: there is no command; write for example `bot=command:./my_bot --option`")
        # The program alone does not tell `python v1.py` from `python v2.py`.
        self.name = " ".join(" ".join((PurePath(self._arguments[0]).name, *self._arguments[1:])).split())
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def reply(self, prompt: Prompt) -> str:
        """See `Bot`."""
        process, fresh = self._running()
        line = self._line_after(prompt, process)
        if not line and not fresh and self._ended(process) == 0:
            # It ended after its last answer, as it may, and nobody had noticed.
            process, _ = self._running()
            line = self._line_after(prompt, process)
        if not line:
            raise BotError(f"ended without an answer (exit status {self._ended(process)})")
        try:
            return answer_in(line)
        except BotError:
            # Whoever speaks out of turn once will be a line behind from now on.
            self.close()
            raise

    def _line_after(self, prompt: Prompt, process: subprocess.Popen[str]) -> str:
        """Return what the command writes once it is told the prompt; nothing where it has ended."""
        if self._afterthought(AFTERTHOUGHT) == "":
            return ""
        try:
            if process.stdin is not None:
                process.stdin.write(json.dumps(prompt.to_dict(), ensure_ascii=False) + "\n")
                process.stdin.flush()
            return self._lines.get(timeout=self._timeout)
        except queue.Empty:
            # Its answer may still come, and must not be taken for that to the next prompt.
            self.close()
            raise BotError(f"did not answer within {self._timeout:g} seconds") from None
        except OSError as problem:
            if self._ended(process) is not None:
                return ""
            self.close()
            raise BotError(f"does not listen ({problem.strerror})") from None

    def _afterthought(self, seconds: float) -> str | None:
        """Return an empty text if the command has ended and None if it is silent; raises if it writes unasked."""
        try:
            unasked = self._lines.get(timeout=seconds)
        except queue.Empty:
            return None
        if unasked:
            # It would be taken for the answer to the next prompt, and the last answer may have been one such.
            self.close()
            found = f"wrote {shown(unasked)} without being asked"
            raise BotError(f"{found}; write one line for each prompt", shifted=True)
        return ""

    def settle(self) -> None:
        """See `Bot`."""
        if self._process is not None and self._afterthought(LAST_THOUGHT) == "":
            # The end of the lines is still to be found by who asks next.
            self._lines.put("")

    def _running(self) -> tuple[subprocess.Popen[str], bool]:
        """Return the process, and whether it was started just now."""
        if self._process is not None and self._process.poll() is None:
            return self._process, False
        self.close()
        try:
            process = subprocess.Popen(
                self._arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", errors="replace",
                # A group of its own, so that what it starts ends with it.
                start_new_session=True,
            )  # fmt: skip
        except OSError as problem:
            raise TurnwiseError(f"`bot=command`: {self._arguments[0]} cannot be run ({problem.strerror})") from None
        self._lines = queue.Queue()
        threading.Thread(target=_read_lines, args=(process.stdout, self._lines), daemon=True).start()
        self._process = process
        return process, True

    def _ended(self, process: subprocess.Popen[str]) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=PATIENCE_AT_END)
        return None

    def close(self) -> None:
        """See `Bot`."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        # A bot that waits for more prompts ends with its input; one that hangs does not.
        if self._ended(process) is None:
            process.kill()
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read_lines(stream: IO[str] | None, lines: queue.Queue[str]) -> None:
    """Hand on every line, and an empty text at the end."""
    if stream is not None:
        with stream, suppress(ValueError, OSError):
            while line := stream.readline(MOST_CHARACTERS):
                lines.put(line)
    lines.put("")
