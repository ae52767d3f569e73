"""The subcommands bench, exec, size, info, codecs, plugin-path and doctor as a user starts them.

Environment (set by ctest): SWIVEL the program, SWIVEL_TEST_PLUGIN libggml-swivel.so, SWIVEL_TEST_LLAMA the pinned llama.cpp,
SWIVEL_TEST_MODULES a folder with plugins that misbehave. Models are headers made up here: no tensor data is needed.
"""
import csv
import io
import json
import os
import shutil
import stat
import struct
import subprocess
import tempfile
import unittest

SWIVEL = os.environ["SWIVEL"]
PLUGIN = os.environ["SWIVEL_TEST_PLUGIN"]
LLAMA = os.environ["SWIVEL_TEST_LLAMA"]
MODULES = os.environ["SWIVEL_TEST_MODULES"]


def swivel(*args, **env):
    """Runs the tool in an environment without any of the variables that matter to it, plus `env`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SWIVEL", "GGML_", "LLAMA_"))}
    clean.update(SWIVEL_PLUGIN=PLUGIN)
    clean.update({k: v for k, v in env.items() if v is not None})
    return subprocess.run([SWIVEL, *args], env=clean, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def gguf(keys, tensors=()):
    """A GGUF header. Keys hold an int (u32), a str, or a list of ints (i32)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, value in keys.items():
        out += text(name)
        if isinstance(value, int):
            out += struct.pack("<II", 4, value)
        elif isinstance(value, str):
            out += struct.pack("<I", 8) + text(value)
        else:
            out += struct.pack("<IIQ", 9, 5, len(value)) + b"".join(struct.pack("<i", v) for v in value)
    for name, shape in tensors:
        out += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape)
        out += struct.pack("<IQ", 1, 0)  # F16
    return out


