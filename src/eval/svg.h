// What all pages of the tool are made of: the head with its styles, markers, axes. SVG in text, colours by variables so that light and dark
// are one drawing.
#ifndef SWIVEL_EVAL_SVG_H_
#define SWIVEL_EVAL_SVG_H_

#include <string>
#include <vector>

#include "eval/label_layout.h"

namespace swivel {

// Text for element content and attributes.
std::string EscapeHtml(const std::string& text);

inline constexpr double kMarkerRadius = 5;
inline constexpr int kNumColors = 8;  // --c0 … --c7
// A marker of a family: a colour for each eight, and a shape, so that colour is never the only sign.
std::string Marker(int family, double x, double y);

// Maps values to pixels, along a linear or a logarithmic scale.
class Axis {
 public:
  // low … high are values; on a logarithmic axis both positive. `from` and `to` are pixels.
  static Axis Linear(double low, double high, double from, double to) { return Axis(low, high, from, to, false); }
  static Axis Log(double low, double high, double from, double to) { return Axis(low, high, from, to, true); }

  double At(double value) const;
  bool Holds(double value) const { return value >= low_ && value <= high_; }
  struct Tick {
    double value;
    bool major;  // has a number
  };
  // About `most` numbered ones on a linear axis; decades (and 2, 5 where there are few) on a logarithmic one.
  std::vector<Tick> Ticks(int most = 8) const;

 private:
  Axis(double low, double high, double from, double to, bool log) : low_(low), high_(high), from_(from), to_(to), log_(log) {}
  double low_, high_, from_, to_;
  bool log_;
};

// Grid lines over `plot`, numbers and a title: below it, left of it.
std::string XAxisSvg(const Axis& axis, const Box& plot, const std::string& title);
std::string YAxisSvg(const Axis& axis, const Box& plot, const std::string& title);

// Everything up to <body>; `title` is escaped here. No network, no script.
std::string PageHead(const std::string& title);

}  // namespace swivel

#endif  // SWIVEL_EVAL_SVG_H_
