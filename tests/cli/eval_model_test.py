"""swivel eval with a real model: it agrees with llama-perplexity, and a run that was killed ends as one that was not.

Environment: SWIVEL, SWIVEL_TEST_PLUGIN and SWIVEL_TEST_LLAMA are set by ctest. SWIVEL_MODEL_S names SmolLM2-135M (tools/model S); skipped
without it, and the comparison without llama-perplexity (tools/llama --tools). The text is SWIVEL_TEXT, else the documentation of the pinned
llama.cpp."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SWIVEL = os.environ["SWIVEL"]
LLAMA = os.environ["SWIVEL_TEST_LLAMA"]
MODEL = os.environ.get("SWIVEL_MODEL_S", "")
PERPLEXITY = os.path.join(LLAMA, "bin", "llama-perplexity")
CONTEXT, CHUNKS = 512, 2


def clean(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SWIVEL", "GGML_", "LLAMA_"))}
    return {**env, "SWIVEL_PLUGIN": os.environ["SWIVEL_TEST_PLUGIN"], **more}


def text_path(folder):
    if os.environ.get("SWIVEL_TEXT"):
        return os.environ["SWIVEL_TEXT"]
    path = os.path.join(folder, "text")
    names = sorted(glob.glob(os.path.join(LLAMA, "src", "docs", "*.md")))
    with open(path, "w", encoding="utf-8") as out:
        for name in names:
            with open(name, encoding="utf-8", errors="replace") as file:
                out.write(file.read())
    return path


@unittest.skipUnless(MODEL, "SWIVEL_MODEL_S is not set; try SWIVEL_MODEL_S=$(tools/model S)")
class WithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="swivel-eval-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.text = text_path(cls.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, *args, chunks=CHUNKS, context=CONTEXT):
        # One thread: llama.cpp's threads wait for each other in loops, and this runs beside other tests.
        return [SWIVEL, "eval", "-m", MODEL, "-f", self.text, "-c", str(context), "--chunks", str(chunks), "-t", "1", "--no-speed", *args]

    def evaluate(self, name, *args, env=None, **more):
        out = subprocess.run(self.command("--json", self.path(name), *args, **more), env=clean(**(env or {})), capture_output=True, text=True)
        self.assertEqual(out.returncode, 0, out.stderr)
        with open(self.path(name)) as file:
            return json.load(file)


@unittest.skipUnless(os.access(PERPLEXITY, os.X_OK), "no llama-perplexity in the pinned llama.cpp; tools/llama --tools builds it")
class AgreesWithLlamaPerplexity(WithModel):
    def perplexity(self, *args, env=None):
        out = subprocess.run([PERPLEXITY, "-m", MODEL, "-f", self.text, "-c", str(CONTEXT), "--chunks", str(CHUNKS), "-t", "1", "-fa", "on",
                              *args], env=clean(**(env or {})), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(out.returncode, 0, out.stderr[-2000:])
        return out.stdout + out.stderr

    def number(self, pattern, text):
        """The first two numbers behind `pattern`: a figure and its error."""
        found = re.search(pattern + r"\s*:\s*(-?[\d.]+)\s*±\s*([\d.]+)", text)
        self.assertTrue(found, f"no '{pattern}' in:\n" + text[-3000:])
        return float(found.group(1)), float(found.group(2))

    def compare(self, env):
        base = self.path("base.kld")
        self.perplexity("--kl-divergence-base", base, env=env)
        ours = {row["kv"]: row for row in self.evaluate("ours.json", "--kv", "f16", "--decode-tokens", "0", "--greedy", "0", env=env)["results"]}
        figures = {}
        for kv in ["q8_0", "q4_0"]:
            text = self.perplexity("--kl-divergence-base", base, "--kl-divergence", "-ctk", kv, "-ctv", kv, env=env)
            row = ours[kv]
            ppl, ppl_error = self.number(r"Mean PPL\(Q\)", text)
            kld, kld_error = self.number(r"Mean\s+KLD", text)
            top, top_error = self.number(r"Same top p", text)
            delta, delta_error = self.number(r"Mean\s+Δp", text)
            # Both see the same tokens, so they agree far better than either knows the truth: the error is of the text, not of the figure.
            self.assertLess(abs(row["ppl"] - ppl), 0.02 * ppl_error + 5e-4 * ppl, (kv, row["ppl"], ppl))
            # Its file of logits has 16 bits, which is worth about 1e-5.
            self.assertLess(abs(row["kld"]["mean"] - kld), 0.25 * kld_error + 3e-5, (kv, row["kld"], kld))
            self.assertLess(abs(100 * row["same_top1"] - top), top_error, (kv, row["same_top1"], top))
            self.assertLess(abs(100 * row["mean_delta_p"] - delta), 0.25 * delta_error + 0.01, (kv, row["mean_delta_p"], delta))
            figures[kv] = row["kld"]["mean"]
        return figures

    def test_on_stock_types_with_and_without_rotation(self):
        rotated = self.compare({})
        plain = self.compare({"LLAMA_ATTN_ROT_DISABLE": "1"})
        self.assertGreater(plain["q4_0"], 1.1 * rotated["q4_0"])  # it did what it says


class GoesOnAfterAKill(WithModel):
    def figures(self, report):
        keys = ["kv", "kld", "decode_kld", "decode4_kld", "greedy", "tasks", "ppl", "same_top1", "kld_of_positions", "kld_max_at",
                "bits_per_value", "cache_bytes", "versus_reference"]
        return {"floor": report["floor"], "results": [{key: row[key] for key in keys} for row in report["results"]]}

    def test_ends_with_the_same_figures(self):
        args = ["--kv", "turbo3", "--decode-tokens", "32", "--greedy", "2", "--greedy-tokens", "8"]
        whole = self.evaluate("whole.json", *args, "--state", self.path("whole.state"), context=256, chunks=3)
        with open(self.path("whole.state")) as file:
            lines = sum(1 for _ in file)
        state = self.path("killed.state")
        process = subprocess.Popen(self.command(*args, "--state", state, context=256, chunks=3), env=clean(), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while process.poll() is None:
            time.sleep(0.05)
            if os.path.exists(state):
                with open(state) as file:
                    if sum(1 for _ in file) >= lines // 2:
                        break
        process.send_signal(signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL, "it ended before it could be killed")
        resumed = self.evaluate("resumed.json", *args, "--state", state, context=256, chunks=3)
        self.assertEqual(self.figures(resumed), self.figures(whole))

        # Other conditions are refused, with their names.
        out = subprocess.run(self.command(*args, "--state", state, "--ubatch", "64", context=256, chunks=3), env=clean(), capture_output=True,
                             text=True)
        self.assertEqual(out.returncode, 1)
        self.assertIn("--ubatch is 128 there and 64 now", out.stderr)


class Sensitivity(WithModel):
    def test_layers_alone_cost_less_than_all_together(self):
        report = self.evaluate("layers.json", "--kv", "turbo2", "--sensitivity", "turbo2", "--decode-tokens", "0", "--greedy", "0", chunks=1,
                               context=64)
        whole = next(row for row in report["results"] if row["kv"] == "turbo2")["kld"]["mean"]
        layers = report["sensitivity"]["layers"]
        self.assertEqual([layer["layer"] for layer in layers], list(range(30)))
        for layer in layers:
            for side in "kv":
                self.assertGreater(layer[side], 1e-5)
                self.assertLess(layer[side], whole)
        # The keys of a 2-bit rotation cost more than the values.
        self.assertGreater(sum(layer["k"] for layer in layers), sum(layer["v"] for layer in layers))


if __name__ == "__main__":
    unittest.main()
