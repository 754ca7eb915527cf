"""Bots: a command, a function and an address are asked, fail and recover; the ones that come along find or write."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnwise.bots.base import LONGEST_WAIT, Bot, BotError, Prompt, answer_in, ask
from turnwise.bots.command import CommandBot
from turnwise.bots.http import HttpBot, messages
from turnwise.bots.local import DualEncoderBot, LanguageModelBot, PythonBot, QueryReply, TfIdfBot
from turnwise.bots.open import BotOptions, open_bot
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError

CONTEXT = ("Any pets?", "Two cats.", "What are they called?")
PROMPT = Prompt(CONTEXT, facts=("My cats are Tom and Tim.",), hidden=("no",))
ECHO = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"response": json.loads(line)["context"][-1]}), flush=True)
"""


def python_command(script: str, tmp_path: Path, name: str = "bot.py") -> str:
    file = tmp_path / name
    file.write_text(script)
    return f"'{sys.executable}' '{file}'"


# --- retries --------------------------------------------------------------------------------------------


class Flaky(Bot):
    name = "flaky"

    def __init__(self, failures: list[BotError]) -> None:
        self.failures = failures

    def reply(self, prompt: Prompt) -> str:
        if self.failures:
            raise self.failures.pop(0)
        return " fine "

    def close(self) -> None:
        pass


def test_a_failure_is_asked_again_after_a_pause() -> None:
    pauses: list[float] = []
    bot = Flaky([BotError("x"), BotError("x"), BotError("x", wait=7.0), BotError("x", wait=9e9)])
    assert ask(bot, PROMPT, retries=4, sleep=pauses.append) == "fine"
    assert pauses == [0.5, 1.0, 7.0, LONGEST_WAIT]


def test_the_last_failure_is_raised() -> None:
    with pytest.raises(BotError, match="second"):
        ask(Flaky([BotError("first"), BotError("second")]), PROMPT, retries=1, sleep=lambda _: None)


@pytest.mark.parametrize("answer", ["", "  \n"])
def test_nothing_is_no_answer(answer: str) -> None:
    with pytest.raises(BotError, match="nothing"):
        ask(PythonBot(lambda _: answer, 1), PROMPT, retries=0)


@pytest.mark.parametrize("line", ["hello", "{}", '{"response": 3}', "[1]", "3", '{"answer": "x"}'])
def test_what_is_no_answer_is_said(line: str) -> None:
    with pytest.raises(BotError, match="answered with"):
        answer_in(line)


def test_what_is_known_is_not_told() -> None:
    assert "hidden" not in PROMPT.to_dict()
    assert "no" not in json.dumps(PROMPT.to_dict()).split()


# --- a command ------------------------------------------------------------------------------------------


def test_a_command_answers_many_prompts(tmp_path: Path) -> None:
    bot = CommandBot(python_command(ECHO, tmp_path), 10)
    try:
        assert bot.reply(PROMPT) == "What are they called?"
        first = bot._process
        assert bot.reply(Prompt(("é ü 😀",))) == "é ü 😀"
        assert bot._process is first
    finally:
        bot.close()
    assert first is not None
    assert first.poll() is not None


def test_a_command_may_end_after_each_answer(tmp_path: Path) -> None:
    bot = CommandBot(python_command("import sys\nsys.stdin.readline()\nprint('\"once\"')", tmp_path), 10)
    try:
        assert [ask(bot, PROMPT, retries=1, sleep=lambda _: None) for _ in range(3)] == ["once"] * 3
    finally:
        bot.close()


def test_a_command_that_ends_after_each_answer_has_not_failed(tmp_path: Path) -> None:
    bot = CommandBot(
        python_command("import sys\nprint(sys.stdin.readline().count('cats') and '\"once\"')", tmp_path), 10
    )
    try:
        assert [bot.reply(PROMPT) for _ in range(6)] == ["once"] * 6
    finally:
        bot.close()


def test_a_command_that_dies_of_a_prompt_has_failed(tmp_path: Path) -> None:
    script = "import sys\nfor place, line in enumerate(sys.stdin):\n sys.exit(3) if place else print('1', flush=True)"
    bot = CommandBot(python_command(script.replace("'1'", "'\"fine\"'"), tmp_path), 10)
    try:
        assert bot.reply(PROMPT) == "fine"
        with pytest.raises(BotError, match="exit status 3"):
            bot.reply(PROMPT)
        assert bot.reply(PROMPT) == "fine"
    finally:
        bot.close()


