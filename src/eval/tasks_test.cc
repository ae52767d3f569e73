#include "eval/tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace swivel {
namespace {

constexpr Token kEnd = 1000;

// A token a character.
TaskVocabulary Characters() {
  TaskVocabulary vocabulary;
  vocabulary.tokenize = [](std::string_view text) { return std::vector<Token>(text.begin(), text.end()); };
  vocabulary.piece = [](Token token) { return std::string(1, static_cast<char>(token)); };
  vocabulary.ends = [](Token token) { return token == kEnd; };
  return vocabulary;
}

// Continues as the longest suffix of what it was fed went on before: what an induction head does.
class Copyist : public Speaker {
 public:
  explicit Copyist(size_t forgets_before = 0) : forgets_before_(forgets_before) {}
  void Forget() override { heard_.clear(); }
  bool Keep(int count) override {
    heard_.resize(static_cast<size_t>(count));
    return true;
  }
  // Gives its choice a probability of e^-1/8, any other token e^-2.
  StatusOr<std::vector<Said>> Feed(std::span<const Token> tokens, int wanted) override {
    std::vector<Said> said;
    for (size_t i = 0; i < tokens.size(); ++i) {
      heard_.push_back(tokens[i]);
      if (i + static_cast<size_t>(wanted) < tokens.size()) continue;
      const Token next = Next();
      said.push_back({next, i + 1 == tokens.size() ? 0 : tokens[i + 1] == next ? -0.125f : -2.0f});
    }
    return said;
  }

 protected:
  std::vector<Token> heard_;

 private:
  Token Next() const {
    size_t best = 0;
    Token next = kEnd;
    for (size_t end = forgets_before_ + 1; end < heard_.size(); ++end) {
      size_t length = 0;
      while (length < end - forgets_before_ && heard_[end - 1 - length] == heard_[heard_.size() - 1 - length]) ++length;
      if (length > best) {
        best = length;
        next = heard_[end];
      }
    }
    return next;
  }

  size_t forgets_before_;  // tokens at the beginning that it cannot see
};

// Says one thing over and over.
class Parrot : public Speaker {
 public:
  explicit Parrot(std::string text) : text_(std::move(text)) {}
  void Forget() override { at_ = 0; }
  bool Keep(int) override {
    at_ = 0;
    return true;
  }
  StatusOr<std::vector<Said>> Feed(std::span<const Token>, int wanted) override {
    std::vector<Said> said;
    for (int i = 0; i < wanted; ++i) said.push_back({text_.empty() ? kEnd : text_[at_++ % text_.size()], 0});
    return said;
  }

