"""swivel compare as a user and a CI script start it, on evaluations made up here; and what swivel eval refuses before any work.

Environment (set by ctest): SWIVEL the program, SWIVEL_TEST_PLUGIN libggml-swivel.so."""
import base64
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

SWIVEL = os.environ["SWIVEL"]
PLUGIN = os.environ["SWIVEL_TEST_PLUGIN"]


def swivel(*args):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SWIVEL", "GGML_", "LLAMA_"))}
    return subprocess.run([SWIVEL, *args], env={**env, "SWIVEL_PLUGIN": PLUGIN}, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL)


def row(kv, scale, positions=1023):
    values = [scale * (0.01 + 0.001 * (i % 7)) for i in range(positions)]
    return {"kv": kv, "bits_per_value": 4.25, "kld": {"mean": sum(values) / len(values), "p99": max(values), "max": max(values)},
            "same_top1": 1 - scale / 10, "log_ppl_ratio": scale / 100, "decode_kld": {"mean": None},
            "kld_of_positions": base64.b64encode(struct.pack(f"<{positions}f", *values)).decode()}


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="swivel-cli-")
        self.addCleanup(shutil.rmtree, self.folder)

    def saved(self, name, *rows, **more):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            json.dump({"model": "m", "text": "t", "n_ctx": 2048, "token_hash": "1", "runs": [1023], "decode_tokens": 0, "version": "0",
                       "weights": "as-is", "results": [{"kv": "f16", "kld": {"mean": None}}, *rows], **more}, file)
        return path

    def run_as(self, status, *args):
        out = swivel("compare", *args)
        self.assertEqual(out.returncode, status, out.stdout + out.stderr)
        return out.stdout + out.stderr

    def test_says_better_worse_and_what_it_cannot_tell(self):
        a = self.saved("a.json", row("turbo4", 1), row("turbo3", 5))
        b = self.saved("b.json", row("turbo4", 1.1), row("turbo3", 4))
        out = self.run_as(0, a, b)
        lines = {line.split("|")[1].strip(): line for line in out.splitlines() if line.startswith("|")}
        self.assertIn("worse (x1.1)", lines["turbo4"])
        self.assertIn("better (x0.8)", lines["turbo3"])
        self.assertNotIn("f16", lines)
        self.assertIn("not distinguishable", self.run_as(0, a, a))
        self.assertIn("worse (x5)", self.run_as(0, a, a, "--kv", "turbo4", "--with", "turbo3"))

    def test_a_limit_decides_the_status(self):
        a, b = self.saved("a.json", row("turbo4", 1)), self.saved("b.json", row("turbo4", 1.1))
        self.assertIn("within turbo4: kld +0.0013", self.run_as(0, a, b, "--limit", "kld=0.002"))
        self.assertIn("BEYOND turbo4: kld", self.run_as(1, a, b, "--limit", "kld=0.001"))
        self.assertIn("BEYOND turbo4: top1 +0.01", self.run_as(1, a, b, "--limit", "kld=0.002", "--limit", "top1=0.001"))
        self.assertIn("decode_kld was not measured", self.run_as(1, a, b, "--limit", "decode_kld=1"))
        gone = self.saved("gone.json", row("turbo3", 1), row("q4_0", 1))
        both = self.saved("both.json", row("turbo3", 1), row("turbo4", 1))
        self.assertIn("BEYOND turbo4: not in B", self.run_as(1, both, gone, "--limit", "kld=1"))

    def test_a_damaged_file_is_refused(self):
        a = self.saved("a.json", row("turbo4", 1))
        for runs in ([1023, 1023], [500], []):
            self.assertIn("is damaged", self.run_as(2, a, self.saved("b.json", row("turbo4", 1.1), runs=runs)))

    def test_a_limit_on_the_decode_path_needs_the_same_tokens(self):
        decoded = {**row("turbo4", 1), "decode_kld": {"mean": 0.1}}
        a, b = self.saved("a.json", decoded, decode_tokens=128), self.saved("b.json", decoded, decode_tokens=64)
        self.assertIn("128 and 64", self.run_as(2, a, b, "--limit", "decode_kld=1"))
        self.assertIn("within turbo4", self.run_as(0, a, a, "--limit", "decode_kld=1"))

    def test_what_is_nan_in_both_is_beyond_every_limit(self):
        nan = {**row("turbo4", 1), "kld": {"mean": None}, "kld_of_positions": row("turbo4", float("nan"))["kld_of_positions"]}
        a = self.saved("a.json", nan, row("turbo3", 1))
        self.assertIn("BEYOND turbo4", self.run_as(1, a, a, "--limit", "kld=1"))

    def test_other_tokens_cannot_be_paired(self):
        a = self.saved("a.json", row("turbo4", 1))
        b = self.saved("b.json", row("turbo4", 1.1), token_hash="2")
        out = self.run_as(0, a, b)
        self.assertIn("Not paired: other tokens", out)
        self.assertIn("not measured", out)
        self.assertIn("limit needs", self.run_as(2, a, b, "--limit", "kld=1"))

    def test_bad_input_is_2(self):
        a = self.saved("a.json", row("turbo4", 1))
        text = os.path.join(self.folder, "text")
        with open(text, "w") as file:
            file.write("hello")
        self.assertIn("does not exist", self.run_as(2, a, a + "x"))
        self.assertIn("not what swivel eval --json writes", self.run_as(2, text, a))
        self.assertIn("kld, kld_p99", self.run_as(2, a, a, "--limit", "bits=1"))
        self.assertIn("no cache turbo3; it has f16, turbo4", self.run_as(2, a, a, "--kv", "turbo3"))
        self.run_as(2, a)
        self.run_as(0, "--help")


class EvalArguments(unittest.TestCase):
    def test_are_checked_before_any_work(self):
        for args, part in [(["--stride", "100"], "would score tokens twice"), (["--score-from", "2047"], "leaves nothing"),
                           (["--reference", "turbo2"], "not one of the caches"), (["--decode-tokens", "2000"], "quarter of the context"),
                           (["--ubatch", "3"], "--ubatch"), (["-c", "512", "--greedy-tokens", "300"], "room for 256"), (["--stock", "q8_0,turbo4"], "--stock q8_0,turbo4"),
                           (["--stock", "none", "--reference", "q4_0"], "not one of the caches")]:
            out = swivel("eval", "-m", "none.gguf", "-f", "none.txt", *args)
            self.assertEqual(out.returncode, 1)
            self.assertIn(part, out.stderr)


if __name__ == "__main__":
    unittest.main()
