// An evaluation as one page for a browser: which cache to use, what it costs, and what that rests on.
//
// Self-contained: no network, works from file://. The one script only exports drawings; without it everything can be read.
#ifndef SWIVEL_EVAL_REPORT_HTML_H_
#define SWIVEL_EVAL_REPORT_HTML_H_

#include <string>

#include "eval/report.h"

namespace swivel {

std::string ReportHtml(const EvalReport& report);

// The sections below the charts (report_html_tables.cc).
std::string CostTableHtml(const EvalReport& report);
std::string TailTableHtml(const EvalReport& report);
std::string TasksHtml(const EvalReport& report);
std::string ProvenanceHtml(const EvalReport& report);

}  // namespace swivel

#endif  // SWIVEL_EVAL_REPORT_HTML_H_