 private:
  std::string text_;
  size_t at_ = 0;
};

Outcomes Answer(Task task, const std::vector<Sheet>& sheets, Speaker&& speaker) {
  StatusOr<Outcomes> outcomes = RunTask(task, sheets, Characters(), speaker, [](int) {});
  EXPECT_TRUE(outcomes.ok());
  return outcomes.ok() ? *outcomes : Outcomes();
}

int Passed(const Outcomes& outcomes) { return static_cast<int>(std::count(outcomes.passed.begin(), outcomes.passed.end(), 1.0f)); }

TEST(Tasks, CopyNeedsTheKeysAndEveryDigit) {
  const std::vector<Sheet> sheets = CopySheets(Characters());
  ASSERT_EQ(sheets.size(), 4u);
  const Outcomes all = Answer(Task::kCopy, sheets, Copyist());
  EXPECT_EQ(all.passed.size(), 32u);
  EXPECT_EQ(Passed(all), 32);
  EXPECT_FLOAT_EQ(all.log_p[31], -5 * 0.125f);  // a space and four digits
  // Half of the lines forgotten: their keys are new to it.
  const int half = Passed(Answer(Task::kCopy, sheets, Copyist(sheets[0].prompt.size() / 2)));
  EXPECT_GT(half, 8);
  EXPECT_LT(half, 24);
  EXPECT_EQ(Passed(Answer(Task::kCopy, sheets, Parrot("1"))), 0);
}

TEST(Tasks, NeedlesLieAtAllDepthsAndDecoysDoNotCount) {
  const std::string text = "All the world's a stage, and all the men and women merely players; ";
  const std::vector<Token> filler(text.begin(), text.end());
  const std::vector<Sheet> sheets = NeedleSheets(Characters(), filler, 12000);
  ASSERT_EQ(sheets.size(), 4u);
  for (size_t l = 0; l < sheets.size(); ++l) {
    // From what the needles need (characters are small tokens) to the whole context in equal steps.
    const int shortest = SheetTokens(sheets[0]);
    EXPECT_NEAR(SheetTokens(sheets[l]), shortest + (12000 - shortest) * static_cast<int>(l) / 3, 150);
    EXPECT_LE(SheetTokens(sheets[l]), 12000);
    // The needle of depth d begins near (d + 1/2) / 15 of the text.
    const std::vector<Token>& prompt = sheets[l].prompt;
    ASSERT_EQ(sheets[l].questions.size(), 15u);
    for (size_t d = 0; d < sheets[l].questions.size(); ++d) {
      const Question& question = sheets[l].questions[d];
      std::vector<Token> needle = question.ask;
      needle.insert(needle.end(), question.answer.begin(), question.answer.end());
      const auto found = std::search(prompt.begin(), prompt.end(), needle.begin(), needle.end());
      ASSERT_NE(found, prompt.end());
      EXPECT_NEAR(static_cast<double>(found - prompt.begin()) / static_cast<double>(prompt.size()), (static_cast<double>(d) + 0.5) / 15,
                  0.05);
    }
  }
  EXPECT_EQ(Passed(Answer(Task::kNeedle, {sheets[0]}, Copyist())), 15);
  // A model that has lost the first half finds about half of them, though the sentence it is asked with stands there in many other forms.
  EXPECT_NEAR(Passed(Answer(Task::kNeedle, {sheets[3]}, Copyist(sheets[3].prompt.size() / 2))), 7.5, 1);
  EXPECT_TRUE(NeedleSheets(Characters(), filler, 1500).empty());  // too short for all of them
}

TEST(Tasks, RoundsAskSomethingElse) {
  const std::string text = "All the world's a stage, and all the men and women merely players; ";
  std::vector<Token> filler;
  while (filler.size() < 40000) filler.insert(filler.end(), text.begin(), text.end());
  filler[12000] = '%';  // the text of a round begins where that of the one before ends
  const TaskVocabulary vocabulary = Characters();
  for (const auto& [first, second] : {std::pair(CopySheets(vocabulary, 0), CopySheets(vocabulary, 1)),
                                      std::pair(NeedleSheets(vocabulary, filler, 12000, 0), NeedleSheets(vocabulary, filler, 12000, 1)),
                                      std::pair(JsonSheets(vocabulary, 0), JsonSheets(vocabulary, 1))}) {
    ASSERT_EQ(first.size(), second.size());
    for (size_t s = 0; s < first.size(); ++s) {
      EXPECT_NE(first[s].prompt, second[s].prompt);
      ASSERT_EQ(first[s].questions.size(), second[s].questions.size());
    }
  }
  EXPECT_EQ(NeedleSheets(vocabulary, filler, 12000, 1)[0].prompt[0], '%');
}

// Cannot take back what it heard: the prompt is read again.
class Stubborn : public Parrot {
 public:
  using Parrot::Parrot;
  bool Keep(int) override { return false; }
};

TEST(Tasks, JsonHasToClose) {
  const std::vector<Sheet> sheets = JsonSheets(Characters());
  ASSERT_EQ(sheets.size(), 3u);
  // Each question is a step further into the object: the same words close none, one or both of its levels.
  EXPECT_EQ(Passed(Answer(Task::kJson, sheets, Parrot(" 1, \"a\": [2, {}]}}"))), 12);
  EXPECT_EQ(Passed(Answer(Task::kJson, sheets, Parrot(" 1}]"))), 9);  // the last question stands inside an inner object
  EXPECT_EQ(Passed(Answer(Task::kJson, sheets, Stubborn(" 1}]"))), 9);
  EXPECT_EQ(Passed(Answer(Task::kJson, sheets, Parrot(" 1, \"a\": [2, {]}"))), 0);
  EXPECT_EQ(Passed(Answer(Task::kJson, sheets, Parrot(" 1"))), 0);  // never ends
  EXPECT_EQ(Passed(Answer(Task::kJson, sheets, Parrot(""))), 0);    // ends at once
}

TEST(FollowJson, KnowsStringsAndOrder) {
  EXPECT_EQ(FollowJson(" 1"), JsonEnd::kOpen);
  EXPECT_EQ(FollowJson(" 1}"), JsonEnd::kClosed);
  EXPECT_EQ(FollowJson(" \"}\""), JsonEnd::kOpen);
  EXPECT_EQ(FollowJson(" \"\\\"}\"}"), JsonEnd::kClosed);
  EXPECT_EQ(FollowJson(" [1}"), JsonEnd::kBroken);
  EXPECT_EQ(FollowJson(" \"a\n"), JsonEnd::kBroken);
  EXPECT_EQ(FollowJson(" [{}, {\"a\": [[]]}]} and more"), JsonEnd::kClosed);
  EXPECT_EQ(FollowJson(""), JsonEnd::kOpen);
}

TEST(RepeatedGrams, CountsWhatStoodBefore) {
  EXPECT_EQ(RepeatedGrams(std::vector<Token>{1, 2, 3}, 4), 0);
  EXPECT_EQ(RepeatedGrams(std::vector<Token>{1, 2, 3, 4, 5, 6, 7}, 4), 0);
  EXPECT_DOUBLE_EQ(RepeatedGrams(std::vector<Token>{1, 1, 1, 1, 1, 1}, 4), 2.0 / 3);
  EXPECT_DOUBLE_EQ(RepeatedGrams(std::vector<Token>{1, 2, 3, 4, 1, 2, 3, 4}, 4), 0.2);
}

TEST(ScoreTask, IsRelativeToTheModelsOwn) {
  Outcomes base, cache;
  base.passed = {1, 1, 1, 1, 1, 1, 0, 0};
  cache.passed = {1, 1, 1, 0, 0, 1, 1, 0};
  base.value = cache.value = std::vector<float>(8, 0);
  const TaskScore score = ScoreTask(Task::kNeedle, cache, base);
  EXPECT_EQ(score.not_measured, "");
  EXPECT_EQ(score.items, 8);
  EXPECT_EQ(score.base_passed, 6);
  EXPECT_EQ(score.kept, 4);
  EXPECT_EQ(score.passed, 5);
  EXPECT_EQ(score.grid, (std::vector<int>{3, 3, 3, 1, 1, 3, 2, 0}));
  base.passed = {1, 1, 1, 1, 0, 0, 0, 0};
  EXPECT_NE(ScoreTask(Task::kNeedle, cache, base).not_measured.find("4 of 8"), std::string::npos);
  EXPECT_NE(ScoreTask(Task::kNeedle, Outcomes(), base).not_measured, "");
}

// Four sheets of copying: the base does all of the first three, and one item of the last.
TEST(ScoreTask, AnswersLoseOrGainProbability) {
  Outcomes base, cache;
  for (int sheet = 0; sheet < 4; ++sheet) {
    for (int item = 0; item < kCopyAsked; ++item) {
      base.passed.push_back(sheet < 3 || item == 0 ? 1 : 0);
      base.log_p.push_back(-1);
      // Those that the base does not do say nothing.
      cache.log_p.push_back(base.passed.back() > 0 ? -1.1f - 0.1f * static_cast<float>(sheet) : -9);
    }
  }
  cache.passed = base.passed;
  base.value = cache.value = std::vector<float>(32, 0);
  const TaskScore score = ScoreTask(Task::kCopy, cache, base);
  ASSERT_TRUE(score.answer_log_p);
  // Sums of sheets -0.8, -1.6, -2.4, -0.4 of 8, 8, 8 and 1 items.
  EXPECT_NEAR(score.answer_log_p->mean, -5.2 / 25, 1e-6);
  ASSERT_TRUE(score.answer_log_p->error);
  // Residuals 0.864, 0.064, -0.736, -0.192.
  EXPECT_NEAR(*score.answer_log_p->error, std::sqrt((0.746496 + 0.004096 + 0.541696 + 0.036864) * 4 / 3) / 25, 1e-5);
  base.log_p.clear();
  EXPECT_FALSE(ScoreTask(Task::kCopy, cache, base).answer_log_p);
}

TEST(ScoreTask, RepetitionIsMeasuredByTheBase) {
  Outcomes base, cache;
  base.passed = cache.passed = std::vector<float>(8, 0);
  base.value = {0.8f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f};
  cache.value = {0.85f, 0.15f, 0.5f, 0.0f, 0.1f, 0.1f, 0.1f, 0.1f};
  const TaskScore score = ScoreTask(Task::kRepeat, cache, base);
  EXPECT_EQ(score.base_passed, 8);
  EXPECT_EQ(score.kept, 7);  // the third began to loop; the first loops with f16 too
  EXPECT_NEAR(score.mean_value, 0.2375, 1e-6);
}

TEST(WilsonInterval, HoldsAtTheEnds) {
  // Newcombe 1998, table I: 81 of 263 and 15 of 148; 0 of 20.
  EXPECT_NEAR(WilsonInterval(81, 263).low, 0.2553, 1e-4);
  EXPECT_NEAR(WilsonInterval(81, 263).high, 0.3662, 1e-4);
  EXPECT_NEAR(WilsonInterval(15, 148).low, 0.0624, 1e-4);
  EXPECT_NEAR(WilsonInterval(15, 148).high, 0.1605, 1e-4);
  EXPECT_EQ(WilsonInterval(0, 20).low, 0);
  EXPECT_NEAR(WilsonInterval(0, 20).high, 0.1611, 1e-4);
  EXPECT_EQ(WilsonInterval(0, 0).high, 1);
}

TEST(ParseTasks, TakesNames) {
  EXPECT_EQ(ParseTasks("all")->size(), 4u);
  EXPECT_TRUE(ParseTasks("none")->empty());
  EXPECT_EQ(*ParseTasks("json,copy,json"), (std::vector<Task>{Task::kJson, Task::kCopy}));
  EXPECT_FALSE(ParseTasks("copy,needles").ok());
}

}  // namespace
}  // namespace swivel
