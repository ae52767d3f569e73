#include "base/cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "kernel/kernels.h"

namespace swivel {
namespace {

// Sets SWIVEL_TARGET (or removes it) and puts the old value back.
class TargetVariable {
 public:
  explicit TargetVariable(const char* value) {
    if (const char* old = std::getenv("SWIVEL_TARGET")) old_ = old;
    Put(value);
  }
  ~TargetVariable() { Put(old_ ? old_->c_str() : nullptr); }

 private:
  static void Put(const char* value) {
    if (value != nullptr) {
      setenv("SWIVEL_TARGET", value, 1);
    } else {
      unsetenv("SWIVEL_TARGET");
    }
  }
  std::optional<std::string> old_;
};

TEST(Cpu, PortableIsAlwaysThereAndFirst) {
  const std::vector<Target> targets = SupportedTargets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets.front(), Target::kPortable);
  EXPECT_TRUE(std::is_sorted(targets.begin(), targets.end()));
}

TEST(Cpu, NamesRoundTrip) {
  for (Target target : SupportedTargets()) {
    const StatusOr<Target> found = TargetFromName(TargetName(target));
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found.value(), target);
  }
}

TEST(Cpu, KernelsAreThoseOfTheirTarget) {
  for (Target target : SupportedTargets()) EXPECT_EQ(KernelsFor(target).target, target) << TargetName(target);
}

TEST(Cpu, VariableForcesTheTarget) {
  for (Target target : SupportedTargets()) {
    const TargetVariable forced(TargetName(target));
    const StatusOr<Target> chosen = ChooseTarget();
    ASSERT_TRUE(chosen.ok()) << chosen.status().message();
    EXPECT_EQ(KernelsFor(chosen.value()).target, target);
  }
}

TEST(Cpu, WithoutTheVariableTheBestTargetRuns) {
  const TargetVariable none(nullptr);
  const StatusOr<Target> chosen = ChooseTarget();
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen.value(), SupportedTargets().back());
}

TEST(Cpu, NonsenseIsAnErrorThatNamesTheVariableAndWhatIsAccepted) {
  for (const char* nonsense : {"", "avx", "AVX2", "avx2 ", "-1", "abc", "scalar", "NEON"}) {
    const TargetVariable wrong(nonsense);
    const StatusOr<Target> chosen = ChooseTarget();
    ASSERT_FALSE(chosen.ok()) << "'" << nonsense << "'";
    EXPECT_EQ(chosen.status().code(), StatusCode::kInvalidArgument);
    const std::string& message = chosen.status().message();
    EXPECT_NE(message.find("SWIVEL_TARGET"), std::string::npos) << message;
    EXPECT_NE(message.find("'" + std::string(nonsense) + "'"), std::string::npos) << message;
    for (const char* name : {"portable", "avx2", "avx512", "neon"}) EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

TEST(Cpu, KnownTargetsThatThisProcessorLacksAreUnsupported) {
  for (Target target : {Target::kPortable, Target::kAvx2, Target::kAvx512, Target::kNeon}) {
    const std::vector<Target> supported = SupportedTargets();
    if (std::find(supported.begin(), supported.end(), target) != supported.end()) continue;
    const StatusOr<Target> found = TargetFromName(TargetName(target));
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.status().code(), StatusCode::kUnsupported);
    const std::string& message = found.status().message();
    EXPECT_NE(message.find("'" + std::string(TargetName(target)) + "'"), std::string::npos) << message;
    const size_t accepted = message.find("; it runs: ");
    ASSERT_NE(accepted, std::string::npos) << message;
    for (Target runs : supported) EXPECT_NE(message.find(TargetName(runs), accepted), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace swivel
