"""The service as a process under load: slow clients, full queues, stop, reload (F71-F76).

Nothing is measured: requests are held until a file exists, and what is waited for is asked for
again and again.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import viewgap
from gated_service import BROKEN, HELD, LONG, Running, body, service, train, until

ROW = 0.25


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that has time, and room for four waiting requests."""
    folder = tmp_path_factory.mktemp("patient")
    with service(folder, timeout=LONG, queue=4, reload_interval=0.02) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service that waits for half a second."""
    with service(tmp_path_factory.mktemp("hasty"), timeout=0.5) as running:
        yield running


@pytest.fixture(autouse=True)
def closed_gate(request: pytest.FixtureRequest) -> Iterator[None]:
    """Before a test nothing is let through; after it nothing is held."""
    names = {"patient", "hasty"} & set(request.fixturenames)
    gates = [request.getfixturevalue(name).gate for name in names]
    for gate in gates:
        gate.unlink(missing_ok=True)
    yield
    for gate in gates:
        gate.touch()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as executor:
        yield executor


def connect(running: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", running.port), timeout=LONG)


def read_all(connection: socket.socket) -> bytes:
    """What comes until the other side closes; a reset is an end, too."""
    found = b""
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


def expected(model: Any, value: float = ROW) -> list[float]:
    rows = {"a": [body(value)["rows"][0]["views"]["a"]]}
    return list(model.predict_proba(rows)[0].tolist())


def shown(answer: httpx.Response) -> list[float]:
    assert answer.status_code == 200, answer.text
    return list(answer.json()["rows"][0]["probabilities"].values())


def hold(running: Running, pool: ThreadPoolExecutor) -> Any:
    """A request that the model is at work on until the gate opens."""
    before = running.metric("batches_total")
    held = pool.submit(running.post, HELD)
    until(lambda: running.metric("batches_total") > before)
    return held


# ---------------------------------------------------------------------- time


def test_a_body_that_does_not_arrive_is_408(hasty: Running) -> None:
    with connect(hasty) as slow:
        slow.sendall(
            b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\n\r\n{"
        )
        found = read_all(slow)
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in found.lower()


def test_an_answer_that_takes_too_long_is_503_and_the_next_one_is_not(
    hasty: Running, pool: ThreadPoolExecutor
) -> None:
    late = hasty.post(HELD)
    assert (late.status_code, late.headers["retry-after"]) == (503, "1")
    hasty.gate.touch()
    until(lambda: hasty.post(ROW).status_code == 200)


# ---------------------------------------------------------------------- connections


def test_half_closed_connections_leave_the_service_as_it_was(patient: Running) -> None:
    whole = b'{"rows": [{"views": {}}]}'
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    sent = [
        b"",
        b"POST",
        head,
        head + b"Content-Length: 1000\r\n\r\n{",
        head + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        head + b"Content-Length: %d\r\n\r\n" % len(whole) + whole,
    ]
    for data in sent:
        with connect(patient) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            assert not read_all(connection).startswith(b"HTTP/1.1 5")
    with connect(patient) as connection:
        connection.sendall(sent[3])  # and gone without a word
    assert shown(patient.post(ROW)) == expected(train(0))


def test_many_connections_hinder_nobody(patient: Running) -> None:
    """As many as every system lets two processes have; 1,000: `python -m benchmarks.serve_soak`."""
    with ExitStack() as stack:
        many = [stack.enter_context(connect(patient)) for _ in range(400)]
        for connection in many[::2]:
            connection.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
        assert shown(patient.post(ROW)) == expected(train(0))
        many[1].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert read_all(many[1]).startswith(b"HTTP/1.1 200 ")
    files = Path(f"/proc/{patient.process.pid}/fd")
    if files.exists():  # Linux
        until(lambda: len(list(files.iterdir())) < 100)
    assert shown(patient.post(ROW)) == expected(train(0))


@pytest.mark.parametrize(
    "data",
    [
        b"GET /health HTTP/1.1\r\nHost: x\r\n"
        + b"".join(b"A%d: %s\r\n" % (i, b"x" * 1000) for i in range(400)),
        b"GET /health HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 10**6,
        b"GET /" + b"x" * 10**6,
        b"\x16\x03\x01\x02\x00\x01\x00" * 1000,
        b"NONSENSE\r\n\r\n",
    ],
    ids=["many", "long", "address", "tls", "no http"],
)
def test_huge_headers_and_what_is_no_http_are_refused(patient: Running, data: bytes) -> None:
    with connect(patient) as connection:
        try:
            connection.sendall(data)
            connection.sendall(b"\r\n\r\n")
        except (ConnectionResetError, BrokenPipeError):
            pass  # it has seen enough
        found = read_all(connection)
    assert not found or found.startswith(b"HTTP/1.1 4")
    assert shown(patient.post(ROW)) == expected(train(0))


# ---------------------------------------------------------------------- load


def test_a_full_queue_is_503_and_those_that_wait_are_answered(
    patient: Running, pool: ThreadPoolExecutor
) -> None:
    held = hold(patient, pool)
    waiting = [pool.submit(patient.post, ROW) for _ in range(4)]
    until(lambda: patient.metric("queue_length") == 4)
    refused = patient.post(ROW)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    patient.gate.touch()
    assert held.result(timeout=LONG).status_code == 200
    assert all(shown(answer.result(timeout=LONG)) == expected(train(0)) for answer in waiting)


def test_an_error_like_no_memory_fails_its_own_request_only(
    patient: Running, pool: ThreadPoolExecutor
) -> None:
    held = hold(patient, pool)
    values = [ROW, BROKEN, ROW, ROW]  # they wait together, and so are predicted together
    waiting = [pool.submit(patient.post, value) for value in values]
    until(lambda: patient.metric("queue_length") == 4)
    patient.gate.touch()
    assert held.result(timeout=LONG).status_code == 200
    for value, future in zip(values, waiting, strict=True):
        answer = future.result(timeout=LONG)
        if value == BROKEN:
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "secret" not in answer.text
        else:
            assert shown(answer) == expected(train(0))
    assert "no room for /secret/path" in (patient.folder / "log").read_text()


def test_a_folder_replaced_under_load_loses_no_request(
    patient: Running, pool: ThreadPoolExecutor
) -> None:
    models = [train(0), train(1)]
    allowed = [expected(model) for model in models]
    assert allowed[0] != allowed[1]
    done = threading.Event()

    def ask() -> list[tuple[int, list[float]]]:
        found = []
        with httpx.Client(base_url=f"http://127.0.0.1:{patient.port}", timeout=LONG) as client:
            while not done.is_set():
                answer = client.post("/predict", json=body(ROW))
                found.append((answer.json().get("version", 0), shown(answer)))
        return found

    asking = [pool.submit(ask) for _ in range(3)]
    try:
        for i in range(1, 6):
            before = patient.metric("model_version")
            viewgap.save_model(models[i % 2], patient.folder / "m", overwrite=True)
            until(lambda before=before: patient.metric("model_version") > before)  # type: ignore[misc]
            until(lambda i=i: shown(patient.post(ROW)) == allowed[i % 2])  # type: ignore[misc]
    finally:
        done.set()
    answers = [answer for future in asking for answer in future.result(timeout=LONG)]
    assert all(answer in allowed for _, answer in answers)
    by_version: dict[int, set[tuple[float, ...]]] = {}
    for version, answer in answers:
        by_version.setdefault(version, set()).add(tuple(answer))
    assert all(len(found) == 1 for found in by_version.values())  # the version says which it was


def test_a_folder_damaged_under_load_keeps_the_old_model(patient: Running) -> None:
    before = shown(patient.post(ROW))
    for name in ("weights.safetensors", "model.json"):
        (patient.folder / "m" / name).write_bytes(b"broken")
        until(lambda: patient.client.get("/ready").json()["models"]["m"]["problem"] is not None)
        assert shown(patient.post(ROW)) == before
    viewgap.save_model(train(2), patient.folder / "m", overwrite=True)
    until(lambda: patient.client.get("/ready").json()["models"]["m"]["problem"] is None)
    assert shown(patient.post(ROW)) == expected(train(2))


# ---------------------------------------------------------------------- the end


def test_sigterm_answers_what_is_running_and_what_waits(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with service(tmp_path, timeout=LONG) as running:
        held = hold(running, pool)
        waiting = [pool.submit(running.post, ROW) for _ in range(3)]
        until(lambda: running.metric("queue_length") == 3)
        running.client.close()
        running.stop()
        until(lambda: not accepts(running))
        running.gate.touch()
        assert held.result(timeout=LONG).status_code == 200
        assert all(shown(answer.result(timeout=LONG)) == expected(train(0)) for answer in waiting)
        assert running.process.wait(timeout=LONG) == 0


def accepts(running: Running) -> bool:
    """Whether new connections are taken."""
    try:
        connect(running).close()
    except OSError:
        return False
    return True