def test_a_line_too_many_is_nobodys_answer(tmp_path: Path) -> None:
    script = ECHO + "    print(json.dumps({'response': 'by the way'}), flush=True)\n"
    bot = CommandBot(python_command(script, tmp_path), 10)
    try:
        assert bot.reply(PROMPT) == CONTEXT[-1]
        with pytest.raises(BotError, match=r"by the way.*without being asked"):
            bot.reply(Prompt(("Hi!",)))
        assert bot.reply(Prompt(("Hi!",))) == "Hi!"
    finally:
        bot.close()


def test_a_command_that_hangs_is_ended_and_its_late_answer_lost(tmp_path: Path) -> None:
    script = "import sys,time\nfor line in sys.stdin:\n time.sleep(30)\n print('\"late\"', flush=True)"
    bot = CommandBot(python_command(script, tmp_path), 0.3)
    with pytest.raises(BotError, match=r"within 0\.3 seconds"):
        bot.reply(PROMPT)
    assert bot._process is None


def test_a_command_that_fails_says_how(tmp_path: Path) -> None:
    bot = CommandBot(python_command("import sys\nsys.exit(3)", tmp_path), 5)
    with pytest.raises(BotError, match=r"exit status 3|does not listen"):
        bot.reply(PROMPT)
    bot.close()
    with pytest.raises(TurnwiseError, match="cannot be run"):
        CommandBot("/nowhere/at-all", 5).reply(PROMPT)
    for wrong in ("", "  ", "'unclosed"):
        with pytest.raises(TurnwiseError, match="`bot=command`"):
            CommandBot(wrong, 5)


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    command = python_command(ECHO, tmp_path) + f" ; touch {marker} $(touch {marker}) | touch {marker}"
    bot = CommandBot(command, 10)
    try:
        assert bot.reply(PROMPT) == "What are they called?"
    finally:
        bot.close()
    assert not marker.exists()


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.15])
def test_a_late_line_is_withdrawn_with_the_answer_before(tmp_path: Path, pause: float) -> None:
    script = f"""
import json, os, sys, threading, time
def late():
    time.sleep({pause})
    print(json.dumps({{"response": "by the way"}}), flush=True)
for number, line in enumerate(sys.stdin):
    print(json.dumps({{"response": json.loads(line)["context"][-1]}}), flush=True)
    if number == 0 and not os.path.exists({str(tmp_path / "late")!r}):
        open({str(tmp_path / "late")!r}, "w").close()
        threading.Thread(target=late).start()
"""
    bot = CommandBot(python_command(script, tmp_path), 10)
    kept: dict[str, str] = {}
    asked: list[str] = []

    def withdraw(failure: BotError) -> None:
        assert failure.shifted
        kept.pop(asked[-1], None)

    try:
        for number in range(8):
            text = f"prompt {number}"
            kept[text] = ask(bot, Prompt((text,)), retries=3, sleep=lambda _: None, withdraw=withdraw)
            asked.append(text)
        try:
            bot.settle()
        except BotError as failure:
            withdraw(failure)
    finally:
        bot.close()
    assert all(text == answer for text, answer in kept.items())
    assert len(kept) >= 5


def test_the_last_answer_is_checked_too(tmp_path: Path) -> None:
    script = ECHO + "    import time; time.sleep(0.1); print('\"late\"', flush=True)\n"
    bot = CommandBot(python_command(script, tmp_path), 10)
    try:
        assert bot.reply(PROMPT) == CONTEXT[-1]
        with pytest.raises(BotError, match="without being asked") as caught:
            bot.settle()
        assert caught.value.shifted
    finally:
        bot.close()
    bot = CommandBot(python_command("import sys\nsys.stdin.readline()\nprint('\"once\"')", tmp_path), 10)
    try:
        for _ in range(2):
            assert bot.reply(PROMPT) == "once"
            bot.settle()
    finally:
        bot.close()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
