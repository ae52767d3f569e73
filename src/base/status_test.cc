#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace swivel {
namespace {

TEST(Status, DefaultIsOkAndFactoriesCarryCodeAndMessage) {
  EXPECT_TRUE(Status().ok());
  const Status statuses[] = {Status::Invalid("a"),  Status::Unsupported("a"), Status::OutOfMemory("a"),
                             Status::NotFound("a"), Status::Io("a"),          Status::Internal("a")};
  const StatusCode codes[] = {StatusCode::kInvalidArgument, StatusCode::kUnsupported, StatusCode::kOutOfMemory,
                              StatusCode::kNotFound,        StatusCode::kIo,          StatusCode::kInternal};
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(statuses[i].ok());
    EXPECT_EQ(statuses[i].code(), codes[i]);
    EXPECT_EQ(statuses[i].message(), "a");
  }
}

TEST(StatusOr, HoldsAMoveOnlyValueOrAnError) {
  StatusOr<std::unique_ptr<int>> value(std::make_unique<int>(5));
  ASSERT_TRUE(value.ok());
  EXPECT_TRUE(value.status().ok());
  EXPECT_EQ(**value, 5);
  const StatusOr<std::unique_ptr<int>> error(Status::NotFound("gone"));
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.status().message(), "gone");
}

}  // namespace
}  // namespace swivel
