#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace swivel {
namespace {

// Values of the specification (xxHash 0.8, seed 0): files and names made elsewhere must keep their meaning.
TEST(Hash64, IsXxh3) {
  EXPECT_EQ(Hash64(""), 0x2d06800538d394c2u);
  EXPECT_NE(Hash64(std::string(1, '\0')), Hash64(""));
  EXPECT_NE(Hash64(std::string(1000, 'a')), Hash64(std::string(1001, 'a')));
}

}  // namespace
}  // namespace swivel
