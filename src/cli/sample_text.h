// What `swivel capture` runs a model on when it is given no text: a few hundred tokens of different kinds.
#ifndef SWIVEL_CLI_SAMPLE_TEXT_H_
#define SWIVEL_CLI_SAMPLE_TEXT_H_

namespace swivel::cli {

inline constexpr char kSampleText[] =
    R"(The harbour of the old town froze only once in living memory. That winter the fishermen walked out to their boats with axes and
lanterns, and the baker, who had never trusted the sea, set up a stall between two trawlers and sold bread on the ice. When the thaw came
in the second week of March it came at night, with a sound like distant guns, and by morning the stall was gone. Nobody was hurt. The baker
said that it served him right.

Question: A train leaves at 9:40 and arrives at 12:05. How long does the journey take?
Answer: From 9:40 to 12:00 are 2 hours and 20 minutes; 5 minutes more make 2 hours and 25 minutes.

def mean_and_deviation(values):
    """Returns the mean and the standard deviation of a list of numbers."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, variance ** 0.5

To make a simple broth, put two carrots, an onion, a stick of celery, a bay leaf and a few peppercorns into two litres of cold water. Bring
it slowly to the boil, skim off the foam, and let it simmer for an hour with the lid half on. Strain, and add salt only at the end.

| city   | inhabitants | founded |
| Bern   |     134,000 |    1191 |
| Bergen |     291,000 |    1070 |
| Porto  |     232,000 |  before 275 |

"You said you would wait." "I did wait. I waited until the last tram." "There is always another tram." "Not on a Sunday," she said, and
folded the letter along the same lines as before, so that it fitted the envelope again.

In mathematics, a group is a set with an operation that combines any two of its elements into a third, such that the operation is
associative, an identity element exists, and every element has an inverse. The integers with addition are a group; so are the rotations of a
cube, of which there are twenty-four. The first of these groups is commutative, the second is not.
)";

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_SAMPLE_TEXT_H_
