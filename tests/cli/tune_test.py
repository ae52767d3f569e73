"""`swivel tune` as a user starts it.

Environment (set by ctest): SWIVEL the program, SWIVEL_TEST_PLUGIN libggml-swivel.so. What runs a model is skipped unless SWIVEL_MODEL_S names
SmolLM2-135M (tools/model S)."""
import json
import os
import re
import struct
import subprocess
import unittest

import tool_test

SWIVEL = os.environ["SWIVEL"]
PLUGIN = os.environ["SWIVEL_TEST_PLUGIN"]
MODEL = os.environ.get("SWIVEL_MODEL_S", "")
needs_model = unittest.skipUnless(MODEL, "SWIVEL_MODEL_S is not set; try SWIVEL_MODEL_S=$(tools/model S)")


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def gguf(**more):
    """The header of a model of two layers with one KV head of width 64."""
    keys = {"general.architecture": "llama"}
    keys.update({"llama." + k.replace("__", "."): v for k, v in {
        "block_count": 2, "context_length": 4096, "embedding_length": 128, "attention__head_count": 2, "attention__head_count_kv": 1, **more,
    }.items()})
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys))
    for name, value in keys.items():
        out += text(name) + (struct.pack("<II", 4, value) if isinstance(value, int) else struct.pack("<I", 8) + text(value))
    return out


class Case(tool_test.Case):
    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def swivel(self, *args):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SWIVEL", "GGML_", "LLAMA_", "XDG_"))}
        return subprocess.run([SWIVEL, *args], env={**clean, "SWIVEL_PLUGIN": PLUGIN}, capture_output=True, text=True, timeout=280,
                              stdin=subprocess.DEVNULL, cwd=self.folder)

    def tune(self, *args):
        return self.swivel("tune", *args)



class Refusals(Case):
    def test_arguments(self):
        good = ["-m", self.file("m.gguf", gguf()), "-f", self.file("t.txt", b"Once upon a time"), "-o", "m.swivel.toml"]
        self.fails(self.tune(*good), "exactly one of --bits X, --bytes N and --kld X")
        self.fails(self.tune(*good, "--bits", "3", "--kld", ".1"), "exactly one")
        self.fails(self.tune(*good, "--bits", "nine"), "nine")
        self.fails(self.tune(*good, "--bits", "3", "-c", "10"), "10")
        self.fails(self.tune(*good, "--bytes", "much"), "--bytes: 'much'")
        self.fails(self.tune(*good, "--bytes", "1G", "--ctx-size", "-1"), "--ctx-size")
        self.fails(self.tune(*good, "--bits", "3", "--calibration", "none.swivel"), "none.swivel")
        self.fails(self.tune(*good, "--bits", "3", "--calibration", "a,b"), "comma")
        self.fails(self.tune(*good[:4], "-o", "m.swivel", "--bits", "3"), "-o m.swivel", ".toml")
        self.fails(self.tune(*good[:4], "-o", "no/folder/m.toml", "--bits", "3"), "no/folder/m.toml")
        self.fails(self.tune("-m", "none.gguf", *good[2:], "--bits", "3"), "none.gguf")
        self.fails(self.tune(*good[:2], "-f", "none.txt", *good[4:], "--bits", "3"), "none.txt")
        self.assertEqual(sorted(os.listdir(self.folder)), ["m.gguf", "t.txt"])

    def test_limits_that_nothing_keeps_need_no_model(self):
        good = ["-m", self.file("m.gguf", gguf()), "-f", self.file("t.txt", b"Once upon a time"), "-o", "m.swivel.toml"]
        self.fails(self.tune(*good, "--bits", "2"), "the least that is tried is k=tcq2,v=tcq2", "2.20 bits")
        self.fails(self.tune(*good, "--bytes", "10k", "--ctx-size", "4k"), "the least that is tried is")