def decoder(arch, **more):
    keys = {"general.architecture": arch, "general.file_type": 15}
    keys.update({f"{arch}.{k.replace('__', '.')}": v for k, v in {
        "block_count": 30, "context_length": 8192, "embedding_length": 576, "attention__head_count": 9,
        "attention__head_count_kv": 3, **more}.items()})
    return keys


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="swivel-cli-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, content, executable=False):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(content.encode() if isinstance(content, str) else content)
        if executable:
            os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    def model(self, keys=None, tensors=(), cut=None, name="m.gguf"):
        return self.file(name, gguf(keys or decoder("llama"), tensors)[:cut])

    def fails(self, result, *parts):
        self.assertEqual(result.returncode, 1, result.stderr + result.stdout)
        self.assertEqual(result.stdout, "")
        for part in parts:
            self.assertIn(part, result.stderr)

    def succeeds(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout


class Exec(Case):
    SCRIPT = '#!/bin/sh\necho "kv=$SWIVEL_KV path=$GGML_BACKEND_PATH"\necho "args=$*"\nexit ${STATUS:-0}\n'

    def program(self, name):
        return self.file(name, self.SCRIPT, executable=True)

    def test_replaces_the_process(self):
        out = swivel("exec", self.program("llama-server"), "-m", "a b.gguf", "-ctk", "turbo3", "-ctv", "turbo4", STATUS="7")
        self.assertEqual(out.returncode, 7)
        self.assertEqual(out.stdout, f"kv=k=turbo3,v=turbo4 path={PLUGIN}\nargs=--device SWIVEL -fa on -ngl 999 -m a b.gguf\n")
        self.assertIn("SWIVEL_KV=k=turbo3,v=turbo4", out.stderr)
        self.assertIn("'a b.gguf'", out.stderr)

    def test_help_of_the_program_is_the_programs(self):
        out = self.succeeds(swivel("exec", "--kv", "turbo3", self.program("llama-cli"), "--help", "--version"))
        self.assertIn("args=--device SWIVEL -fa on -ngl 999 --help --version\n", out)

    def test_found_in_path(self):
        self.program("llama-cli")
        out = self.succeeds(swivel("exec", "llama-cli", PATH=self.folder + ":/usr/bin:/bin"))
        self.assertIn("kv=k=tcq3,v=tcq3,transform=full,sinks=4,window=128", out)

    def test_dry_run_is_a_line_for_a_shell(self):
        line = self.succeeds(swivel("exec", "--dry-run", self.program("llama-cli"), "-p", "it's", "-ctk", "turbo2"))
        shell = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True)
        self.assertEqual(shell.stdout, f"kv=k=turbo2,v=f16 path={PLUGIN}\nargs=--device SWIVEL -fa on -ngl 999 -p it's\n")

    def test_bench_runs_for_each_pair(self):
        bench = self.program("llama-bench")
        out = swivel("exec", bench, "-ctk", "turbo3,turbo4", "-ctv", "turbo4", "-p", "64")
        lines = self.succeeds(out).splitlines()
        self.assertEqual([line.split()[0] for line in lines[::2]], ["kv=k=turbo3,v=turbo4", "kv=k=turbo4,v=turbo4"])
        self.assertEqual(lines[1], "args=-dev SWIVEL -fa 1 -ngl 999 -p 64")
        self.assertIn("runs 2 times", out.stderr)
        self.assertIn("run 2 of 2: k=turbo4,v=turbo4", out.stderr)
        failed = swivel("exec", bench, "-ctk", "turbo3,turbo4", STATUS="5")
        self.assertEqual((failed.returncode, failed.stdout.count("kv=")), (5, 1))

    def test_a_backend_in_the_path_is_chained(self):
        program = self.file("llama-cli", '#!/bin/sh\necho "$GGML_BACKEND_PATH|$SWIVEL_NEXT"\n', executable=True)
        out = swivel("exec", program, GGML_BACKEND_PATH="/other.so")
        self.assertEqual(self.succeeds(out), f"{PLUGIN}|/other.so\n")
        self.assertIn("Swivel loads that backend as SWIVEL_NEXT", out.stderr)

    def test_nothing_starts_on_errors(self):
        server = self.program("llama-server")
        self.fails(swivel("exec", server, "-ctk", "turb3"), "did you mean turbo3?", "q5_1")
        self.fails(swivel("exec", server, "-fa", "off"), "-fa off")
        self.fails(swivel("exec", server, GGML_BACKEND_PATH="/other.so", SWIVEL_NEXT="/third.so"), "/third.so")
        self.fails(swivel("exec", server, SWIVEL_PLUGIN="/nowhere.so"), "/nowhere.so")
        self.fails(swivel("exec"), "which program?")
        self.fails(swivel("exec", "llama-not-there"), "no program 'llama-not-there' in PATH")
        self.fails(swivel("exec", self.folder), "is a folder")
        self.fails(swivel("exec", self.file("llama-cli", "")), "not executable")

    def test_a_file_that_is_no_program(self):
        result = swivel("exec", self.file("llama-cli", b"\x7fELF nonsense", executable=True))
        self.assertEqual(result.returncode, 126)


