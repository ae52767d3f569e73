"""The subcommands distortion and capture as a user starts them. Environment as in tool_test.py; the tests that need a model are skipped
unless SWIVEL_MODEL_S names one (tools/model S)."""
import csv
import io
import json
import math
import os
import re
import struct
import unittest
import xml.etree.ElementTree

from tool_test import Case, swivel

KEYS = ["codec", "d", "source", "side", "scale", "vectors", "bits", "mse", "mse_err", "mse_centered", "ip_var_times_d", "ip_bias",
        "ip_bias_err", "softmax_kl", "softmax_kl_err", "encode_ns", "encode_scalar_ns", "decode_ns", "threads", "target", "reason"]
FIGURES = KEYS[6:18]


def npy(rows, columns, values, dtype="<f4", order="False", shape=None):
    header = f"{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': {shape or (rows, columns)}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}{dict(f2='e', f4='f', f8='d')[dtype[1:]]}", *values)


def read_npy(path):
    """The rows of a float32 matrix."""
    with open(path, "rb") as file:
        data = file.read()
    length, = struct.unpack("<H", data[8:10])
    rows, columns = map(int, re.search(rb"'shape': \((\d+), (\d+)\)", data[:10 + length]).groups())
    values = struct.unpack(f"<{rows * columns}f", data[10 + length:])
    return [values[i * columns:(i + 1) * columns] for i in range(rows)]


def waves(rows, columns):
    return [math.sin(1.7 * i * i + 0.3) for i in range(rows * columns)]


