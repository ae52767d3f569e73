"""The page of swivel eval --html in a real browser: no errors, no network, exports that are drawings, nothing wider than a phone.

Environment (set by ctest): SWIVEL_EVAL_TEST the program of unit tests, which writes the page of a made-up evaluation. Needs chromium;
skipped where there is none. SWIVEL_TEST_SHOTS names a folder to keep screenshots in, for people."""
import base64
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib

BROWSER = next((p for p in map(shutil.which, ["chromium", "chromium-browser", "google-chrome", "chrome"]) if p), None)

# Clicks every export, and says what came of it.
PROBE = """<script>
var result = {errors: [], saved: [], wide: 0, focus: 0};
window.addEventListener('error', function (e) { result.errors.push(String(e.message)); });
HTMLAnchorElement.prototype.click = function () { result.saved.push({name: this.download, url: this.href}); };
window.addEventListener('load', function () {
  document.querySelectorAll('figure button').forEach(function (b) { b.click(); });
  result.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  document.querySelectorAll('.scroll').forEach(function (s) { s.focus(); result.focus += document.activeElement === s ? 1 : 0; });
  result.scrolls = document.querySelectorAll('.scroll').length;
  setTimeout(function () {
    var out = document.createElement('pre');
    out.id = 'probe';
    out.textContent = JSON.stringify(result);
    document.body.appendChild(out);
  }, 2000);
});
</script>"""


def pixels(png):
    """The unpacked bytes of an image: filtered rows, which is enough to tell a drawing from an empty sheet."""
    packed, at = b"", 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        packed += png[at + 8:at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    return zlib.decompress(packed)


@unittest.skipUnless(BROWSER, "no chromium here: apt-get install chromium")
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="swivel-page-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.page = os.path.join(cls.folder, "report.html")
        subprocess.run([os.environ["SWIVEL_EVAL_TEST"], "--gtest_filter=ReportHtml.WritesThePageForTheBrowserTest"], check=True,
                       env={**os.environ, "SWIVEL_TEST_PAGE": cls.page}, capture_output=True)

    def browse(self, path, *args):
        """The output of a run and what the page's console said."""
        out = subprocess.run([BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
                              "--disable-renderer-backgrounding", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.folder}/profile",
                              "--virtual-time-budget=8000", *args, "file://" + path], capture_output=True, text=True, timeout=120)
        return out.stdout, [line for line in out.stderr.splitlines() if "CONSOLE" in line]

    def probe(self, width):
        path = os.path.join(self.folder, f"probe{width}.html")
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("</head>", PROBE + "</head>"))
        dom, console = self.browse(path, "--dump-dom", f"--window-size={width},900")
        self.assertEqual(console, [])
        found = re.search(r'<pre id="probe">(.*?)</pre>', dom, re.S)
        self.assertTrue(found, dom[-2000:])
        return json.loads(found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))

    def test_exports_are_drawings(self):
        result = self.probe(1100)
        self.assertEqual(result["errors"], [])
        names = sorted(saved["name"] for saved in result["saved"])
        self.assertEqual(len(names), 20, names)
        for kind in ["rate", "position", "histogram", "needles", "layers", "memory", "peak", "decode", "depth", "prefill"]:
            self.assertIn(f"swivel-{kind}.svg", names)
            self.assertIn(f"swivel-{kind}.png", names)
        for saved in result["saved"]:
            if saved["name"].endswith(".png"):
                data = base64.b64decode(saved["url"].split(",", 1)[1])
                self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
                self.assertGreater(len(set(pixels(data))), 16, saved["name"] + " is an empty sheet")
            else:
                self.assertIn("--page", saved["url"])  # takes its colours along

    def test_fits_a_narrow_window_and_the_keyboard(self):
        result = self.probe(500)
        self.assertEqual(result["errors"], [])
        self.assertLessEqual(result["wide"], 0, "the page itself must not scroll sideways")
        self.assertEqual(result["focus"], result["scrolls"], "what scrolls must be reachable by keyboard")

    def test_screenshots(self):
        shots = os.environ.get("SWIVEL_TEST_SHOTS", self.folder)
        frame = os.path.join(self.folder, "phone.html")
        with open(frame, "w", encoding="utf-8") as file:
            file.write(f"<body style='margin:0'><iframe src='file://{self.page}' style='width:375px;height:3000px;border:0'></iframe>")
        for name, path, args in [("desktop", self.page, ["--window-size=1100,2400"]),
                                 ("dark", self.page, ["--window-size=1100,2400", "--force-dark-mode"]),
                                 ("phone", frame, ["--window-size=500,2400", "--allow-file-access-from-files"])]:
            file = os.path.join(shots, name + ".png")
            _, console = self.browse(path, f"--screenshot={file}", *args)
            self.assertEqual(console, [])
            self.assertGreater(os.path.getsize(file), 50000)
        with open(os.path.join(shots, "desktop.png"), "rb") as light, open(os.path.join(shots, "dark.png"), "rb") as dark:
            self.assertNotEqual(light.read(), dark.read())


if __name__ == "__main__":
    unittest.main()
