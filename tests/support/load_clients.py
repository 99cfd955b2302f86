"""Clients that send one request after the other to a server."""

import threading

import httpx

from raw_http import until


class Load:
    """Clients that send requests until the block ends, or no connection is accepted.

    Attributes:
        orders: the positions of documents in each answer.
        errors: the statuses of other responses, and the names of exceptions.
        refused: number of clients whose connection was not accepted.
    """

    def __init__(self, url, body, clients=4):
        self.orders, self.errors, self.refused = [], [], 0
        self._url, self._body = url + "/v1/rerank", body
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send) for _ in range(clients)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self.join()

    def join(self):
        """Wait until no client sends any more."""
        for thread in self._threads:
            thread.join(240)
            assert not thread.is_alive()

    def until(self, count):
        """Wait for this number of further answers."""
        wanted = len(self.orders) + count
        until(lambda: len(self.orders) >= wanted, 240)

    def _send(self):
        with httpx.Client(trust_env=False, timeout=120) as client:
            while not self._stop.is_set():
                try:
                    response = client.post(self._url, json=self._body)
                except httpx.ConnectError:
                    with self._lock:
                        self.refused += 1
                    return
                except httpx.TransportError as error:
                    self.errors.append(type(error).__name__)
                    continue
                if response.status_code == 200:
                    self.orders.append([row["index"] for row in response.json()["results"]])
                else:
                    self.errors.append(response.status_code)
