"""A worker that runs on one machine at a time: `worker.py SOCKET ROLE`. Needs Python 3.9 alone."""

import http.client
import json
import signal
import socket
import sys
import threading
import time


def now():
    # Goes on while the machine sleeps.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Agent(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("agent")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Term:
    def __init__(self, path, role, told):
        self.agent, self.token = Agent(path), told["fencing_token"]
        self.url = f"/v1/roles/{role}/terms/{self.token}"
        self.pause = told["renew_every_seconds"]
        self.deadline, self.winding_down = 0.0, threading.Event()

    def may_act(self):
        """Whether to begin a piece of work. It has to end before the deadline."""
        return not self.winding_down.is_set() and now() < self.deadline

    def post(self, what):
        self.agent.request("POST", f"{self.url}/{what}")
        answer = self.agent.getresponse()
        return answer.status, answer.read()

    def renew(self):
        # The promise counts from the sending of the request, not from the answer.
        sent = now()
        status, body = self.post("renew")
        if status != 200:
            return False
        told = json.loads(body)
        self.deadline = sent + told["remaining_seconds"]
        return not told["winding_down"]

    def lead(self, work):
        worker = threading.Thread(target=work, args=(self,))
        try:
            if self.renew():
                worker.start()
            while worker.is_alive() and not self.winding_down.wait(self.pause) and self.renew():
                pass
        except (OSError, http.client.HTTPException) as error:  # the deadline stands
            print(f"lost the agent: {error}", file=sys.stderr)
        self.winding_down.set()
        if worker.ident:
            worker.join()
        try:
            self.agent.close()
            self.post("done")
        except (OSError, http.client.HTTPException):
            pass


def events(answer):
    event = None
    for line in answer:
        name, _, value = line.decode().strip().partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            yield event, json.loads(value)


def stand(path, role, work):
    stream, term, leading = Agent(path), None, None
    stream.request("POST", f"/v1/roles/{role}")
    answer = stream.getresponse()
    if answer.status != 200:
        sys.exit(answer.read().decode())
    try:
        for event, told in events(answer):
            if event == "promoted":
                term = Term(path, role, told)
                leading = threading.Thread(target=term.lead, args=(work,))
                leading.start()
            elif event in ("wind_down", "ended") and term and term.token == told["fencing_token"]:
                term.winding_down.set()
    finally:  # whoever closes the stream says that all work has ended
        if leading:
            term.winding_down.set()
            leading.join()
        answer.close()
        stream.close()


def work(term):
    while term.may_act():
        print(json.dumps({"token": term.token, "at": time.time()}), flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    # As a container's first process it would not get SIGTERM without a handler.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    stand(sys.argv[1], sys.argv[2], work)
