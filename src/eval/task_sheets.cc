// The prompts of the tasks: the same for every cache, from one seed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "base/random.h"
#include "eval/tasks.h"

namespace swivel {
namespace {

constexpr std::array<const char*, 12> kColours = {"red",   "blue",  "green", "yellow", "black",  "white",
                                                  "brown", "amber", "grey",  "purple", "orange", "silver"};
constexpr std::array<const char*, 12> kThings = {"lantern", "violin", "kettle", "anchor", "ladder", "mirror",
                                                 "basket",  "hammer", "candle", "carpet", "bottle", "saddle"};

void Append(const std::vector<Token>& from, std::vector<Token>* to) { to->insert(to->end(), from.begin(), from.end()); }

std::vector<Token> Begin(const TaskVocabulary& vocabulary) {
  return vocabulary.bos ? std::vector<Token>{*vocabulary.bos} : std::vector<Token>();
}

uint64_t Seed(uint64_t sheet, int round) { return sheet + 1000 * static_cast<uint64_t>(round); }

std::string Digits(Random& random, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += static_cast<char>('0' + random.Below(10));
  return text;
}

// "mopali": words that no model knows, so that there is nothing to go by but the prompt.
std::string Word(Random& random) {
  std::string word;
  for (int i = 0; i < 3; ++i) {
    word += "bdfgklmnprstvz"[random.Below(14)];
    word += "aeiou"[random.Below(5)];
  }
  return word;
}

// Distinct numbers below `bound`, in random order.
std::vector<int> Draw(Random& random, int count, int bound) {
  std::vector<int> drawn;
  std::set<int> taken;
  while (static_cast<int>(drawn.size()) < count) {
    const int number = random.Below(bound);
    if (taken.insert(number).second) drawn.push_back(number);
  }
  return drawn;
}

}  // namespace

std::vector<Sheet> CopySheets(const TaskVocabulary& vocabulary, int round) {
  std::vector<Sheet> sheets;
  for (uint64_t s = 0; s < kCopySheets; ++s) {
    Random random(Seed(100 + s, round));
    Sheet sheet;
    sheet.prompt = Begin(vocabulary);
    Append(vocabulary.tokenize("List of numbers:"), &sheet.prompt);
    // Keys and numbers are tokenized apart, here and in the question, so that the question is the line's beginning to the token.
    std::vector<Question> lines;
    std::set<std::string> keys;
    while (lines.size() < kCopyKeys) {
      const std::string key = Word(random);
      if (!keys.insert(key).second) continue;
      lines.push_back({vocabulary.tokenize("\n" + key + " ="), vocabulary.tokenize(" " + Digits(random, 4))});
      Append(lines.back().ask, &sheet.prompt);
      Append(lines.back().answer, &sheet.prompt);
    }
    Append(vocabulary.tokenize("\n\nThe same again:"), &sheet.prompt);
    for (const int line : Draw(random, kCopyAsked, kCopyKeys)) sheet.questions.push_back(lines[static_cast<size_t>(line)]);
    sheets.push_back(std::move(sheet));
  }
  return sheets;
}

std::vector<Sheet> NeedleSheets(const TaskVocabulary& vocabulary, std::span<const Token> filler, int context_tokens, int round) {
  // Other text in each round; around where it ends, as everywhere.
  const size_t skipped = filler.empty() ? 0 : static_cast<size_t>(round) * static_cast<size_t>(context_tokens) % filler.size();
  std::vector<Sheet> sheets;
  for (int l = 0; l < kNeedleLengths; ++l) {
    Random random(Seed(200 + static_cast<uint64_t>(l), round));
    // Five colours and five things in pairs: decoys share a word with the needle.
    const std::vector<int> colours = Draw(random, 5, static_cast<int>(kColours.size()));
    const std::vector<int> things = Draw(random, 5, static_cast<int>(kThings.size()));
    Sheet sheet;
    for (const int pair : Draw(random, kNeedleDepths, 25)) {
      const std::string name = fmt::format("{} {}", kColours[static_cast<size_t>(colours[static_cast<size_t>(pair / 5)])],
                                           kThings[static_cast<size_t>(things[static_cast<size_t>(pair % 5)])]);
      sheet.questions.push_back(
          {vocabulary.tokenize("\nThe catalogue number of the " + name + " is"), vocabulary.tokenize(" " + Digits(random, 5))});
    }
    const std::vector<Token> end = vocabulary.tokenize(".\n");
    int needles = 0;
    for (const Question& question : sheet.questions) {
      needles += static_cast<int>(question.ask.size() + question.answer.size() + end.size());
    }
    // All is in the prompt once and in the questions once more; at least as much text lies between the needles. From there to the whole
    // context in equal steps.
    const int shortest = std::max(3 * needles + 8, context_tokens / kNeedleLengths);
    if (2 * shortest > 2 * context_tokens - shortest || filler.empty()) return {};
    const int length = shortest + (context_tokens - shortest) * l / (kNeedleLengths - 1) - 2 * needles - 8;
    sheet.prompt = Begin(vocabulary);
    for (int d = 0; d <= kNeedleDepths; ++d) {
      const int from = d == 0 ? 0 : length * (2 * d - 1) / (2 * kNeedleDepths);
      const int to = d == kNeedleDepths ? length : length * (2 * d + 1) / (2 * kNeedleDepths);
      for (int i = from; i < to; ++i) sheet.prompt.push_back(filler[(skipped + static_cast<size_t>(i)) % filler.size()]);
      if (d == kNeedleDepths) break;
      const Question& needle = sheet.questions[static_cast<size_t>(d)];
      for (const std::vector<Token>* part : {&needle.ask, &needle.answer, &end}) Append(*part, &sheet.prompt);
    }
    sheets.push_back(std::move(sheet));
  }
  return sheets;
}

std::vector<Sheet> JsonSheets(const TaskVocabulary& vocabulary, int round) {
  std::vector<Sheet> sheets;
  for (uint64_t s = 0; s < kJsonSheets; ++s) {
    Random random(Seed(300 + s, round));
    std::array<std::string, 5> keys;
    for (std::string& key : keys) key = Word(random);
    // A record in the pieces that a question may end behind: a value is to follow.
    const auto record = [&] {
      const char* colour = kColours[static_cast<size_t>(random.Below(12))];
      const char* thing = kThings[static_cast<size_t>(random.Below(12))];
      return std::array<std::string, kJsonAsked + 1>{
          fmt::format("{{\"{}\":", keys[0]), fmt::format(" {}, \"{}\":", Digits(random, 2), keys[1]),
          fmt::format(" [\"{}\", \"{}\"], \"{}\":", colour, thing, keys[2]), fmt::format(" {{\"{}\": {}, \"{}\":", keys[3], Digits(random, 3), keys[4]),
          fmt::format(" {{\"id\": {}}}}}}}\n", Digits(random, 2))};
    };
    std::string text;
    for (int i = 0; i < kJsonRecords; ++i) {
      for (const std::string& piece : record()) text += piece;
    }
    Sheet sheet;
    sheet.prompt = Begin(vocabulary);
    Append(vocabulary.tokenize(text), &sheet.prompt);
    for (size_t pieces = 1; pieces <= kJsonAsked; ++pieces) {
      const auto begun = record();
      std::string ask;
      for (size_t i = 0; i < pieces; ++i) ask += begun[i];
      sheet.questions.push_back({vocabulary.tokenize(ask), {}});
    }
    sheets.push_back(std::move(sheet));
  }
  return sheets;
}

}  // namespace swivel
