"""A minute of tools/load-run. Environment: as for hosts_test.py; skipped without SWIVEL_MODEL_S or a llama-server that runs here."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import server

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "load-run"
MODEL = os.environ.get("SWIVEL_MODEL_S", "")


class Load(unittest.TestCase):
    @unittest.skipUnless(MODEL and server.find_server(), "SWIVEL_MODEL_S is not named, or there is no llama-server (tools/llama llama-server, tools/host skulk)")
    def test_a_minute(self):
        with tempfile.TemporaryDirectory() as folder:
            figures = pathlib.Path(folder, "figures.json")
            result = subprocess.run([sys.executable, TOOL, "--server", server.find_server(), "--model", MODEL, "--swivel", server.SWIVEL, "--minutes", "1", "--no-stock",
                                     "--sample", "4", "--threads", "1", "--json", figures], env=server.environment(), capture_output=True, text=True, timeout=800,
                                    stdin=subprocess.DEVNULL)
            if "status -4" in result.stderr:
                self.skipTest("llama-server meets an instruction that this processor lacks")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            of_plugin = json.loads(figures.read_text())["results"][0]
        self.assertGreater(of_plugin["requests"], 8)
        self.assertGreater(of_plugin["cancelled"], 0)
        self.assertEqual(of_plugin["restart"]["lost"], 0)
        # One line and one event for each server, and the totals of each context when it ended.
        self.assertEqual(of_plugin["events"]["loaded"], 3)
        self.assertGreaterEqual(of_plugin["events"]["context_end"], 3)
        self.assertGreater(of_plugin["events"]["state_restored"], 0)


if __name__ == "__main__":
    unittest.main()
