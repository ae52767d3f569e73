"""`swivel calibrate` as a user starts it.

Environment (set by ctest): SWIVEL the program. What runs a model is skipped unless SWIVEL_MODEL_S names SmolLM2-135M (tools/model S)."""
import json
import os
import shutil
import struct
import subprocess
import time
import unittest

import tool_test

SWIVEL = os.environ["SWIVEL"]
MODEL = os.environ.get("SWIVEL_MODEL_S", "")
needs_model = unittest.skipUnless(MODEL, "SWIVEL_MODEL_S is not set; try SWIVEL_MODEL_S=$(tools/model S)")


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def gguf(keys, tensors):
    """A GGUF file whose tensors are vectors of 64 floats."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, value in keys.items():
        out += text(name) + (struct.pack("<II", 4, value) if isinstance(value, int) else struct.pack("<I", 8) + text(value))
    for i, name in enumerate(tensors):
        out += text(name) + struct.pack("<IQIQ", 1, 64, 0, 256 * i)
    out += bytes(-len(out) % 32)
    return out + struct.pack("<64f", *[1.0] * 64) * len(tensors)


def decoder(**more):
    keys = {"general.architecture": "llama"}
    keys.update({"llama." + k.replace("__", "."): v for k, v in {
        "block_count": 2, "context_length": 4096, "embedding_length": 64, "attention__head_count": 2, "attention__head_count_kv": 1, **more,
    }.items()})
    return keys


class Case(tool_test.Case):
    def environment(self, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SWIVEL", "GGML_", "LLAMA_", "XDG_"))}
        return {**clean, "HOME": self.folder, **env}

    def calibrate(self, *args, **env):
        return subprocess.run([SWIVEL, "calibrate", *args], env=self.environment(**env), capture_output=True, text=True, timeout=250,
                              stdin=subprocess.DEVNULL)

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()


class Refusals(Case):
    def test_arguments(self):
        self.fails(self.calibrate(), "which model?")
        self.fails(self.calibrate("-m", self.path("none.gguf")), "none.gguf: No such file")
        self.fails(self.calibrate("-m", self.file("text.gguf", b"Once upon a time")), "not a GGUF file")
        self.fails(self.calibrate("-m", "m.gguf", "-c", "10"), "10")
        self.fails(self.calibrate("-m", "m.gguf", "--chunks", "0"), "0")

    def test_models(self):
        norm = ["output_norm.weight"]
        self.fails(self.calibrate("-m", self.file("no_norm.gguf", gguf(decoder(), []))), "neither output_norm.weight nor")
        narrow = self.file("narrow.gguf", gguf(decoder(embedding_length=48), norm))
        self.fails(self.calibrate("-m", narrow), "heads of width 24", "multiples of 16")
        large = self.file("large.gguf", gguf(decoder(embedding_length=65536, attention__head_count=256, attention__head_count_kv=256), norm))
        self.fails(self.calibrate("-m", large, "-c", "1048576"), "take a smaller -c")

    def test_output(self):
        model = self.file("m.gguf", gguf(decoder(), ["output_norm.weight"]))
        before = self.read(model)
        self.fails(self.calibrate("-m", model, "-o", model), "is not a calibration file; it is left as it is")
        self.assertEqual(self.read(model), before)
        self.fails(self.calibrate("-m", model, "-o", self.path("no/folder/m.swivel")), "no/folder/m.swivel")
        self.fails(self.calibrate("-m", model, HOME=""), "say where to write with -o")

    def test_info(self):
        self.fails(self.calibrate("--info", self.path("none.swivel")), "none.swivel: cannot be read")
        self.fails(self.calibrate("--info", self.file("m.swivel", b"Once upon")), "m.swivel: is not a calibration file")
        self.fails(self.calibrate("--info", "m.swivel", "-m", "m.gguf"), "--info reads a file")
        self.fails(self.calibrate("--info", "m.swivel", "-o", "csv"), "md or json")


@needs_model
class WithAModel(Case):
    def run_to(self, name, *args):
        out = self.succeeds(self.calibrate("-m", MODEL, "-c", "256", "-o", self.path(name), *args))
        self.assertEqual(out, self.path(name) + "\n")
        return self.read(self.path(name))

    def test_writes_the_default_file_and_tells_what_is_in_it(self):
        result = self.calibrate("-m", MODEL, "-c", "256", "--chunks", "1")
        path = self.succeeds(result).strip()
        self.assertEqual(os.path.dirname(path), self.path(".cache/swivel/calibration"))
        self.assertIn("90 KV heads in 30 layers, 256 tokens in 1 chunks (built-in text)", result.stderr)
        self.assertNotIn("\r", result.stderr)
        info = json.loads(self.succeeds(self.calibrate("--info", path, "-o", "json")))
        self.assertEqual(os.path.basename(path), info["fingerprint"] + ".swivel")
        self.assertEqual((info["chunks"], info["planned_chunks"], info["tokens"], info["chunk_tokens"]), (1, 1, 256, 256))
        self.assertEqual([layer["layer"] for layer in info["layers"]], list(range(30)))
        for layer in info["layers"]:
            self.assertEqual((layer["heads"], layer["d"]), (3, 64))
            self.assertGreater(layer["longest_mean"], 1)
            self.assertLess(layer["noise_full"], layer["noise_diagonal"])
            self.assertLess(layer["noise_diagonal"], 1)
            self.assertLess(1, layer["fewest_effective_keys"])
            self.assertLess(layer["fewest_effective_keys"], 253)
        table = self.succeeds(self.calibrate("--info", path))
        self.assertIn(info["fingerprint"], table)
        self.assertIn("| layer | KV heads |", table)
        # A damaged one is not shown.
        content = bytearray(self.read(path))
        content[len(content) // 2] ^= 1
        self.fails(self.calibrate("--info", self.file("damaged.swivel", bytes(content))), "checksum")
        self.fails(self.calibrate("--info", self.file("short.swivel", bytes(content[:-100]))), "should have")

    def test_goes_on_where_it_was_interrupted(self):
        whole = self.run_to("whole.swivel", "--chunks", "3")
        self.assertFalse(os.path.exists(self.path("whole.swivel.partial")))
        partial = self.path("m.swivel.partial")
        command = [SWIVEL, "calibrate", "-m", MODEL, "-c", "256", "--chunks", "3", "-o", self.path("m.swivel")]
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while not os.path.exists(partial) and process.poll() is None:
                time.sleep(.02)
            process.kill()
        self.assertTrue(os.path.exists(partial))
        shutil.copy(partial, self.path("other.swivel.partial"))
        result = self.calibrate(*command[2:])
        self.succeeds(result)
        self.assertRegex(result.stderr, r"going on from .*m\.swivel\.partial: [12] of 3 chunks are done")
        self.assertEqual(self.read(self.path("m.swivel")), whole)
        self.assertFalse(os.path.exists(partial))
        # Of other options: said, and not used.
        result = self.calibrate("-m", MODEL, "-c", "256", "--chunks", "1", "-o", self.path("other.swivel"))
        self.succeeds(result)
        self.assertIn("starting anew", result.stderr)

    def test_texts(self):
        words = self.file("words.txt", b"The quick brown fox jumps over the lazy dog. " * 20 + b"It does so for a living.\n" * 20)
        more = self.file("more.txt", b"for (int i = 0; i < n; ++i) sum += values[i] * weights[i];\n" * 20)
        self.fails(self.calibrate("-m", MODEL, "-f", words, "-c", "2048", "-o", self.path("m.swivel")), "fewer than one chunk of -c 2048")
        self.fails(self.calibrate("-m", MODEL, "-f", self.path("none.txt")), "none.txt' does not exist")
        self.fails(self.calibrate("-m", MODEL, "-f", self.file("empty.txt", b"")), "is empty")
        self.run_to("m.swivel", "-f", words, more, "--chunks", "2")
        info = json.loads(self.succeeds(self.calibrate("--info", self.path("m.swivel"), "-o", "json")))
        self.assertTrue(info["description"].endswith("; words.txt, more.txt"), info["description"])
        self.assertEqual(info["chunks"], 2)


if __name__ == "__main__":
    unittest.main()