class Distortion(Case):
    def rows(self, *args, **env):
        return json.loads(self.succeeds(swivel("distortion", "-o", "json", *args, **env)))

    def names(self):
        return [codec["name"] for codec in json.loads(self.succeeds(swivel("codecs", "-o", "json")))]

    def test_defaults_measure_every_codec_well(self):
        rows = self.rows("--no-time")
        self.assertEqual([row["codec"] for row in rows], self.names())
        for row in rows:
            self.assertEqual(list(row), KEYS)
            self.assertEqual((row["d"], row["source"], row["side"]), (128, "gaussian", "k"))
            if row["mse"] is None:
                self.assertIsInstance(row["reason"], str)
                continue
            self.assertIsNone(row["reason"])
            self.assertLess(row["mse_err"], 0.003 * row["mse"], row)
            self.assertGreater(row["mse"], 4 ** -row["bits"], "below Shannon's bound")
            self.assertIsNone(row["encode_ns"])
        found = {row["codec"]: row for row in rows}
        for codec, mse in (("turbo2", .1188), ("turbo3", .0338), ("turbo4", .0092)):
            self.assertAlmostEqual(found[codec]["mse"] / mse, 1, delta=0.015)
        self.assertLess(found["turbo4"]["softmax_kl"], found["turbo3"]["softmax_kl"])

    def test_every_source_and_width(self):
        rows = self.rows("--head-dim", "64,80,96,128,256", "--source", "gaussian,sparse,heavy,biased", "--vectors", "256", "--no-time")
        self.assertEqual(len(rows), 5 * 4 * len(self.names()))
        for row in rows:
            self.assertEqual(row["mse"] is None, row["reason"] is not None, row)
            for key in FIGURES[:-3]:
                if key != "softmax_kl_err" and row["reason"] is None:
                    self.assertIsInstance(row[key], (int, float), (key, row))
                    self.assertTrue(math.isfinite(row[key]))
        refused = [row for row in rows if row["codec"] == "q8_0" and row["d"] == 80]
        self.assertEqual(len(refused), 4)
        self.assertIn("80", refused[0]["reason"])
        self.assertTrue(all(row["bits"] is None for row in refused))
        biased = {row["codec"]: row for row in rows if row["source"] == "biased" and row["d"] == 128}
        self.assertGreater(biased["turbo3"]["mse_centered"], 1000 * biased["turbo3"]["mse"])

    def test_times(self):
        for row in self.rows("--head-dim", "64", "--vectors", "256"):
            for key in FIGURES[-3:]:
                self.assertEqual(row[key] is None, row["reason"] is not None, row)
                self.assertGreater(row[key] or 1, 0)

    def test_repeatable(self):
        args = ("distortion", "--no-time", "-o", "json", "--vectors", "600", "--source", "heavy", "--codecs", "turbo3,q4_0,f16")
        self.assertEqual(swivel(*args).stdout, swivel(*args).stdout)
        self.assertNotEqual(swivel(*args).stdout, swivel(*args, "--seed", "2").stdout)
        portable = [row["mse"] for row in json.loads(swivel(*args, SWIVEL_TARGET="portable").stdout)]
        self.assertEqual(portable, [row["mse"] for row in json.loads(swivel(*args).stdout)])

    def test_scales_and_sides(self):
        unbiased, = self.rows("--codecs", "turbo2", "--scale", "unbiased", "--vectors", "4096", "--no-time")
        self.assertEqual(unbiased["scale"], "unbiased")
        self.assertAlmostEqual(unbiased["ip_bias"], 0, delta=4 * unbiased["ip_bias_err"] + 5e-4)
        least, = self.rows("--codecs", "turbo2", "--scale", "ls", "--vectors", "4096", "--no-time", "--side", "v")
        self.assertLess(least["mse"], unbiased["mse"])
        self.assertEqual(least["side"], "v")
        plain, = self.rows("--codecs", "q4_0", "--vectors", "64", "--no-time")
        self.assertIsNone(plain["scale"])

    def test_formats(self):
        args = ("distortion", "--codecs", "turbo3,q8_0", "--head-dim", "80", "--vectors", "200")
        table = list(csv.DictReader(io.StringIO(self.succeeds(swivel(*args, "-o", "csv")))))
        self.assertEqual(list(table[0]), KEYS)
        self.assertEqual((table[1]["codec"], table[1]["mse"]), ("q8_0", ""))
        page = self.succeeds(swivel(*args))
        self.assertIn("### gaussian, d = 80: 200 vectors as keys, scale matched", page)
        self.assertIn("q8_0: not measured: ", page)

    def test_page(self):
        path = os.path.join(self.folder, "page.html")
        self.succeeds(swivel("distortion", "--vectors", "300", "--head-dim", "64,128", "--html", path))
        with open(path, encoding="utf-8") as file:
            page = file.read()
        for forbidden in ("http", "<script", "src=", "url(", "nan"):
            self.assertNotIn(forbidden, page)
        charts = [xml.etree.ElementTree.fromstring(svg) for svg in re.findall(r"<svg viewBox=\"0 0 9.*?</svg>", page, re.S)]
        self.assertEqual(len(charts), 2)
        text = [" ".join(chart.itertext()) for chart in charts]
        for chart in text:
            for part in ("bits a value", "distortion", "4⁻ᴿ", "turbo3", "turbo4"):
                self.assertIn(part, chart)
        self.fails(swivel("distortion", "--vectors", "10", "--html", os.path.join(self.folder, "no", "page.html")), "page.html")

    def test_files(self):
        for dtype in ("<f2", "<f4", "<f8"):
            path = self.file("x.npy", npy(40, 64, waves(40, 64), dtype))
            row, = self.rows("--source", path, "--codecs", "turbo4", "--no-time")
            self.assertEqual((row["source"], row["d"], row["vectors"]), (path, 64, 40))
            self.assertAlmostEqual(row["mse"], 0.0091, delta=0.001)
        result = swivel("distortion", "--source", path, "--vectors", "10", "--codecs", "f16", "-o", "json", "--no-time")
        self.assertIn("the first 10 of 40", result.stderr)
        self.assertEqual(json.loads(result.stdout)[0]["vectors"], 10)
        # Both together, and names with a comma.
        rows = self.rows("--source", "gaussian", self.file("a,b.npy", npy(40, 64, waves(40, 64))), "--codecs", "f16", "--no-time", "--head-dim", "32,64")
        self.assertEqual([row["d"] for row in rows], [32, 64, 64])

    def test_zero_rows_are_left_out(self):
        path = self.file("x.npy", npy(3, 64, [0.0] * 64 + waves(1, 64) + [0.0] * 64))
        result = swivel("distortion", "--source", path, "--codecs", "f16", "-o", "json", "--no-time")
        self.assertEqual(json.loads(self.succeeds(result))[0]["vectors"], 1)
        self.assertIn("2 zero vectors left out", result.stderr)
        self.fails(swivel("distortion", "--source", self.file("z.npy", npy(2, 64, [0.0] * 128))), "z.npy", "zeros only")

    def test_hostile_files(self):
        good = npy(4, 64, waves(4, 64))
        for content, part in (
                (good[:40], "ends in its header"),
                (good[:-1], "bytes follow"),
                (npy(2, 64, [1] * 128, order="True"), "Fortran"),
                (npy(0, 0, [1] * 64, shape="(64,)"), "(64,)"),
                (npy(0, 0, [1] * 64, shape="(9999999999, 9999999999)"), "bytes follow"),
                (good.replace(b"<f4", b"<i4"), "<i4"),
                (good.replace(b"<f4", b">f4"), ">f4"),
                (npy(2, 64, [1.0] * 70 + [math.nan] + [1.0] * 57), "row 1, column 6"),
                (npy(2, 64, [math.inf] + [1.0] * 127), "row 0, column 0"),
                (npy(2, 64, [1e39] + [1.0] * 127, "<f8"), "row 0, column 0"),
                (b"", "not a .npy file")):
            self.fails(swivel("distortion", "--source", self.file("bad.npy", content)), "--source", "bad.npy", part)
        self.fails(swivel("distortion", "--source", "/nowhere.npy"), "/nowhere.npy", "No such file")
        self.fails(swivel("distortion", "--source", self.folder), self.folder, "not a regular file")

    def test_values_beyond_a_codec(self):
        values = waves(4, 64)
        values[70] = 1e6
        rows = {row["codec"]: row for row in self.rows("--source", self.file("x.npy", npy(4, 64, values)), "--no-time")}
        self.assertIn("vector 1", rows["f16"]["reason"])
        self.assertIsNone(rows["f16"]["mse"])
        self.assertIsNone(rows["turbo4"]["reason"])

    def test_widths_that_nobody_serves(self):
        result = swivel("distortion", "--head-dim", "1", "--vectors", "20", "-o", "json")
        self.assertEqual(result.returncode, 1)
        self.assertIn("nothing was measured", result.stderr)
        self.assertEqual(len(json.loads(result.stdout)), len(self.names()))
        wide = swivel("distortion", "--source", self.file("x.npy", npy(2, 1000, waves(2, 1000))), "-o", "json")
        self.assertEqual(wide.returncode, 1)
        self.assertIn("1000", json.loads(wide.stdout)[0]["reason"])

    def test_wrong_arguments(self):
        self.fails(swivel("distortion", "--codecs", "turbo9"), "--codecs turbo9", "turbo4", "all")
        self.fails(swivel("distortion", "--codecs", "turbo4,"), "--codecs turbo4,", "unknown codec ''")
        self.fails(swivel("distortion", "--head-dim", "64,x"), "--head-dim 64,x", "'x'", "576")
        self.fails(swivel("distortion", "--head-dim", "577"), "--head-dim 577")
        self.fails(swivel("distortion", "--source", "laplace"), "laplace", "gaussian, sparse, heavy, biased")
        path = self.file("x.npy", npy(2, 64, waves(2, 64)))
        self.fails(swivel("distortion", "--source", path, "--head-dim", "128"), "x.npy", "64", "--head-dim 128")
        self.fails(swivel("distortion", SWIVEL_TARGET="avx9"), "avx9")
        for wrong in (("-o", "xml"), ("--vectors", "0"), ("--scale", "best"), ("--side", "q"), ("--seed", "-1"), ("extra",)):
            self.assertEqual(swivel("distortion", *wrong).returncode, 1, wrong)

    def test_help_has_examples(self):
        for name in ("distortion", "capture"):
            self.assertIn("xample", self.succeeds(swivel(name, "--help")))