@pytest.mark.parametrize("patient", [True, False])
def test_what_a_command_starts_ends_with_it(tmp_path: Path, patient: bool) -> None:
    wait = "" if patient else "    import time; time.sleep(60)\n"
    start = "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    bot = CommandBot(
        python_command(
            start
            + "print(child.pid, file=open('pid', 'w'), flush=True)\n".replace("'pid'", repr(str(tmp_path / "pid")))
            + ECHO
            + wait,
            tmp_path,
        ),
        10,
    )
    try:
        assert bot.reply(PROMPT) == CONTEXT[-1]
    finally:
        bot.close()
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text():
            return
        time.sleep(0.02)
    pytest.fail("the grandchild survives")


# --- a function -----------------------------------------------------------------------------------------


def test_a_function_is_given_the_prompt() -> None:
    assert PythonBot(lambda prompt: prompt["facts"][0], 1).reply(PROMPT) == "My cats are Tom and Tim."
    with pytest.raises(BotError, match="raised ZeroDivisionError"):
        PythonBot(lambda _: str(1 // 0), 1).reply(PROMPT)
    with pytest.raises(BotError, match="returned int"):
        PythonBot(lambda _: 3, 1).reply(PROMPT)  # type: ignore[arg-type, return-value]
    with pytest.raises(BotError, match=r"within 0\.05 seconds"):
        PythonBot(lambda _: threading.Event().wait(5) and "", 0.05).reply(PROMPT)  # type: ignore[arg-type, return-value]


def test_a_function_that_ends_the_program_has_failed_at_once() -> None:
    def leave(_: object) -> str:
        sys.exit("no licence")

    with pytest.raises(BotError, match=r"^raised SystemExit: no licence"):
        PythonBot(leave, 30).reply(PROMPT)


@pytest.mark.parametrize("text", ["def f(:", "raise ValueError('no model here')", "import sys\nsys.exit(1)"])
def test_a_module_that_fails_is_said_in_one_line(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_bot.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(TurnwiseError, match=r"`bot=python:broken_bot:f`: cannot be loaded \(\w+: ") as caught:
        open_bot("python:broken_bot:f", [], BotOptions())
    assert "\n" not in str(caught.value)


def test_a_function_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_bot.py").write_text("def reply(prompt):\n    return prompt['context'][0]\nnumber = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert open_bot("python:my_own_bot:reply", [], BotOptions()).reply(PROMPT) == "Any pets?"
    for wrong in ("python:my_own_bot", "python:my_own_bot:nothing", "python:nowhere:reply", "python:my_own_bot:number"):
        with pytest.raises(TurnwiseError, match="`bot=python"):
            open_bot(wrong, [], BotOptions())


# --- an address -----------------------------------------------------------------------------------------


class Server(HTTPServer):
    """Says what it was told to say, and remembers what it was asked."""

    replies: list[tuple[int, dict[str, str], str]]
    asked: list[tuple[str, dict[str, str], Any]]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        status, headers, content = self.server.replies.pop(0)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content.encode())

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers), None))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(("127.0.0.1", 0), Handler)
    running.replies, running.asked = [], []
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


def completion(text: str) -> tuple[int, dict[str, str], str]:
    return 200, {}, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})


def address(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/v1"


def test_an_address_is_asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    server.replies = [completion("Tom and Tim.")]
    bot = open_bot(address(server), [], BotOptions(model="small", key_variable="MY_KEY"))
    assert (bot.name, bot.reply(PROMPT)) == ("small", "Tom and Tim.")
    path, headers, body = server.asked[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer secret"
    assert body["model"] == "small"
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]


def test_speakers_decide_who_is_the_assistant() -> None:
    told = messages(Prompt(("a", "b", "c"), speakers=("bot", "ann", "ben", "bot")))
    assert [message["role"] for message in told] == ["assistant", "user", "user"]


def test_trouble_that_passes_is_asked_again(server: Server) -> None:
    server.replies = [(429, {"Retry-After": "3"}, "slow down"), (503, {}, ""), completion("ok")]
    pauses: list[float] = []
    bot = HttpBot(address(server), "m", 5)
    assert ask(bot, PROMPT, retries=2, sleep=pauses.append) == "ok"
    assert pauses == [3.0, 1.0]


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_refusal_ends_the_run_with_the_reason(server: Server, status: int) -> None:
    server.replies = [(status, {}, "no such model")]
    with pytest.raises(TurnwiseError, match=f"status {status} .no such model"):
        HttpBot(address(server), "m", 5).reply(PROMPT)


def test_redirects_are_not_followed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_BOT_KEY", "secret")
    server.replies = [(302, {"Location": f"{address(server)}/elsewhere"}, ""), completion("stolen")]
    with pytest.raises(TurnwiseError, match="status 302"):
        HttpBot(address(server), "m", 5).reply(PROMPT)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "content", ["", "{}", "<html>", '{"choices": []}', '{"choices": [{"message": {"content": null}}]}']
)
def test_what_is_no_completion_is_a_failure(server: Server, content: str) -> None:
    server.replies = [(200, {}, content)]
    with pytest.raises(BotError, match="answered with"):
        HttpBot(address(server), "m", 5).reply(PROMPT)


