// Parts of RaBitQ that are useful on their own: the search for the best code and the error bound.
#ifndef SWIVEL_CODEC_RABITQ_H_
#define SWIVEL_CODEC_RABITQ_H_

#include <cstdint>

namespace swivel {

// Finds m_i in 0 … max_step (at most 7) such that the vector of 2 m_i + 1 has the largest cosine with the magnitudes |row_i| (width at
// most kMaxHeadWidth, not all of them 0): the optimum over all (max_step + 1)^width codes, not a heuristic. Extended RaBitQ
// (arXiv 2409.09913): the optimum is the rounding of t |row| for some t, and the codes change only where t |row_i| passes a
// whole number, so they are visited in the order of t, until no later one can be better. Cost: a sort, then about 3 of the 7 events a
// coordinate at max_step 7.
void BestRabitqSteps(const float* row, int width, int max_step, uint8_t* steps);

// A bound of |<q, decoded> - <q, row>| for a query of norm `query_norm` that does not know the rotation. With p = <decoded, row> /
// ||row||^2,
//   bound = ||q|| ( |p - 1| ||row|| + epsilon ||decoded - p row|| / sqrt(width - 1) )
// RaBitQ's theorem 3.2 (arXiv 2405.12497) is the second term for p = 1, which the scale mode `unbiased` gives up to the rounding of the
// scale; the first term pays for that rounding, or for another mode. The part of `decoded` that is orthogonal to the row has a uniformly
// random direction, so its product with a unit vector exceeds epsilon / sqrt(width - 1) of its length with probability at most
// 2 exp(-epsilon^2 / 2) (measure of a spherical cap). The theorem speaks of a random rotation; a fixed one keeps it for data that has
// nothing to do with that rotation.
double RabitqErrorBound(const float* row, const float* decoded, int width, double query_norm, double epsilon);

// The probability with which the bound may be exceeded, at most: 2 exp(-epsilon^2 / 2). The RaBitQ library uses epsilon = 1.9.
double RabitqFailureProbability(double epsilon);

}  // namespace swivel

#endif  // SWIVEL_CODEC_RABITQ_H_
