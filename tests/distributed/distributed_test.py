"""A model spread over two rpc-servers that have the plugin: the client needs nothing, answers are those of one machine, caches are packed where they
lie, and a node that dies is an error and no hang.

Environment: SWIVEL, SWIVEL_TEST_PLUGIN and SWIVEL_TEST_LLAMA are set by ctest. SWIVEL_MODEL_S names SmolLM2-135M (tools/model S). Without it all is
skipped. SWIVEL_SHOW=1 prints the measured traffic and memory (docs/distributed.md)."""
import json
import os
import pathlib
import re
import subprocess
import time
import unittest

import server
from nodes import namespaces_permitted, two_nodes

LLAMA = pathlib.Path(os.environ["SWIVEL_TEST_LLAMA"]) / "bin"
MODEL = os.environ.get("SWIVEL_MODEL_S", "")
RPC_SERVER = LLAMA / "ggml-rpc-server"
WHY_NOT = namespaces_permitted() if MODEL else ""
PROMPT = "The history of the city of Rome begins"
LONG = " ".join(f"In the year {year} the city built {year % 7 + 1} roads and {year % 5 + 2} towers." for year in range(100, 160))


def completion(*args, rpc=None, timeout=240):
    start = [] if rpc else [server.SWIVEL, "exec", "--kv", "balanced"]
    remote = ["--rpc", rpc] if rpc else []
    return subprocess.run([*start, str(LLAMA / "llama-completion"), "-m", MODEL, "-no-cnv", "--temp", "0", "-t", "2", *remote, *map(str, args)],
                          env=server.environment(), capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)


def addresses(nodes):
    return ",".join(node.address for node in nodes)


