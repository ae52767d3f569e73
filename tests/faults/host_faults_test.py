"""Unmodified llama.cpp programs with the plugin when memory is limited, a slot file is cut, or a signal comes while they load.

Environment: SWIVEL, SWIVEL_TEST_PLUGIN and SWIVEL_TEST_LLAMA are set by ctest. SWIVEL_MODEL_S names SmolLM2-135M (tools/model S), the
server is that of `tools/llama llama-server`, else SWIVEL_HOST_SKULK's (tools/host skulk). What is not there is skipped."""
import contextlib
import http.client
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import server

LLAMA = pathlib.Path(os.environ["SWIVEL_TEST_LLAMA"])
MODEL = os.environ.get("SWIVEL_MODEL_S", "")
PROGRAM = server.find_server()
needs_model = unittest.skipUnless(MODEL, "SWIVEL_MODEL_S is not named in the environment")
needs_server = unittest.skipUnless(MODEL and PROGRAM, "SWIVEL_MODEL_S is not named, or there is no llama-server (tools/llama llama-server, tools/host skulk)")
PROMPT = "The history of the city of Rome begins with the kings. " * 30


class MemoryLimit(unittest.TestCase):
    @needs_model
    def test_a_cache_that_does_not_fit_is_refused_at_the_start(self):
        """Address space of 1 GiB holds the model and its buffers, not 1440 MiB of rows."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        command = [server.SWIVEL, "exec", "--kv", "balanced", LLAMA / "bin/llama-completion", "-m", MODEL, "-p", "Hello", "-n", "4", "-no-cnv", "-t", "2", "-fit", "off"]
        result = subprocess.run(command + ["-c", "65536"], env=server.environment(), preexec_fn=limit, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertGreater(result.returncode, 0, f"ended by a signal: {result.stderr[-1500:]}")
        self.assertRegex(result.stderr, r"swivel: (cache_[kv]_l\d+: )?cannot reserve \d+ bytes of address space \(the process is limited to 1073741824: ulimit -v\)")
        small = subprocess.run(command + ["-c", "1024"], env=server.environment(), preexec_fn=limit, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        self.assertEqual(small.returncode, 0, small.stderr[-1500:])


class SlotFiles(unittest.TestCase):
    @needs_server
    def test_files_that_were_cut_off(self):
        """llama-server writes slot files in place, so a kill while it does leaves a part of one. A part without a whole head is refused; at one that is cut
        further behind llama.cpp's own reader gives up and the server ends, with and without the plugin. The next one restores a whole file."""
        with tempfile.TemporaryDirectory() as folder:
            arguments = (PROGRAM, MODEL, "-c", 2048, "-np", 1, "--slot-save-path", folder)
            with server.Server(*arguments) as host:
                self.ready(host)
                first = host.complete(PROMPT)
                self.assertEqual(host.post("/slots/0?action=save", {"filename": "slot"})[0], 200)
                whole = pathlib.Path(folder, "slot").read_bytes()
                for size in (0, 10):
                    pathlib.Path(folder, "cut").write_bytes(whole[:size])
                    status, answer = host.post("/slots/0?action=restore", {"filename": "cut"})
                    self.assertEqual(status, 400, answer)
                    self.assertIsNone(host.process.poll(), "the server lives")
                    self.assertEqual(host.complete(PROMPT), first, f"after a file of {size} bytes")
                self.assertEqual(host.stop(), 0)
            pathlib.Path(folder, "cut").write_bytes(whole[:len(whole) // 2])
            ends = []
            for kv in ("balanced", None):
                with server.Server(*arguments, kv=kv, GGML_NO_BACKTRACE="1") as host:
                    self.ready(host)
                    with contextlib.suppress(OSError, http.client.HTTPException):
                        host.post("/slots/0?action=restore", {"filename": "cut"})
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        host.process.wait(3)
                    ends.append(host.process.poll())
            self.assertEqual(ends[0], ends[1], "with the plugin as without")
            with server.Server(*arguments) as host:
                self.ready(host)
                status, answer = host.post("/slots/0?action=restore", {"filename": "slot"})
                self.assertEqual(status, 200, answer)
                self.assertEqual(host.complete(PROMPT), first)

    def ready(self, host):
        try:
            host.wait_until_ready()
        except server.Unsupported as reason:
            self.skipTest(str(reason))


class Signals(unittest.TestCase):
    @needs_server
    def test_while_loading(self):
        """By the signal or with a status of its own, soon, and never by a crash."""
        loaded = 0
        clean = {0, 1, 130, 143, -signal.SIGTERM, -signal.SIGINT}
        for number in (signal.SIGTERM, signal.SIGINT):
            for delay in (0.02, 0.1, 0.2, 0.4, 0.8):
                host = server.Server(PROGRAM, MODEL, "-c", 4096)
                with host:
                    time.sleep(delay)
                    host.process.send_signal(number)
                    try:
                        status = host.process.wait(60)
                    except subprocess.TimeoutExpired:
                        self.fail(f"hangs after {number.name} at {delay} s: {host.said()[-1500:]}")
                    if status == -signal.SIGILL:
                        self.skipTest("llama-server meets an instruction that this processor lacks")
                    loaded += "loaded into ggml" in host.said()
                    self.assertIn(status, clean, f"{number.name} at {delay} s: {host.said()[-1500:]}")
        self.assertGreater(loaded, 4, "most signals came while or after the plugin was loaded")


if __name__ == "__main__":
    unittest.main()
