"""Clients that send one request after the other to a server."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx

from raw_http import until


class Load:
    """Clients that send requests until the block ends, or no connection is accepted.

    Attributes:
        orders: the positions of documents in each answer.
        errors: the statuses of other responses, and the names of exceptions.
    """

    def __init__(self, url, body, clients=4):
        self.orders, self.errors = [], []
        self._url, self._body = url + "/v1/rerank", body
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(clients)
        self._clients = [self._pool.submit(self._send) for _ in range(clients)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        self.join()
        self._pool.shutdown()

    def join(self):
        """Wait until no client sends any more."""
        for client in self._clients:
            client.result(240)

    def until(self, count):
        """Wait for this number of further answers."""
        wanted = len(self.orders) + count
        until(lambda: len(self.orders) >= wanted, 240)

    def _send(self):
        with httpx.Client(trust_env=False, timeout=120) as client:
            while not self._stop.is_set():
                try:
                    response = client.post(self._url, json=self._body)
                except httpx.TransportError as error:
                    self.errors.append(type(error).__name__)
                    if isinstance(error, httpx.ConnectError):
                        return
                    continue
                if response.status_code == 200:
                    self.orders.append([row["index"] for row in response.json()["results"]])
                else:
                    self.errors.append(response.status_code)
