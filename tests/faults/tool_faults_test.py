"""The tool's own files when the disk is full, when it is killed, and when they are damaged: the old file stays, and the error says why.

Environment (set by ctest): SWIVEL. What runs a model is skipped unless SWIVEL_MODEL_S names SmolLM2-135M (tools/model S)."""
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time
import unittest

SWIVEL = os.environ["SWIVEL"]
MODEL = os.environ.get("SWIVEL_MODEL_S", "")
needs_model = unittest.skipUnless(MODEL, "SWIVEL_MODEL_S is not named in the environment")


def no_file_above(size):
    """A full disk, as a limit on the size of files; the default action of its signal would end the program without a word."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.home = pathlib.Path(self.folder.name)

    def swivel(self, *args, before=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SWIVEL", "GGML_", "LLAMA_"))}
        return subprocess.run([SWIVEL, *map(str, args)], env={**environment, "HOME": str(self.home)}, capture_output=True, text=True, timeout=250,
                              stdin=subprocess.DEVNULL, preexec_fn=before, restore_signals=False)

    def fails_and_keeps(self, result, path, old, reason):
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(str(path), result.stderr)
        self.assertIn(reason, result.stderr)
        self.assertEqual(path.read_bytes(), old)
        self.assertEqual([p.name for p in path.parent.iterdir() if ".tmp." in p.name], [], "nothing half-written is left")


class FullDisk(Case):
    def test_reports(self):
        page = self.home / "page.html"
        page.write_bytes(b"old")
        command = ["distortion", "--codecs", "turbo3", "--head-dim", "64", "--vectors", "256", "--no-time", "--html", page]
        self.fails_and_keeps(self.swivel(*command, before=no_file_above(1000)), page, b"old", "File too large")
        self.assertEqual(self.swivel(*command).returncode, 0, "with room it is written")
        self.assertNotEqual(page.read_bytes(), b"old")

    def test_a_small_file_system(self):
        disk = self.home / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", disk], capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest("mounting a file system is not permitted here: " + mounted.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        page = disk / "page.html"
        page.write_bytes(b"old")
        result = self.swivel("distortion", "--codecs", "turbo3,turbo4", "--head-dim", "64,128", "--vectors", "256", "--no-time", "--html", page)
        self.fails_and_keeps(result, page, b"old", "No space left on device")

    @needs_model
    def test_calibrations(self):
        target = self.home / "m.swivel"
        command = ["calibrate", "-m", MODEL, "-c", "256", "--chunks", "1", "-o", target]
        self.assertEqual(self.swivel(*command).returncode, 0)
        old = target.read_bytes()
        self.fails_and_keeps(self.swivel(*command, before=no_file_above(4096)), target, old, "File too large")

    @needs_model
    def test_states_of_an_evaluation(self):
        text = self.home / "text"
        text.write_text("The king and the queen walked along the river. " * 60)
        result = self.swivel("eval", "-m", MODEL, "-f", text, "-c", "256", "--chunks", "1", "--kv", "turbo4", "--no-speed", "--greedy", "0", "--decode-tokens", "0",
                             "--state", self.home / "state", before=no_file_above(64))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(f"cannot write '{self.home / 'state'}': File too large", result.stderr)


class Killed(Case):
    @needs_model
    def test_a_calibration_is_the_old_or_the_new_one(self):
        target = self.home / "m.swivel"
        command = [SWIVEL, "calibrate", "-m", MODEL, "-c", "256", "--chunks", "1", "-o", str(target)]
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        whole = time.monotonic() - began
        finished = 0
        for step in range(1, 5):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            try:
                finished += process.wait(whole * step / 4) == 0
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self.assertEqual(self.swivel("calibrate", "--info", target).returncode, 0, f"damaged by a kill after {step}/4 of a run")
        self.assertLess(finished, 4, "nothing was killed")


class Damaged(Case):
    def test_a_calibration_file(self):
        bad = self.home / "bad.swivel"
        for content in (b"", b"SWIVELKM", b"SWIVELKM" + bytes(200), os.urandom(500)):
            bad.write_bytes(content)
            result = self.swivel("calibrate", "--info", bad)
            self.assertEqual(result.returncode, 1, content[:20])
            self.assertIn(str(bad), result.stderr)


if __name__ == "__main__":
    unittest.main()
