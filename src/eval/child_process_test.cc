#include "eval/child_process.h"

#include <string>

#include <gtest/gtest.h>

namespace swivel {
namespace {

TEST(RunChild, CollectsBothStreamsAndTheStatus) {
  StatusOr<ChildResult> result = RunChild({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->out, "out\n");
  EXPECT_EQ(result->err, "err\n");
  EXPECT_EQ(result->exit_code, 3);
}

TEST(RunChild, MoreThanAPipeHoldsOnEitherStream) {
  StatusOr<ChildResult> result = RunChild({"/bin/sh", "-c", "head -c 300000 /dev/zero >&2; head -c 200000 /dev/zero"});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->out.size(), 200000u);
  EXPECT_EQ(result->err.size(), 300000u);
}

TEST(RunChild, SignalsAndMissingPrograms) {
  EXPECT_EQ(RunChild({"/bin/sh", "-c", "kill -9 $$"})->exit_code, 128 + 9);
  EXPECT_FALSE(RunChild({"/nonexistent/program"}).ok());
}

}  // namespace
}  // namespace swivel
