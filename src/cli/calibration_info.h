// `swivel calibrate --info FILE`: what is inside.
#ifndef SWIVEL_CLI_CALIBRATION_INFO_H_
#define SWIVEL_CLI_CALIBRATION_INFO_H_

#include <string>

#include "calibrate/calibration_file.h"

namespace swivel::cli {

// `format`: "md" or "json".
std::string CalibrationInfo(const std::string& path, const Calibration& calibration, const std::string& format);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_CALIBRATION_INFO_H_