class Size(Case):
    def caches(self, *args):
        report = json.loads(self.succeeds(swivel("size", "-o", "json", *args)))
        return report, {entry["cache"]: entry for entry in report["caches"]}

    def test_numbers_of_llama_cpp(self):
        report, caches = self.caches("-m", self.model(), "-c", "2048,65536")
        self.assertEqual(caches["llama.cpp f16"]["bytes"], {"2048": 45 << 20, "65536": 1440 << 20})
        self.assertEqual(caches["llama.cpp q8_0"]["bytes"]["2048"], (45 << 20) * 17 // 32)
        self.assertEqual(caches["turbo3"]["bits_per_value"], 3.25)
        self.assertEqual(report["trained_context"], 8192)

    def test_a_download_that_has_begun(self):
        whole = self.model(tensors=[("blk.0.attn_k.bias", [192])])
        size = os.path.getsize(whole)
        cut = self.model(tensors=[("blk.0.attn_k.bias", [192])], cut=size - 10, name="cut.gguf")
        report, caches = self.caches("-m", cut, "-c", "2048")
        self.assertEqual(caches["llama.cpp f16"]["bytes"]["2048"], 45 << 20)
        self.assertIn("weights is unknown", report["notes"][0])
        self.assertNotIn("longest_context", caches["turbo3"])
        self.fails(swivel("size", "-m", self.model(cut=100, name="begun.gguf")), "llama.block_count", "ends after 100 bytes")

    def test_hostile_files(self):
        self.fails(swivel("size", "-m", "/nowhere.gguf"), "/nowhere.gguf", "No such file")
        self.fails(swivel("size", "-m", self.folder), "not a regular file")
        self.fails(swivel("size", "-m", self.file("empty", b"")), "not a GGUF file")
        self.fails(swivel("size", "-m", self.file("other", b"PK\3\4" + bytes(100))), "not a GGUF file")
        lies = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 2**63)
        self.fails(swivel("size", "-m", self.file("lies", lies)), "ends after")
        self.fails(swivel("size", "-m", self.file("many", b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60))), "damaged")

    def test_sliding_windows_are_noted(self):
        keys = decoder("gemma3", block_count=18, embedding_length=640, attention__head_count=4, attention__head_count_kv=1,
                       attention__key_length=256, attention__value_length=256, attention__sliding_window=512)
        report, caches = self.caches("-m", self.model(keys), "-c", "4096")
        self.assertEqual(caches["llama.cpp f16"]["bytes"]["4096"], 27 << 20)  # 12 + 15 MiB in llama.cpp's log
        self.assertIn("15 of 18 layers see a sliding window of 512", report["notes"][0])
        _, four = self.caches("-m", self.model(keys), "-c", "4096", "-np", "4", "--kvu")
        self.assertEqual(four["llama.cpp f16"]["bytes"]["4096"], (12 << 20) + 15 * 2560 * 256 * 2 * 2)

    def test_memory(self):
        model = self.model(tensors=[("token_embd.weight", [1 << 19])])  # 1 MiB of F16
        report, caches = self.caches("-m", model, "--memory", "46M", "--kv", "turbo4")
        self.assertEqual(report["memory"], {"total": 46 << 20, "weights": 1 << 20, "cache": 45 << 20})
        self.assertEqual(caches["llama.cpp f16"]["longest_context"], 2048)
        self.assertEqual(list(caches), ["llama.cpp f16", "llama.cpp q8_0", "llama.cpp q4_0", "turbo4"])
        self.fails(swivel("size", "-m", model, "--memory", "much"), "--memory", "'much'", "16G")

    def test_specifications(self):
        _, caches = self.caches("-m", self.model(), "--kv", "turbo3,swivel:q8_0,q8_0,stock:q5_1", "--kv", "k=turbo4,v=turbo3,turbo2")
        self.assertEqual(list(caches)[3:], ["turbo3", "swivel:q8_0", "llama.cpp q5_1", "k=turbo4,v=turbo3", "turbo2"])
        self.assertEqual(caches["llama.cpp q5_1"]["bits_per_value"], 6)
        self.fails(swivel("size", "-m", self.model(), "--kv", "turbo9"), "turbo9", "turbo4")

    def test_wrong_arguments(self):
        self.fails(swivel("size", "-m", self.model(), "-c", "0"), "-c 0")
        self.fails(swivel("size", "-m", self.model(), "-c", "1,x"), "-c x")
        self.fails(swivel("size", "-m", self.model(), "-np", "0"), "-np 0")
        self.assertNotEqual(swivel("size", "-m", self.model(), "-o", "xml").returncode, 0)
        self.assertNotEqual(swivel("size").returncode, 0)

    def test_models_without_attention(self):
        self.fails(swivel("size", "-m", self.model(decoder("mamba"))), "no attention")
        self.fails(swivel("size", "-m", self.model(decoder("bert"))), "no KV cache")

    def test_latent_attention_is_explained(self):
        keys = decoder("deepseek2", attention__head_count_kv=1, attention__kv_lora_rank=512, attention__key_length=576,
                       attention__value_length=512, attention__key_length_mla=192, attention__value_length_mla=128)
        report, caches = self.caches("-m", self.model(keys), "-c", "256")
        self.assertEqual(caches["llama.cpp f16"]["bytes"]["256"], 30 * 256 * 576 * 2)
        self.assertIn("latent", report["notes"][0])

    def test_widths_that_cannot_be_served(self):
        keys = decoder("phi2", embedding_length=2560, attention__head_count=32, attention__head_count_kv=32)  # head width 80
        _, caches = self.caches("-m", self.model(keys), "-c", "256")
        self.assertIn("refused", caches["swivel:q8_0"])
        self.assertIn("bytes", caches["turbo3"])

    def test_formats(self):
        rows = list(csv.reader(io.StringIO(self.succeeds(swivel("size", "-m", self.model(), "-c", "512", "-o", "csv")))))
        self.assertEqual(rows[0], ["cache", "bits", "bytes_512", "longest_context"])
        self.assertTrue(all(len(row) == 4 for row in rows))
        page = self.succeeds(swivel("size", "-m", self.model(), "-c", "512", "--memory", "1G"))
        self.assertIn("| cache ", page)
        self.assertIn("longest context: 1.00 GiB of memory", page)


