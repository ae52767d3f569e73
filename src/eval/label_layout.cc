#include "eval/label_layout.h"

#include <cmath>
#include <limits>

namespace swivel {

std::vector<LabelPlace> PlaceLabels(const std::vector<LabelRequest>& labels, const Box& area, double marker_radius,
                                    const std::vector<Box>& avoid) {
  constexpr int kDirections = 16;
  constexpr double kPi = 3.14159265358979323846;
  std::vector<Box> taken;
  for (const LabelRequest& label : labels) {
    taken.push_back({label.x - marker_radius, label.y - marker_radius, label.x + marker_radius, label.y + marker_radius});
  }
  std::vector<LabelPlace> places;
  for (const LabelRequest& label : labels) {
    LabelPlace best;
    double best_cost = std::numeric_limits<double>::infinity();
    for (double gap = 3; gap < 260; gap = gap < 12 ? gap + 3 : gap * 1.25) {
      for (int direction = 0; direction < kDirections; ++direction) {
        // The text's centre on an ellipse around the point: its nearest edge is about `gap` away from the marker.
        const double angle = 2 * kPi * direction / kDirections;
        const double x = label.x + std::cos(angle) * (marker_radius + gap + label.width / 2);
        const double y = label.y + std::sin(angle) * (marker_radius + gap + label.height / 2);
        const Box box = {x - label.width / 2, y - label.height / 2, x + label.width / 2, y + label.height / 2};
        if (box.left < area.left || box.right > area.right || box.top < area.top || box.bottom > area.bottom) continue;
        double cost = gap + 0.4 * direction * (kDirections - direction) / kDirections;
        for (const Box& other : taken) cost += box.Overlaps(other) ? 1000 : 0;
        for (const Box& other : avoid) cost += box.Overlaps(other) ? 8 : 0;
        if (cost < best_cost) {
          best_cost = cost;
          best = {box, gap > 9};
        }
      }
    }
    if (std::isinf(best_cost)) best.box = {label.x, label.y, label.x + label.width, label.y + label.height};
    taken.push_back(best.box);
    places.push_back(best);
  }
  return places;
}

}  // namespace swivel
