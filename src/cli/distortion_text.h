// Rows of `swivel distortion` as text. docs/cli.md lists the keys. What was not measured is "-" in Markdown, empty in CSV, null in JSON.
#ifndef SWIVEL_CLI_DISTORTION_TEXT_H_
#define SWIVEL_CLI_DISTORTION_TEXT_H_

#include <string>
#include <vector>

#include "eval/distortion.h"

namespace swivel::cli {

std::string DistortionJson(const std::vector<DistortionRow>& rows, Target target);
std::string DistortionCsv(const std::vector<DistortionRow>& rows, Target target);
// A table for each source and width, and below it the reasons of what could not be measured.
std::string DistortionMarkdown(const std::vector<DistortionRow>& rows, Target target);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_DISTORTION_TEXT_H_