class Info(Case):
    def test_installation(self):
        info = json.loads(self.succeeds(swivel("info", "-o", "json")))
        self.assertEqual(info["plugin"], PLUGIN)
        self.assertIn("portable", info["targets_supported"])
        self.assertEqual(info["target"], info["targets_supported"][-1])
        self.assertEqual(json.loads(swivel("info", "-o", "json", SWIVEL_TARGET="portable").stdout)["target"], "portable")

    def test_bad_target_is_an_error_that_is_shown(self):
        result = swivel("info", SWIVEL_TARGET="avx9")
        self.assertEqual(result.returncode, 1)
        self.assertIn("unknown target 'avx9'", result.stdout)

    def test_model(self):
        keys = decoder("qwen2", embedding_length=896, attention__head_count=14, attention__head_count_kv=2)
        model = self.model(keys, tensors=[("blk.0.attn_k.bias", [128])])
        info = json.loads(self.succeeds(swivel("info", "-m", model, "-o", "json")))["model"]
        self.assertEqual((info["heads_q"], info["heads_kv"], info["k_width"], info["layers"]), ("14", "2", "64", 30))
        self.assertEqual(info["file_type"], "Q4_K - Medium")
        self.assertIn("blk.0.attn_k.bias", info["k_bias"])
        self.assertIn("K has a bias", info["notes"][0])
        self.assertIn("k bias               none", self.succeeds(swivel("info", "-m", self.model())))
        self.fails(swivel("info", "-m", "/nowhere"), "/nowhere")


class Small(Case):
    def test_codecs(self):
        table = self.succeeds(swivel("codecs"))
        self.assertIn("| turbo3 ", table)
        codecs = {c["name"]: c for c in json.loads(self.succeeds(swivel("codecs", "--head-dim", "80,128", "-o", "json")))}
        self.assertEqual(codecs["turbo3"]["bits_per_value"]["128"], 3.125)
        self.assertIsNone(codecs["q8_0"]["bits_per_value"]["80"])
        rows = list(csv.reader(io.StringIO(self.succeeds(swivel("codecs", "-o", "csv")))))
        self.assertTrue(all(len(row) == len(rows[0]) for row in rows))
        self.fails(swivel("codecs", "--head-dim", "9999"), "9999", "576")

    def test_plugin_path(self):
        self.assertEqual(self.succeeds(swivel("plugin-path")), PLUGIN + "\n")
        self.fails(swivel("plugin-path", SWIVEL_PLUGIN="/nowhere.so"), "/nowhere.so")

    def test_help_has_examples(self):
        for name in ("bench", "exec", "size", "info", "codecs", "doctor", "plugin-path"):
            self.assertIn("xample", self.succeeds(swivel(name, "--help")), name)


