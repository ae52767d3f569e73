"""Two machines on one: an rpc-server each, in a network namespace of its own behind a veth pair, so that traffic can be counted. Where namespaces are
not permitted: two ports of this machine."""
import contextlib
import itertools
import os
import pathlib
import socket
import subprocess
import tempfile
import time

from server import SWIVEL, environment, free_port


def namespaces_permitted():
    """Empty, or why not."""
    name = f"swivel-try-{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    except OSError as error:
        return f"ip: {error.strerror}"
    if made.returncode != 0:
        return made.stderr.strip() or "ip netns add fails"
    pair = subprocess.run(["ip", "link", "add", f"swt{os.getpid()}", "type", "veth", "peer", "name", "eth0", "netns", name], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return "" if pair.returncode == 0 else pair.stderr.strip()


_made = itertools.count()


class Node:
    """`kv=None`: an rpc-server without the plugin."""

    def __init__(self, number, program, kv, namespaces):
        unique = f"{os.getpid() % 100000}n{next(_made)}"
        self.namespace = f"swivel{unique}" if namespaces else None
        self.link = f"swv{unique}"
        self.log = tempfile.TemporaryFile("w+")
        inside = []
        self.host, self.port = "127.0.0.1", free_port()
        if namespaces:
            self.host, self.port = f"10.231.{number}.2", 50052
            for command in (f"ip netns add {self.namespace}",
                            f"ip link add {self.link} type veth peer name eth0 netns {self.namespace}",
                            f"ip addr add 10.231.{number}.1/30 dev {self.link}", f"ip link set {self.link} up",
                            f"ip -n {self.namespace} addr add {self.host}/30 dev eth0", f"ip -n {self.namespace} link set eth0 up",
                            f"ip -n {self.namespace} link set lo up"):
                subprocess.run(command.split(), check=True, capture_output=True)
            inside = ["ip", "netns", "exec", self.namespace]
        start = [SWIVEL, "exec", "--kv", kv] if kv else []
        self.process = subprocess.Popen([*inside, *start, str(program), "-H", self.host, "-p", str(self.port), "-t", "1"], env=environment(), stdout=self.log,
                                        stderr=self.log, stdin=subprocess.DEVNULL)
        try:
            self.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def wait_until_ready(self):
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), timeout=1):
                return
            if self.process.poll() is not None:
                raise AssertionError("rpc-server ended early: " + self.said())
            time.sleep(0.1)
        raise AssertionError("rpc-server does not answer: " + self.said())

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def traffic(self):
        """Bytes from and to the node, or None where they are not counted."""
        if self.namespace is None:
            return None
        statistics = pathlib.Path(f"/sys/class/net/{self.link}/statistics")
        return tuple(int((statistics / name).read_text()) for name in ("rx_bytes", "tx_bytes"))

    def peak_bytes(self):
        """Of anonymous memory and files, the most so far."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.kill()
        if self.namespace is not None:
            subprocess.run(["ip", "netns", "del", self.namespace], capture_output=True)  # and the pair with it
        self.log.close()


@contextlib.contextmanager
def two_nodes(program, kv="balanced", namespaces=True):
    with contextlib.ExitStack() as stack:
        nodes = []
        for number in (1, 2):
            nodes.append(Node(number, program, kv, namespaces))
            stack.callback(nodes[-1].close)
        yield nodes