@needs_model
class WithAModel(Case):
    def setUp(self):
        super().setUp()
        words = "the cat sat on a mat and saw that no other cat had ever sat there before it went home to sleep until noon".split()
        lines = [" ".join(words[(i * 7 + j * j) % len(words)] for j in range(12)) + f" {i}." for i in range(160)]
        self.text = self.file("t.txt", "\n".join(lines).encode())

    def test_writes_a_spec_that_everything_takes(self):
        args = ["-m", MODEL, "-f", self.text, "--bits", "3.25", "-c", "512", "--chunks", "2", "--minutes", ".1", "--state", "s.jsonl",
                "-o", "m.swivel.toml", "--format", "json"]
        result = self.tune(*args)
        report = json.loads(self.succeeds(result))
        self.assertNotIn("\r", result.stderr)
        self.assertRegex(result.stderr, r"plan: \d+ to \d+ runs of one cache over 512 tokens, [\d.]+ s each")
        chosen = report["chosen"]
        self.assertEqual((report["chunks"], report["search_chunks"], report["context"]), (2, 1, 512))
        self.assertEqual(chosen["preset"], "balanced")
        self.assertLessEqual(chosen["bits_per_value"], 3.25)
        self.assertGreater(chosen["kld"], 0)
        self.assertIn(chosen["spec"], [row["spec"] for row in report["tried"]])
        for row in report["tried"]:
            self.assertTrue(row["fits"] and row["bits_per_value"] <= 3.25)
            self.assertGreater(row["kld"], 0)

        written = self.read("m.swivel.toml")
        for part in ("# Command: ", "--bits 3.25", "[expected]", "kld = ", "kld_error = ", "bits = 3.", "cache_bytes = ", "model_fingerprint = ", "text_hash = "):
            self.assertIn(part, written)
        # A comma in front of a key goes on with the spec of the file.
        sizes = json.loads(self.succeeds(self.swivel("size", "-m", MODEL, "-c", "2048", "--kv", "m.swivel.toml,window=64", "-o", "json")))
        self.assertIn("m.swivel.toml,window=64", [row["cache"] for row in sizes["caches"]])
        self.file("llama-cli", b"#!/bin/sh\n")
        os.chmod(self.path("llama-cli"), 0o755)
        self.assertIn(chosen["spec"], self.succeeds(self.swivel("exec", "--dry-run", "--kv", "m.swivel.toml", "./llama-cli")))
        out = self.succeeds(self.swivel("run", "-m", MODEL, "--kv", "m.swivel.toml", "-p", "Once upon a time", "-n", "4"))
        self.assertTrue(out.strip())

        # Again: nothing is measured, the same is chosen.
        state = self.read("s.jsonl")
        again = self.tune(*args)
        self.assertEqual(json.loads(self.succeeds(again))["tried"], report["tried"])
        self.assertEqual(self.read("s.jsonl"), state)
        self.assertIn("going on from s.jsonl", again.stderr)
        self.assertEqual(re.sub("date = .*", "", self.read("m.swivel.toml")), re.sub("date = .*", "", written))
        # Interrupted: a last line cut off and the one before it lost.
        self.file("s.jsonl", "".join(state.splitlines(keepends=True)[:-2]).encode() + b'{"cache": ')
        self.assertEqual(json.loads(self.succeeds(self.tune(*args)))["tried"], report["tried"])
        self.fails(self.tune(*args, "-t", "1"), "s.jsonl", "-t is")

    def test_a_limit_that_nothing_keeps_writes_no_file(self):
        result = self.tune("-m", MODEL, "-f", self.text, "--kld", "1e-6", "-c", "512", "--chunks", "2", "--minutes", ".1", "-o", "m.toml")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no file was written", result.stderr)
        self.assertIn("The limit is not kept", result.stdout)
        self.assertEqual(sorted(os.listdir(self.folder)), ["m.toml.state", "t.txt"])

    def test_texts_that_are_too_short(self):
        self.fails(self.tune("-m", MODEL, "-f", self.text, "--bits", "3.25", "-c", "4096", "-o", "m.toml"), "two chunks of 4096 are the least")


if __name__ == "__main__":
    unittest.main()