@pytest.mark.parametrize("sent", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"])
def test_headers_or_an_answer_drop_by_drop_are_not_waited_for(sent: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        enough = threading.Event()

        def drip() -> None:
            talking, _ = listening.accept()
            with talking, suppress(OSError):
                talking.sendall(sent)
                while not enough.wait(0.05):
                    talking.sendall(b" ")

        threading.Thread(target=drip, daemon=True).start()
        began = time.monotonic()
        try:
            with pytest.raises(BotError, match=r"^did not answer within 0\.5 seconds, at http"):
                HttpBot(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", "m", 0.5).reply(PROMPT)
        finally:
            enough.set()
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("wait", ["\u00b2", "soon", "-1"])
def test_a_wait_that_is_no_number_is_passed_over(server: Server, wait: str) -> None:
    server.replies = [(429, {"Retry-After": wait}, ""), completion("ok")]
    pauses: list[float] = []
    assert ask(HttpBot(address(server), "m", 5), PROMPT, retries=1, sleep=pauses.append) == "ok"
    assert pauses == [0.5]


def test_deep_json_and_half_characters_are_failures(server: Server) -> None:
    server.replies = [(200, {}, "[" * 100_000), completion("half \ud83d")]
    bot = HttpBot(address(server), "m", 5)
    with pytest.raises(BotError, match="no chat completion"):
        bot.reply(PROMPT)
    with pytest.raises(BotError, match="half a surrogate pair"):
        ask(bot, PROMPT, retries=0)
    with pytest.raises(BotError, match="not JSON"):
        answer_in("[" * 100_000)


def test_what_is_on_this_machine_is_not_asked_through_a_proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_BOT_KEY", "secret")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    server.replies = [completion("ok")]
    assert HttpBot(address(server), "m", 5).reply(PROMPT) == "ok"


def test_nobody_there_is_a_failure() -> None:
    with pytest.raises(BotError):
        HttpBot("http://127.0.0.1:9/v1", "m", 2).reply(PROMPT)


def test_a_key_is_kept_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_BOT_KEY", "secret")
    with pytest.raises(TurnwiseError, match="readable on the way"):
        HttpBot("http://example.org/v1", "m", 5)
    HttpBot("https://example.org/v1", "m", 5)
    for wrong in ("http:///v1", "https://user:pass@example.org/v1"):
        with pytest.raises(TurnwiseError):
            HttpBot(wrong, "m", 5)


# --- the ones that come along ---------------------------------------------------------------------------

PAIRS = [
    QueryReply("do you like music?", "yes, I play the piano"),
    QueryReply("what is the weather like?", "it is raining"),
    QueryReply("do you like dogs?", "no, I love cats"),
]


def test_tfidf_finds_the_closest_query_but_never_the_true_response() -> None:
    bot = TfIdfBot(PAIRS)
    assert bot.reply(Prompt(("hello", "Which weather do you like?"))) == "it is raining"
    assert bot.reply(Prompt(("do you like dogs?",), hidden=("No, I love cats!",))) == "yes, I play the piano"
    with pytest.raises(TurnwiseError, match="no response but the true one"):
        bot.reply(Prompt(("x",), hidden=tuple(pair.response for pair in PAIRS)))


def test_how_responses_are_spelt_is_looked_at_once() -> None:
    spelt_out = []

    class Counted(str):
        __slots__ = ()

        def lower(self) -> str:
            spelt_out.append(self)
            return super().lower()

    bot = TfIdfBot([QueryReply(pair.query, Counted(pair.response)) for pair in PAIRS])
    for _ in range(5):
        assert bot.reply(Prompt(("do you like dogs?",), hidden=("no, i love cats",))) == "yes, I play the piano"
    assert len(spelt_out) == len(PAIRS)


def test_the_dual_encoder_compares_context_and_response(toy) -> None:
    bot = DualEncoderBot(PAIRS, toy.ask)
    context = ("hello", "do you play the piano")
    said = bot.reply(Prompt(context))
    vectors = {request.text: np.asarray(answer) for request, answer in toy.ask([*_embeds(PAIRS, context)]).items()}
    asked = vectors[" ".join(context)]

    def cosine(text: str) -> float:
        other = vectors[text]
        return float(asked @ other / np.linalg.norm(asked) / np.linalg.norm(other))

    ranked = sorted((pair.response for pair in PAIRS), key=cosine, reverse=True)
    assert said == ranked[0]
    assert bot.reply(Prompt(context, hidden=(said,))) == ranked[1]


def _embeds(pairs: list[QueryReply], context: tuple[str, ...]):
    from turnwise.models.requests import Embed

    return (Embed(text) for text in [*(pair.response for pair in pairs), " ".join(context)])


def test_the_language_model_reads_facts_and_turns() -> None:
    read: list[str] = []

    class Fake:
        def sample(self, text, decoding, rng, most):
            read.append(text)
            return type("Written", (), {"text": f"{rng.integers(10**9)}"})

    bot = LanguageModelBot(Fake(), None, seed=3)  # type: ignore[arg-type]
    first = bot.reply(PROMPT)
    assert read == ["My cats are Tom and Tim.\nAny pets?\nTwo cats.\nWhat are they called?\n"]
    assert bot.reply(Prompt(("Hi!",))) != first == bot.reply(PROMPT)


def test_bots_by_name(toy_pack) -> None:
    own = [Example("yes, I play the piano", ("do you like music?",))]
    options = BotOptions(models=toy_pack.folder, cache="off")
    assert open_bot("tfidf", own, options).reply(Prompt(("music?",))) == "yes, I play the piano"
    assert open_bot("dual-encoder", own, options).reply(Prompt(("music?",))) == "yes, I play the piano"
    written = open_bot("lm[decoding=top-k,k=3,most=5,seed=1]", own, options).reply(Prompt(("do you like tea?",)))
    assert written == open_bot("lm[decoding=top-k,k=3,most=5]", own, BotOptions(models=toy_pack.folder, seed=1)).reply(
        Prompt(("do you like tea?",))
    )


def test_no_more_is_written_than_the_model_has_room_for(toy_pack) -> None:
    options = BotOptions(models=toy_pack.folder, cache="off")
    with pytest.raises(TurnwiseError, match="option most=1000000: the model has room for"):
        open_bot("lm[most=1000000]", [], options)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("parrot", "not known; write command:COMMAND"),
        ("tfidf[corpus", "not known"),
        ("tfidf[k=3]", "no option 'k'; its options: corpus"),
        ("tfidf[corpus]", "has no value"),
        ("tfidf", "no row with a context and a response"),
        ("lm[decoding=beam]", "choose one of greedy, top-k, nucleus"),
        ("lm[k=many]", "option k=many: write a number"),
        ("lm[k=nan]", "option k=nan: write a whole number of at least 1"),
        ("lm[most=0]", "option most=0: write a whole number of at least 1"),
        ("lm[seed=-1]", "option seed=-1: write a whole number of at least 0"),
        ("lm[temperature=inf]", "temperature=inf: write a number above 0"),
        ("https://example.org/v1", "bot_model"),
        ("tfidf[corpus=/nowhere.jsonl]", "/nowhere.jsonl"),
    ],
)
def test_a_bot_that_cannot_be_had_is_said_in_one_line(name: str, words: str) -> None:
    with pytest.raises(TurnwiseError) as caught:
        open_bot(name, [], BotOptions())
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