class Bench(Case):
    SMALL = ("--depth", "256", "--heads", "4:2", "-t", "1", "--rounds", "2")

    def test_attention_beside_llama_cpp(self):
        result = swivel("bench", *self.SMALL, "--head-dim", "64", "--kv", "k=turbo4,v=turbo3;swivel:f16", "-o", "json")
        rows = json.loads(self.succeeds(result))
        self.assertEqual([row["kv"] for row in rows], ["k=turbo4,v=turbo3", "swivel:f16", "stock:f16", "stock:q8_0", "stock:q4_0"])
        for row in rows:
            keys = ("op", "n_q", "n_kv", "d", "n_head", "n_head_kv", "threads")
            self.assertEqual([row[key] for key in keys], ["decode", 1, 256, 64, 4, 2, 1])
            self.assertLessEqual(row["ms_p10"], row["ms"])
            self.assertLessEqual(row["ms"], row["ms_p90"])
            self.assertGreater(row["share_of_stream"], 0)
            self.assertEqual(row["target"] is None, row["kv"].startswith("stock:"))
        times = {row["kv"]: row["ms"] for row in rows}
        self.assertAlmostEqual(rows[0]["ratio_to_stock_f16"], times["stock:f16"] / times[rows[0]["kv"]])
        # Bytes of the cache from the rate: 256 cells of 2 heads, K and V.
        self.assertAlmostEqual(rows[2]["gbps"] * rows[2]["ms"] * 1e6, 256 * 2 * 64 * 2 * 2, delta=1)

    def test_formats_and_sizes(self):
        args = (*self.SMALL, "--kv", "turbo4", "--stock")
        lines = self.succeeds(swivel("bench", *args, "f16", "--op", "prefill", "--n-q", "8,16", "-o", "jsonl")).splitlines()
        self.assertEqual([(json.loads(line)["op"], json.loads(line)["n_q"]) for line in lines], [("prefill", n) for n in (8, 8, 16, 16)])
        rows = list(csv.DictReader(io.StringIO(self.succeeds(swivel("bench", *args, "none", "-o", "csv")))))
        self.assertEqual([(row["kv"], row["ratio_to_stock_f16"]) for row in rows], [("turbo4", "")])
        self.assertIn("| stock:f16 |", self.succeeds(swivel("bench", *args, "f16")))

    def test_a_width_that_llama_cpp_cannot_serve(self):
        result = swivel("bench", *self.SMALL, "--head-dim", "80", "--kv", "turbo4", "-o", "json")
        rows = {row["kv"]: row for row in json.loads(self.succeeds(result))}
        self.assertIsNone(rows["stock:q8_0"]["ms"])
        self.assertIn("multiple of 32", rows["stock:q8_0"]["failure"])
        self.assertIsNotNone(rows["turbo4"]["ms"])

    def test_wrong_arguments(self):
        self.fails(swivel("bench", "--depth", "4k"), "--depth 4k", "whole number")
        self.fails(swivel("bench", "--n-q", "0"), "--n-q 0", "from 1")
        self.fails(swivel("bench", "--op", "decode,train"), "'train'", "decode or prefill")
        self.fails(swivel("bench", "--op", "prefill", "--depth", "100"), "--depth 100", "512 queries")
        self.fails(swivel("bench", "--heads", "32:7"), "--heads 32:7", "multiple")
        self.fails(swivel("bench", "--kv", "turbo9"), "--kv", "turbo9", "turbo4")
        self.fails(swivel("bench", "--stock", "turbo4"), "--stock turbo4", "q8_0", "none")
        self.fails(swivel("bench", "--kv", "", "--stock", "none"), "nothing to measure")
        self.fails(swivel("bench", "-m", "/nowhere.gguf"), "/nowhere.gguf")
        self.fails(swivel("bench", *self.SMALL, SWIVEL_TARGET="avx9"), "avx9")
        for wrong in (("-o", "xml"), ("-t", "0"), ("-p", "8"), ("-m", "m.gguf", "--op", "decode"), ("--head-dim", "7")):
            self.assertNotEqual(swivel("bench", *wrong).returncode, 0, wrong)

    def test_a_model_that_is_none(self):
        result = swivel("bench", "-m", self.file("m.gguf", "no"), "--kv", "turbo4", "--stock", "f16", "--rounds", "1", "-o", "json")
        self.assertEqual(result.returncode, 1)
        self.assertEqual([row["tps"] for row in json.loads(result.stdout)], [None] * 4)
        self.assertIn("not a GGUF file", result.stderr)


