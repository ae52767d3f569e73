// The work of `swivel calibrate`: chunks of text through a model, their moments summed head by head.
#ifndef SWIVEL_CLI_CALIBRATION_RUN_H_
#define SWIVEL_CLI_CALIBRATION_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "calibrate/calibration_file.h"
#include "eval/progress.h"
#include "gguf/shape.h"
#include "llama/model.h"

namespace swivel::cli {

// Divides `tokens` into chunks of `chunk_tokens` (the BOS token that begins each, where the model wants one, counts) and keeps at most
// `most_chunks`, evenly spread. kInvalidArgument when there is no full chunk.
StatusOr<std::vector<std::vector<Token>>> PlanChunks(const std::vector<Token>& tokens, int chunk_tokens, int most_chunks, bool adds_bos,
                                                     Token bos);

uint64_t HashOfChunks(const std::vector<std::vector<Token>>& chunks);

// The layers of the model with empty moments. kUnsupported for models whose keys no transform serves (latent attention, widths that are no
// multiple of 16).
StatusOr<std::vector<LayerMoments>> EmptyLayers(const gguf::ModelShape& shape);

// Layers, in groups whose keys and queries over a chunk fit into `most_bytes`: the model runs once for each. kOutOfMemory when one layer
// does not fit.
StatusOr<std::vector<std::vector<int>>> LayerGroups(const gguf::ModelShape& shape, int chunk_tokens, int64_t most_bytes);

// Runs one chunk and adds its moments to `calibration`, or fails and leaves it as it was. Advances `progress` by 1 in all.
Status AddChunk(const Model& model, const gguf::ModelShape& shape, const std::vector<Token>& chunk,
                const std::vector<std::vector<int>>& groups, int threads, const std::string& label, Progress* progress,
                Calibration* calibration);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_CALIBRATION_RUN_H_