@unittest.skipUnless(MODEL, "SWIVEL_MODEL_S is not named in the environment")
@unittest.skipUnless(RPC_SERVER.exists(), "the pinned llama.cpp has no ggml-rpc-server (tools/llama --tools)")
class TwoNodes(unittest.TestCase):
    def nodes(self, kv="balanced"):
        if WHY_NOT:
            print(f"(on two ports of one machine: {WHY_NOT})", flush=True)
        return two_nodes(RPC_SERVER, kv, namespaces=not WHY_NOT)

    def test_the_same_answer_as_one_machine(self):
        for prompt, tokens in ((PROMPT, 24), (LONG, 16)):
            alone = completion("-p", prompt, "-n", tokens, "-c", 2048)
            self.assertEqual(alone.returncode, 0, alone.stderr[-1500:])
            with self.nodes() as nodes:
                spread = completion("-p", prompt, "-n", tokens, "-c", 2048, rpc=addresses(nodes))
                self.assertEqual(spread.returncode, 0, spread.stderr[-1500:])
                self.assertEqual(spread.stdout, alone.stdout)
                layers = 0
                for node in nodes:
                    said = node.said()
                    line = re.search(r"KV cache (\d+) tensors, k=tcq3 v=tcq3 .*, 3\.23 bits per value", said)
                    self.assertIsNotNone(line, said)
                    layers += int(line.group(1)) // 2
                    # The client has gone, so its cache is freed and summed up; the long prompt leaves the exact window.
                    end = re.search(r"ends: (\d+) rows written, (\d+) groups packed", said)
                    self.assertIsNotNone(end, said)
                    self.assertEqual(int(end.group(2)) > 0, prompt == LONG, end.group(0))
                self.assertEqual(layers, 30, "every layer lies on one of the nodes")

    def test_memory_follows_use(self):
        """A context of 64k cells reserves 1440 MiB as f16; what a node touches is what is written."""
        peak = {}
        for kv in ("balanced", None):
            with self.nodes(kv) as nodes:
                result = completion("-p", LONG, "-n", 4, "-c", 65536, rpc=addresses(nodes))
                self.assertEqual(result.returncode, 0, result.stderr[-1500:])
                peak[kv] = [node.peak_bytes() for node in nodes]
        for with_plugin, without in zip(peak["balanced"], peak[None]):
            self.assertLess(with_plugin, without - 400 * 2**20, peak)
        if os.environ.get("SWIVEL_SHOW"):
            print({str(kv): [f"{b / 2**20:.0f} MiB" for b in all_bytes] for kv, all_bytes in peak.items()})

    @unittest.skipIf(WHY_NOT, f"traffic is counted on links between namespaces: {WHY_NOT}")
    def test_traffic_does_not_grow_with_the_cache(self):
        """A token costs the same bytes on the wire with a long context as with a short one: activations travel, the cache does not."""
        per_token = {}
        with self.nodes() as nodes:
            for name, prompt in (("short", PROMPT), ("long", LONG)):
                total = []
                for tokens in (8, 40):
                    before = [sum(node.traffic()) for node in nodes]
                    result = completion("-p", prompt, "-n", tokens, "-c", 2048, "--ignore-eos", rpc=addresses(nodes))
                    self.assertEqual(result.returncode, 0, result.stderr[-1500:])
                    total.append(sum(sum(node.traffic()) for node in nodes) - sum(before))
                per_token[name] = (total[1] - total[0]) / 32
        if os.environ.get("SWIVEL_SHOW"):
            print({name: f"{b:.0f} bytes a token, both nodes" for name, b in per_token.items()})
        self.assertLess(per_token["long"], 2 * per_token["short"] + 4096, per_token)

    def test_a_node_that_dies_is_an_error_and_no_hang(self):
        with self.nodes() as nodes:
            client = subprocess.Popen([str(LLAMA / "llama-completion"), "-m", MODEL, "-no-cnv", "-p", PROMPT, "-n", "1500", "-c", "2048", "--ignore-eos", "-t", "1",
                                       "--rpc", addresses(nodes)], env=server.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                      stdin=subprocess.DEVNULL)
            for _ in range(600):
                if "KV cache" in nodes[1].said():
                    break
                time.sleep(0.05)
            nodes[1].kill()
            try:
                _, said = client.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                client.kill()
                self.fail("the client hangs: " + client.communicate()[1][-1500:])
            self.assertNotEqual(client.returncode, 0)
            self.assertRegex(said, r"(?i)rpc")
            self.assertIsNone(nodes[0].process.poll(), "the other node serves the next client")
            again = completion("-p", PROMPT, "-n", 4, "-c", 1024, rpc=nodes[0].address)
            self.assertEqual(again.returncode, 0, again.stderr[-1500:])

    def test_bench(self):
        with self.nodes() as nodes:
            result = subprocess.run([str(LLAMA / "llama-bench"), "-m", MODEL, "-p", "32", "-n", "4", "-r", "1", "-t", "2", "-fa", "1", "-o", "json", "--rpc", addresses(nodes)],
                                    env=server.environment(), capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
            self.assertEqual(result.returncode, 0, result.stderr[-1500:])
            self.assertTrue(all(row["avg_ts"] > 0 for row in json.loads(result.stdout)))
            for node in nodes:
                self.assertIn("swivel: KV cache", node.said())

    @unittest.skipUnless((LLAMA / "llama-server").exists(), "the pinned llama.cpp has no llama-server (tools/llama llama-server)")
    def test_server(self):
        """Also a slot that is saved and restored over the network."""
        import tempfile
        with self.nodes() as nodes, tempfile.TemporaryDirectory() as folder:
            with server.Server(LLAMA / "llama-server", MODEL, "-c", 2048, "-np", 1, "--rpc", addresses(nodes), "--slot-save-path", folder, kv=None) as host:
                host.wait_until_ready()
                answer = host.complete(LONG)
                self.assertEqual(host.post("/slots/0?action=save", {"filename": "slot"})[0], 200)
                host.post("/slots/0?action=erase", {})
                self.assertEqual(host.post("/slots/0?action=restore", {"filename": "slot"})[0], 200)
                self.assertEqual(host.complete(LONG), answer)


if __name__ == "__main__":
    unittest.main()