class Doctor(Case):
    def report(self, host, seconds=30, **env):
        result = swivel("doctor", host, "-o", "json", "--timeout", str(seconds), **env)
        report = json.loads(result.stdout)
        self.assertEqual(result.returncode, 0 if report["accepted"] else 1)
        return report

    def test_pinned_programs(self):
        bench = os.path.join(LLAMA, "bin", "llama-bench")
        if not os.path.exists(bench):
            self.skipTest("llama-bench is not built")
        report = self.report(bench)
        self.assertTrue(report["accepted"], report)
        self.assertTrue(report["list_devices"])
        self.assertEqual(report["path_alone"], "yes")
        self.assertIn("swivel exec", report["use"])

    def test_pinned_libraries(self):
        for host in ("lib", "lib/libllama.so", "lib/libggml.so"):
            report = self.report(os.path.join(LLAMA, host))
            self.assertTrue(report["accepted"], report)
            self.assertIn("SWIVEL", report["devices"])
            self.assertGreaterEqual(report["backend_api"], 2)
            self.assertEqual(report["path_alone"], "no")
        page = swivel("doctor", os.path.join(LLAMA, "lib")).stdout
        self.assertIn("verdict   accepted", page)

    def test_plugins_that_misbehave(self):
        host = os.path.join(LLAMA, "lib")
        expected = {"refuse": "did not take the plugin", "crash": "crashed", "hang": "did not end in time"}
        for kind, reason in expected.items():
            report = self.report(host, 2 if kind == "hang" else 30, SWIVEL_PLUGIN=os.path.join(MODULES, f"libdoctor_{kind}.so"))
            self.assertFalse(report["accepted"])
            self.assertIn(reason, report["reason"])
        report = self.report(host, SWIVEL_PLUGIN=os.path.join(MODULES, "libdoctor_refuse.so"))
        self.assertIn("ggml_backend_init returned NULL", " ".join(report["messages"]))

    def test_programs_that_are_no_hosts(self):
        self.assertFalse(self.report("/bin/ls")["accepted"])
        self.assertFalse(self.report(self.file("llama-cli", "#!/bin/sh\nsleep 100\n", executable=True), 2)["accepted"])
        self.assertFalse(self.report(self.file("llama-x", "#!/bin/sh\necho 'Available devices:'\n", executable=True))["accepted"])
        empty = os.path.join(self.folder, "empty")
        os.mkdir(empty)
        for path in ("/nowhere", self.file("text", "x"), empty):
            self.fails(swivel("doctor", path), path)

    def test_static_programs(self):
        source = self.file("main.c", "int main(void) { return 0; }\n")
        program = os.path.join(self.folder, "static")
        if subprocess.run(["cc", "-static", source, "-o", program], capture_output=True).returncode != 0:
            self.skipTest("no static C library")
        report = self.report(program)
        self.assertFalse(report["accepted"])
        self.assertIn("statically linked", report["reason"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
