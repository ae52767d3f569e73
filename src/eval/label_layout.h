// Where the names of points go in a chart, so that none covers another or a point.
#ifndef SWIVEL_EVAL_LABEL_LAYOUT_H_
#define SWIVEL_EVAL_LABEL_LAYOUT_H_

#include <vector>

namespace swivel {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;

  bool Overlaps(const Box& other) const { return left < other.right && other.left < right && top < other.bottom && other.top < bottom; }
};

struct LabelRequest {
  double x = 0, y = 0;           // the point
  double width = 0, height = 0;  // the text
};

struct LabelPlace {
  Box box;
  bool needs_line = false;  // too far from its point to be understood without a line between them
};

// A place for each label, in order, inside `area`: the nearest free one, right of the point if there is a choice. Greedy: points that come
// first choose first. `avoid` are boxes that a label should rather not cover. A label that finds no free place gets an occupied one.
std::vector<LabelPlace> PlaceLabels(const std::vector<LabelRequest>& labels, const Box& area, double marker_radius,
                                    const std::vector<Box>& avoid);

}  // namespace swivel

#endif  // SWIVEL_EVAL_LABEL_LAYOUT_H_
