"""Unmodified llama.cpp programs with the plugin on a real model.

Environment: SWIVEL, SWIVEL_TEST_PLUGIN and SWIVEL_TEST_LLAMA are set by ctest. SWIVEL_MODEL_S names SmolLM2-135M (tools/model S);
SWIVEL_HOST_SKULK, SWIVEL_HOST_PY_SYNC and SWIVEL_HOST_XLLAMACPP name prebuilt hosts (tools/host NAME). What is not named is skipped.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

SWIVEL = os.environ["SWIVEL"]
PLUGIN = os.environ["SWIVEL_TEST_PLUGIN"]
LLAMA = pathlib.Path(os.environ["SWIVEL_TEST_LLAMA"])
MODEL = os.environ.get("SWIVEL_MODEL_S", "")
HOSTS = {name: os.environ.get(f"SWIVEL_HOST_{name}", "") for name in ("SKULK", "PY_SYNC", "XLLAMACPP")}

TEXT = pathlib.Path(__file__).parents[2] / "docs" / "evaluation.md"


def environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SWIVEL", "GGML_", "LLAMA_"))}
    return {**clean, "SWIVEL_PLUGIN": PLUGIN}


def run(*args):
    return subprocess.run([str(a) for a in args], env=environment(), capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)


def needs(value, what):
    return unittest.skipUnless(value, f"{what} is not named in the environment")


class Programs(unittest.TestCase):
    """The pinned build's own programs through `swivel exec`."""

    def check(self, result, splits=True):
        self.assertEqual(result.returncode, 0, result.stderr[-2000:])
        own_lines = "\n".join(line for line in result.stderr.splitlines() if line.startswith("swivel"))
        self.assertIn("kv k=turbo4,v=turbo4", own_lines)
        self.assertRegex(own_lines, r"KV cache 60 tensors, k=turbo4 v=turbo4, 4\.25 bits per value")
        if splits:
            self.assertTrue(re.search(r"splits = 1\b", result.stderr + result.stdout), "the graph was split")

    @needs(MODEL, "SWIVEL_MODEL_S")
    def test_bench(self):
        result = run(SWIVEL, "exec", "--kv", "turbo4", LLAMA / "bin/llama-bench", "-m", MODEL, "-p", 32, "-n", 4, "-r", 1, "-t", 2, "-o", "json")
        self.check(result, splits=False)
        self.assertEqual({row["backends"] for row in json.loads(result.stdout)}, {"SWIVEL"})

    @needs(MODEL, "SWIVEL_MODEL_S")
    def test_completion(self):
        result = run(SWIVEL, "exec", "--kv", "turbo4", LLAMA / "bin/llama-completion", "-m", MODEL, "-p", "The capital of France is", "-n", 8,
                     "-no-cnv", "--temp", 0, "-t", 2, "-lv", 4)
        self.check(result)
        self.assertIn("Paris", result.stdout)

    @needs(MODEL, "SWIVEL_MODEL_S")
    def test_perplexity(self):
        common = [LLAMA / "bin/llama-perplexity", "-m", MODEL, "-f", TEXT, "-c", 256, "--chunks", 2, "-t", 2, "-lv", 4]
        result = run(SWIVEL, "exec", "--kv", "turbo4", *common)
        stock = run(*common, "-fa", "on")
        self.check(result)
        final = [float(re.search(r"PPL = ([0-9.]+)", r.stderr + r.stdout).group(1)) for r in (result, stock)]
        self.assertLess(abs(final[0] / final[1] - 1), 0.15, final)


class PrebuiltServer(unittest.TestCase):
    """A llama-server of another date and backend API that nobody here compiled."""

    @needs(MODEL and HOSTS["SKULK"], "SWIVEL_MODEL_S or SWIVEL_HOST_SKULK")
    def test_four_chats_at_once(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with tempfile.TemporaryFile("w+") as log:
            server = subprocess.Popen([SWIVEL, "exec", f"{HOSTS['SKULK']}/llama-server", "-m", MODEL, "-ctk", "turbo3", "-ctv", "turbo4", "-c", "8192",
                                       "-np", "4", "-t", "2", "--host", "127.0.0.1", "--port", str(port)],
                                      env=environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                self.wait_until_ready(server, port)
                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    answers = list(pool.map(lambda _: self.chat(port), range(4)))
            finally:
                server.terminate()
                server.wait(30)
            log.seek(0)
            said = log.read()
        self.assertIn("backend API 2", said)
        self.assertRegex(said, r"k=turbo3 v=turbo4, 3\.75 bits per value, 42\.\d MiB where f16 takes 180\.0 MiB")
        for answer in answers:
            self.assertIn("Paris", answer)

    def dies_alone(self):
        """Whether the host ends by SIGILL when nothing of ours is in its process."""
        command = [f"{HOSTS['SKULK']}/llama-server", "-m", MODEL, "-c", "512", "-t", "2", "--host", "127.0.0.1", "--port", "0"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("SWIVEL", "GGML_BACKEND"))}
        try:
            return subprocess.run(command, env=clean, capture_output=True, stdin=subprocess.DEVNULL, timeout=60).returncode == -signal.SIGILL
        except subprocess.TimeoutExpired:
            return False

    def wait_until_ready(self, server, port):
        for _ in range(240):
            if server.poll() == -signal.SIGILL and self.dies_alone():
                self.skipTest("the prebuilt llama-server meets an instruction that this processor lacks, without the plugin too")
            self.assertIsNone(server.poll(), "llama-server ended early")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                    return
            except OSError:
                time.sleep(0.5)
        self.fail("llama-server did not become ready")

    def chat(self, port):
        body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 16, "temperature": 0}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)["choices"][0]["message"]["content"]


class Doctor(unittest.TestCase):
    """The plugin is accepted by prebuilt libraries of both backend APIs."""

    def accepted(self, host, api):
        result = run(SWIVEL, "doctor", host, "-o", "json")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn(f'"backend_api": {api}', result.stdout)

    @needs(HOSTS["SKULK"], "SWIVEL_HOST_SKULK")
    def test_skulk(self):
        self.accepted(HOSTS["SKULK"], 2)

    @needs(HOSTS["PY_SYNC"], "SWIVEL_HOST_PY_SYNC")
    def test_py_sync(self):
        self.accepted(HOSTS["PY_SYNC"], 3)

    @needs(HOSTS["XLLAMACPP"], "SWIVEL_HOST_XLLAMACPP")
    def test_xllamacpp(self):
        self.accepted(HOSTS["XLLAMACPP"], 3)


if __name__ == "__main__":
    unittest.main()
