// Tasks that break first when a cache loses detail: copying, finding needles, closing braces, not looping.
//
// All prompts are made of tokens and all answers are compared as tokens; what a prompt holds is never taken for an answer, since only
// tokens behind it are looked at. Small models fail some of this with f16 too: scores say what a cache keeps of what the model can do with
// f16.
#ifndef SWIVEL_EVAL_TASKS_H_
#define SWIVEL_EVAL_TASKS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "eval/metrics.h"
#include "eval/store.h"
#include "eval/wilson.h"
#include "llama/model.h"

namespace swivel {

enum class Task { kCopy, kNeedle, kJson, kRepeat };
inline constexpr Task kAllTasks[] = {Task::kCopy, Task::kNeedle, Task::kJson, Task::kRepeat};
std::string TaskName(Task task);
// "copy,needle", "all" or "none".
StatusOr<std::vector<Task>> ParseTasks(std::string_view text);

// What the tasks need of a tokenizer.
struct TaskVocabulary {
  std::function<std::vector<Token>(std::string_view)> tokenize;
  std::function<std::string(Token)> piece;
  std::function<bool(Token)> ends;
  std::optional<Token> bos;
};

struct Said {
  Token likely = 0;  // the most likely next token
  float log_p = 0;   // log-probability, in nats, of the token that came next in what was fed; 0 behind the last
};

// A model with a cache: remembers what it was fed and names most likely next tokens.
class Speaker {
 public:
  virtual ~Speaker() = default;
  virtual void Forget() = 0;
  // Forgets all but the first `count` tokens; false where it cannot.
  virtual bool Keep(int count) = 0;
  // What it says behind each of the last `wanted` (at least 1) of `tokens`.
  virtual StatusOr<std::vector<Said>> Feed(std::span<const Token> tokens, int wanted) = 0;
};

// Asked behind a prompt. Of copy and needle: greedy decoding writes `answer` exactly if each of its tokens is the most likely one behind the
// right ones before it, so both are fed at once whatever the model says, and the next question finds no wrong answer above it. Of json: the
// beginning of an object that the model goes on with; the next one finds the prompt alone.
struct Question {
  std::vector<Token> ask, answer;
};
struct Sheet {
  std::vector<Token> prompt;
  std::vector<Question> questions;
};
// One line of results an item: what a task is scored by.
struct Outcomes {
  std::vector<float> passed;  // 1 or 0; of repeat: not used
  std::vector<float> value;   // of repeat: the rate; of needle: the length of the sheet in tokens; else 0
  std::vector<float> log_p;   // of copy and needle: log-probability of the whole answer, in nats; else 0
};

inline constexpr int kCopyKeys = 64, kCopyAsked = 8, kCopySheets = 4;
inline constexpr int kNeedleDepths = 15, kNeedleLengths = 4;
inline constexpr int kJsonSheets = 3, kJsonAsked = 4, kJsonRecords = 16, kJsonTokens = 64;
inline constexpr int kRepeatGram = 4;
inline constexpr double kRepeatSlack = 0.1;  // a text may repeat so much more of itself than that of f16

// Each `round` has prompts of its own; those of round 0 are the ones that are always asked.
// 64 lines "key = number"; eight of them are asked for.
std::vector<Sheet> CopySheets(const TaskVocabulary& vocabulary, int round = 0);
// A sheet a length, the last of `context_tokens`: the text `filler` with a sentence in it at each depth, all of which are asked for; the
// others are decoys that differ in a word. Empty when the context is too short for that.
std::vector<Sheet> NeedleSheets(const TaskVocabulary& vocabulary, std::span<const Token> filler, int context_tokens, int round = 0);
// Records in JSON, and beginnings of one more, each a step further into it.
std::vector<Sheet> JsonSheets(const TaskVocabulary& vocabulary, int round = 0);

// Tokens that a sheet takes with all questions.
int SheetTokens(const Sheet& sheet);

// Runs copy, needle or json; `sheets` are its own. Scores of needles are in the order round, length, depth. `repeat` needs no prompts of its own:
// it looks at the greedy texts that were written anyway.
StatusOr<Outcomes> RunTask(Task task, const std::vector<Sheet>& sheets, const TaskVocabulary& vocabulary, Speaker& speaker,
                           const std::function<void(int)>& progress);

// Whether `text`, which begins inside an object, closes it: braces, brackets and strings in order.
enum class JsonEnd { kOpen, kClosed, kBroken };
JsonEnd FollowJson(std::string_view text);

// Share of the n-grams of `tokens` that stood in it before; 0 where there are none.
double RepeatedGrams(std::span<const Token> tokens, int n);

// One cache beside f16 on the same items.
struct TaskScore {
  Task task = Task::kCopy;
  std::string not_measured;  // why; then the rest is not set
  int items = 0, passed = 0, base_passed = 0;
  int kept = 0;                                // passed of those that the base passed
  ShareInterval interval;                      // of kept / base_passed
  double mean_value = 0, base_mean_value = 0;  // of repeat: the rate
  // Of copy and needle: what an answer's log-probability gains or loses, mean over the items that the base passed, in nats. It tells
  // caches apart long before items flip. The standard error takes the items of a sheet as one, since they share its luck.
  std::optional<MeanError> answer_log_p;
  std::vector<int> lengths;                    // of needles: tokens of each row of the grid, of the first round
  std::vector<int> grid;                       // of needles, an item each: 0 neither, 1 only the base, 2 only this cache, 3 both
};
TaskScore ScoreTask(Task task, const Outcomes& outcomes, const Outcomes& base);

Record ToRecord(const Outcomes& outcomes);
Outcomes ToOutcomes(const Record& record);

}  // namespace swivel

#endif  // SWIVEL_EVAL_TASKS_H_
