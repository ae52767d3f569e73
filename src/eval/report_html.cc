// The page: its head, the choice, the charts. report_html_tables.cc has the tables.
#include "eval/report_html.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "eval/report_charts.h"
#include "eval/report_choice.h"
#include "eval/svg.h"
#include "eval/text_table.h"

namespace swivel {
namespace {

constexpr double kMiB = 1 << 20;

constexpr const char* kStyle = R"(<style>
body { max-width:1120px; }
.cards { display:grid; grid-template-columns:repeat(auto-fit, minmax(250px, 1fr)); gap:12px; margin:12px 0; }
.card { border:1px solid var(--grid); border-radius:8px; padding:12px 14px; } .card h3 { margin:0; font-size:14px; color:var(--soft); font-weight:600; }
.card .name { font:600 17px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap:anywhere; margin:2px 0 6px; color:var(--ink); }
.card ul { margin:0; padding-left:18px; } code { font:12.5px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap:anywhere; }
.card code { display:block; background:var(--faint); border-radius:4px; padding:6px 8px; margin-top:8px; }
.warn { border-left:4px solid var(--bad); padding:6px 12px; background:var(--faint); } .warn li { color:var(--ink); }
figure { margin:8px 0 0; max-width:780px; } figure .scroll svg { min-width:540px; } figcaption { font-size:13px; color:var(--soft); margin-top:4px; }
.export { white-space:nowrap; } .export button { font:inherit; font-size:12px; color:var(--c0); background:none; border:1px solid var(--grid); border-radius:4px; padding:3px 9px; margin-left:6px; cursor:pointer; }
.skip { position:absolute; left:-999px; } .skip:focus { left:20px; top:4px; background:var(--page); padding:4px 8px; }
td.good { color:var(--good); } td.bad { color:var(--bad); } tr.stock th { font-weight:400; } tbody th { font-family:ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size:12.5px; font-weight:600; }
dl { display:grid; grid-template-columns:minmax(90px, auto) 1fr; gap:2px 14px; font-size:13.5px; } dt { color:var(--soft); } dd { margin:0; overflow-wrap:anywhere; }
@media (max-width:600px) { body { padding:14px; } h1 { font-size:19px; } figcaption::before { content:"Scrolls sideways. "; } }
@media print { .export, .skip { display:none; } }
</style>
)";

// Exports a drawing with the colours that are in force. The buttons appear only when this runs.
constexpr const char* kScript = R"(<script>
(function () {
  function text(figure) {
    var svg = figure.querySelector('svg').cloneNode(true), box = svg.viewBox.baseVal, root = getComputedStyle(document.documentElement);
    var names = ['page', 'ink', 'soft', 'grid', 'faint', 'good', 'bad', 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7'];
    var style = document.createElementNS('http' + '://www.w3.org/2000/svg', 'style');
    style.textContent = 'svg{' + names.map(function (n) { return '--' + n + ':' + root.getPropertyValue('--' + n).trim(); }).join(';') +
      ';background:var(--page)}' + document.getElementById('chart-style').textContent;
    svg.insertBefore(style, svg.firstChild);
    svg.setAttribute('width', box.width);
    svg.setAttribute('height', box.height);
    return { source: new XMLSerializer().serializeToString(svg), width: box.width, height: box.height };
  }
  function save(url, name) {
    var link = document.createElement('a');
    link.href = url;
    link.download = name;
    link.click();
  }
  function png(figure, name) {
    var drawing = text(figure), image = new Image(), canvas = document.createElement('canvas');
    image.onload = function () {
      canvas.width = 2 * drawing.width;
      canvas.height = 2 * drawing.height;
      canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
      save(canvas.toDataURL('image/png'), name);
    };
    image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(drawing.source);
  }
  document.querySelectorAll('figure').forEach(function (figure) {
    var name = 'swivel-' + figure.id;
    figure.querySelector('.export').hidden = false;
    figure.querySelector('[data-as=svg]').onclick = function () {
      save('data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text(figure).source), name + '.svg');
    };
    figure.querySelector('[data-as=png]').onclick = function () { png(figure, name + '.png'); };
  });
})();
</script>
)";

std::string Figure(const std::string& id, const std::string& title, const std::string& svg, const std::string& caption) {
  if (svg.empty()) return fmt::format("<h2>{}</h2>\n<p>Not measured.</p>\n", EscapeHtml(title));
  return fmt::format(
      "<h2 id=\"h-{0}\">{1}</h2>\n<figure id=\"{0}\"><div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-labelledby=\"h-{0}\">{2}</div>\n"
      "<figcaption>{3} <span class=\"export\" hidden><button type=\"button\" data-as=\"svg\" aria-label=\"{1}: save as SVG\">SVG</button>"
      "<button type=\"button\" data-as=\"png\" aria-label=\"{1}: save as PNG\">PNG</button></span></figcaption></figure>\n",
      id, EscapeHtml(title), svg, caption);
}

// What one cache kept of the tasks, in words.
std::string TaskLine(const CacheQuality& cache) {
  std::string text;
  for (const TaskScore& score : cache.tasks) {
    if (!score.not_measured.empty() || score.task == Task::kRepeat) continue;
    text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", TaskName(score.task), score.passed, score.items);
  }
  return text.empty() ? "Copying and needles: not measured" : "Tasks done: " + text;
}

std::string CardHtml(const EvalReport& report, const Choice& choice) {
  const CacheQuality& cache = report.quality.caches[choice.cache];
  std::string reasons;
  for (const std::string& reason : choice.reasons) reasons += (reasons.empty() ? "" : "; ") + reason;
  std::string html =
      fmt::format("<article class=\"card\"><h3>{}</h3><p class=\"name\">{}</p><ul>\n", EscapeHtml(reasons), EscapeHtml(cache.cache.name));
  html += fmt::format("<li>{:.4g} bits a packed value", *cache.use.bits_per_value);
  const std::optional<int64_t> f16_bytes = report.quality.caches[0].use.full_bytes;
  if (cache.use.full_bytes && f16_bytes) {
    html += fmt::format(": {:.1f} MiB at {} tokens, {:.0f} % of f16’s, rows that are kept exact included",
                        static_cast<double>(*cache.use.full_bytes) / kMiB, report.options.context_tokens,
                        100 * static_cast<double>(*cache.use.full_bytes) / static_cast<double>(*f16_bytes));
  }
  html += fmt::format("</li>\n<li>{} next tokens would be another</li>\n", ChangedTokens(cache));
  if (cache.log_ppl_ratio) {
    html += fmt::format("<li>Perplexity {:+.2f} %{}</li>\n", 100 * std::expm1(cache.log_ppl_ratio->mean),
                        cache.log_ppl_ratio->error ? fmt::format(" ± {:.2f}", 100 * *cache.log_ppl_ratio->error) : "");
  }
  if (choice.cache < report.speed.size() && report.speed[choice.cache].decode_tps && report.speed[0].decode_tps) {
    html += fmt::format("<li>Generates {:.3g} tokens a second behind {}; f16: {:.3g}</li>\n", *report.speed[choice.cache].decode_tps, report.depth,
                        *report.speed[0].decode_tps);
  }
  html += fmt::format("<li>KL divergence from f16: {} nats a token</li>\n<li>{}</li></ul>\n<code>{}</code></article>\n",
                      KldWithErrorText(cache.prefill.kld), EscapeHtml(TaskLine(cache)), EscapeHtml(UseCommand(report, cache)));
  return html;
}

std::string WarningsHtml(const EvalReport& report) {
  std::string items;
  for (const CacheQuality& cache : report.quality.caches) {
    for (const std::string& warning : Warnings(report.quality, report.options, cache)) {
      items += fmt::format("<li><b>{}</b>: {}</li>\n", EscapeHtml(cache.cache.name), EscapeHtml(warning));
    }
    for (const PolicyUse& policy : PoliciesOf(cache)) {
      if (!policy.acted)
        items +=
            fmt::format("<li><b>{}</b>: how often {} acted is not measured</li>\n", EscapeHtml(cache.cache.name), EscapeHtml(policy.key));
    }
  }
  return items.empty() ? "" : "<h2>Warnings</h2>\n<ul class=\"warn\">\n" + items + "</ul>\n";
}

std::string FloorHtml(const EvalReport& report) {
  const Agreement& floor = report.quality.floor;
  const Agreement& kernels = report.quality.floor_decode;
  std::string html = fmt::format("<p>Noise floor: f16 against itself with another split of the batch: KLD {}.", KldText(floor.kld.mean));
  if (kernels.kld.mean && kernels.kld.positions >= 64) {
    html += fmt::format(" In batches against token by token: KLD {}; on the {} tokens of the decode path a cache nearer to f16 than that cannot be told from it.",
                        KldText(kernels.kld.mean), kernels.kld.positions);
  }
  return html + "</p>\n";
}

}  // namespace

std::string ReportHtml(const EvalReport& report) {
  const std::string slash = report.model.substr(report.model.find_last_of('/') + 1);
  std::string cards;
  for (const Choice& choice : Choose(report)) cards += CardHtml(report, choice);
  auto speed = [&](std::optional<double> Measurement::*field) {
    return [&report, field](size_t i) { return i < report.speed.size() ? report.speed[i].*field : std::nullopt; };
  };
  auto bytes = [&](size_t i) -> std::optional<double> {
    const std::optional<int64_t> size = report.quality.caches[i].use.full_bytes;
    return size ? std::optional<double>(static_cast<double>(*size) / kMiB) : std::nullopt;
  };
  auto peak = [&](size_t i) -> std::optional<double> {
    if (i >= report.speed.size() || !report.speed[i].peak_rss_bytes) return std::nullopt;
    return static_cast<double>(*report.speed[i].peak_rss_bytes) / kMiB;
  };
  std::string page = PageHead("What KV caches cost: " + slash) + kStyle;
  page += "<a class=\"skip\" href=\"#choice\">Skip to the answer</a>\n";
  page += fmt::format(
      "<header><h1>What a smaller KV cache costs</h1>\n<p>{} ({}), {} positions of {}, contexts of {} tokens. All is relative to the "
      "model’s own "
      "f16 cache.</p></header>\n<main>\n",
      EscapeHtml(slash), EscapeHtml(report.model_description), report.quality.positions(),
      EscapeHtml(report.text.substr(report.text.find_last_of('/') + 1)), report.options.context_tokens);
  page +=
      "<section><h2 id=\"choice\">Which cache to use</h2>\n<div class=\"cards\">\n" + cards +
      "</div>\n<p>q8_0 and q4_0 are llama.cpp’s own. “Not worse” means: this text does not show it to be further from f16 (99 %, paired by "
      "token).</p></section>\n";
  page += WarningsHtml(report);
  page += Figure("rate", "Size against loss", RateChart(report),
                 "Lower and further left is better. Squares: llama.cpp’s own caches; circles: Swivel’s. Bars: standard error.");
  page += "<section><h2 id=\"cost\">All caches</h2>\n" + CostTableHtml(report) + FloorHtml(report) + "</section>\n";
  page += Figure("position", "Does the loss grow with depth?", PositionChart(report), "Mean over all chunks, prefill path.");
  page += Figure("histogram", "Typical tokens and the worst", HistogramChart(report),
                 "Heights are logarithmic too: the smallest bar is a single token. Strokes: median, 99 %, largest.");
  page += "<section><h2 id=\"tails\">Tails, other paths, greedy text</h2>\n" + TailTableHtml(report) + "</section>\n";
  page += "<section><h2 id=\"tasks\">Tasks</h2>\n" + TasksHtml(report) + "</section>\n";
  page += Figure("needles", "Needles", NeedleChart(report),
                 "Rows: lengths of the text; columns: how deep the sentence lies in it. Green: found, as with f16. ×: f16 finds it, this "
                 "cache does not; +: the other way round; grey: neither.");
  if (!report.sensitivity.kv.empty()) {
    page += Figure("layers", "Which layers it costs in", SensitivityChart(report.sensitivity),
                   fmt::format("{} in the keys (K) or the values (V) of one layer, f16 everywhere else; {} positions. Layers that stand out are "
                               "those that boundary= and layer= of a spec can protect.",
                               EscapeHtml(report.sensitivity.kv), report.sensitivity.positions));
  }
  page += Figure("memory", "Memory of the cache when full", BarChart(report, "MiB", bytes), "K and V, rows that are kept exact included.");
  page += Figure("peak", "Peak memory of the process", BarChart(report, "MiB", peak), "Weights included.");
  page += Figure("decode", "Generation", BarChart(report, "tokens/s", speed(&Measurement::decode_tps)),
                 fmt::format("With {} tokens in the cache, {} threads.", report.depth, report.options.threads));
  if (report.depths.size() > 1) page += Figure("depth", "Generation by depth", SpeedChart(report), "One token at a time.");
  page += Figure("prefill", "Prompt", BarChart(report, "tokens/s", speed(&Measurement::prefill_tps)),
                 fmt::format("Of {} tokens.", report.depth));
  page += "<section><h2 id=\"how\">How this was measured</h2>\n" + ProvenanceHtml(report) + "</section>\n</main>\n";
  return page + kScript + "</body></html>\n";
}

}  // namespace swivel
