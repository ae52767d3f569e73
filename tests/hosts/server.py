"""A llama-server with the plugin in a test: started, asked, and ended whatever happens."""
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

SWIVEL = os.environ["SWIVEL"]
PLUGIN = os.environ["SWIVEL_TEST_PLUGIN"]


def find_server():
    """A llama-server: of the pinned llama.cpp (tools/llama llama-server), else a prebuilt one (tools/host skulk). Empty where there is none."""
    pinned = pathlib.Path(os.environ["SWIVEL_TEST_LLAMA"], "bin/llama-server")
    if pinned.exists():
        return str(pinned)
    prebuilt = os.environ.get("SWIVEL_HOST_SKULK", "")
    return f"{prebuilt}/llama-server" if prebuilt else ""


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SWIVEL", "GGML_", "LLAMA_"))}
    return {**clean, "SWIVEL_PLUGIN": PLUGIN, **more}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Unsupported(Exception):
    """The host itself does not run on this machine."""


class Server:
    """`kv=None`: without the plugin. `program`: a llama-server."""

    def __init__(self, program, model, *args, kv="balanced", **more_environment):
        self.port = free_port()
        self.log = tempfile.TemporaryFile("w+")
        start = [SWIVEL, "exec", "--kv", kv] if kv else []
        self.process = subprocess.Popen([*start, str(program), "-m", model, "-t", "2", "--host", "127.0.0.1", "--port", str(self.port), *map(str, args)],
                                        env=environment(**more_environment), stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.log.close()

    def stop(self, timeout=60):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def said(self):
        position = self.log.tell()
        self.log.seek(0)
        text = self.log.read()
        self.log.seek(position)
        return text

    def wait_until_ready(self, seconds=120):
        for _ in range(seconds * 4):
            if self.process.poll() is not None:
                if self.process.returncode == -4:
                    raise Unsupported("llama-server meets an instruction that this processor lacks")
                raise AssertionError("llama-server ended early: " + self.said()[-2000:])
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2):
                    return self
            except OSError:
                time.sleep(0.25)
        raise AssertionError("llama-server did not become ready")

    def post(self, path, body, timeout=240):
        """The status and the JSON of the answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def complete(self, prompt, tokens=16, **more):
        status, answer = self.post("/completion", {"prompt": prompt, "n_predict": tokens, "temperature": 0, "cache_prompt": True, **more})
        assert status == 200, answer
        return answer["content"]

    def resident_bytes(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