class CaptureErrors(Case):
    def test_wrong_arguments(self):
        out = os.path.join(self.folder, "out")
        model = self.file("m.gguf", "no model")
        self.fails(swivel("capture", "-m", "/nowhere.gguf", "-o", out), "/nowhere.gguf", "does not exist")
        self.fails(swivel("capture", "-m", model, "-o", out), "not a GGUF file")
        self.fails(swivel("capture", "-m", model, "-o", out, "-f", "/nowhere.txt"), "/nowhere.txt")
        for numbers in ("x", "1-", "3-1", "-1", "1,,2", "1;2", "10000"):
            self.fails(swivel("capture", "-m", model, "-o", out, "--layers=" + numbers), "--layers " + numbers)
        self.fails(swivel("capture", "-m", model, "-o", out, "--heads", "a"), "--heads a")
        self.assertFalse(os.path.exists(out))
        for wrong in (("-m", model), ("-o", out), ("-m", model, "-o", out, "-c", "0")):
            self.assertEqual(swivel("capture", *wrong).returncode, 1)


@unittest.skipUnless("SWIVEL_MODEL_S" in os.environ, "SWIVEL_MODEL_S is not set; try SWIVEL_MODEL_S=$(tools/model S)")
class Capture(Case):
    MODEL = os.environ.get("SWIVEL_MODEL_S")

    def capture(self, *args):
        folder = os.path.join(self.folder, "out")
        self.succeeds(swivel("capture", "-m", self.MODEL, "-o", folder, "-t", "1", *args))
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        self.assertEqual(sorted(os.listdir(folder)), sorted([entry["file"] for entry in manifest["files"]] + ["manifest.json"]))
        return manifest, {name: read_npy(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".npy")}

    def test_keys_and_queries_are_rotated_by_position(self):
        # In layer 0 a token knows nothing of its context: equal tokens have equal values, and keys and queries that differ by the rotary
        # embedding only. A product then depends on the distance alone.
        text = self.file("text", "one" + " word" * 12)
        manifest, files = self.capture("-f", text, "--layers", "0", "-q")
        tokens = manifest["token_ids"]
        same = [i for i, token in enumerate(tokens) if token == tokens[-1]]
        self.assertGreaterEqual(len(same), 10)
        self.assertEqual(len(files), 3 + 3 + 9)
        self.assertTrue(all(len(rows) == len(tokens) and len(rows[0]) == 64 for rows in files.values()))
        dot = lambda a, b: sum(x * y for x, y in zip(a, b))
        for head in range(3):
            k, v = files[f"layer0_head{head}_k.npy"], files[f"layer0_head{head}_v.npy"]
            q = files[f"layer0_head{3 * head + 1}_q.npy"]
            norm = dot(k[same[0]], k[same[0]])
            for i in same[1:]:
                self.assertEqual(v[i], v[same[0]])
                self.assertAlmostEqual(dot(k[i], k[i]) / norm, 1, delta=1e-5)
                self.assertNotEqual(k[i], k[same[0]])
            size = math.sqrt(dot(q[same[0]], q[same[0]]) * norm)
            for distance in (0, 1, 5):
                products = [dot(q[i], k[i - distance]) for i in same if i - distance in same]
                self.assertLess(max(products) - min(products), 2e-5 * size)
            # Unrotated, it would not change with the distance.
            self.assertGreater(abs(dot(q[same[-1]], k[same[-1]]) - dot(q[same[-1]], k[same[0]])), 1e-3 * size)

    def test_prefix_does_not_depend_on_what_follows(self):
        text = self.file("text", "The history of the city begins with a small settlement on the left bank of the river. " * 50)
        _, short = self.capture("-f", text, "-c", "40", "--layers", "0,7,29", "--heads", "2")
        os.rename(os.path.join(self.folder, "out"), os.path.join(self.folder, "short"))
        manifest, long = self.capture("-f", text, "-c", "600", "--layers", "0,7,29", "--heads", "2")  # two batches
        self.assertEqual(manifest["tokens"], 600)
        self.assertEqual(sorted(short), sorted(long))
        self.assertEqual(sorted(short), sorted(f"layer{layer}_head2_{kind}.npy" for layer in (0, 7, 29) for kind in "kv"))
        for name in short:
            self.assertEqual(len(long[name]), 600)
            # Batches of other sizes round the activations of quantized weights differently; a row of another token would be far away.
            for a, b in zip(short[name], long[name]):
                self.assertLess(math.dist(a, b), 0.1 * math.hypot(*a), name)
            # Every row was filled, also those of the second batch.
            self.assertTrue(all(any(row) for row in long[name]))

    def test_built_in_text_and_distortion(self):
        manifest, files = self.capture("-c", "200", "--layers", "3", "--heads", "1")
        self.assertIsNone(manifest["text"])
        self.assertEqual([entry["kind"] for entry in manifest["files"]], ["k", "v"])
        self.assertEqual({(e["layer"], e["head"], e["heads"], e["d"], e["logit_scale"]) for e in manifest["files"]}, {(3, 1, 3, 64, 0.125)})
        os.rename(os.path.join(self.folder, "out"), os.path.join(self.folder, "one"))
        _, whole = self.capture("-c", "200", "--layers", "3")
        self.assertEqual(len(whole), 6)
        for name, rows in files.items():
            self.assertEqual(rows, whole[name])
            self.assertNotEqual(rows, whole[name.replace("head1", "head0")])
        path = os.path.join(self.folder, "out", "layer3_head0_k.npy")
        row, = json.loads(self.succeeds(swivel("distortion", "--source", path, "--codecs", "turbo4", "-o", "json", "--no-time")))
        self.assertEqual((row["vectors"], row["d"]), (200, 64))
        self.assertLess(row["mse"], 0.02)

    def test_errors(self):
        out = os.path.join(self.folder, "out")
        base = ("capture", "-m", self.MODEL, "-t", "1", "-c", "8", "-o", out)
        self.fails(swivel(*base, "--layers", "30"), "layer 30", "29")
        self.fails(swivel(*base, "--heads", "3"), "KV heads 0 to 2", "3")
        self.fails(swivel(*base, "-f", self.file("empty", "")), "the text has no tokens")
        os.makedirs(out, exist_ok=True)
        with open(os.path.join(out, "old"), "w"):
            pass
        self.fails(swivel(*base), "not empty")
        self.fails(swivel(*base[:-1], self.file("file", "")), "not a folder")


if __name__ == "__main__":
    unittest.main(verbosity=2)
