// What `swivel calibrate` runs a model on when it is given no text: prose, code, dialogue, tables, lists and other languages, so that no
// kind of token is foreign to the moments. Written for this purpose; nothing repeats, since repetition makes heads that copy look at
// little else.
#ifndef SWIVEL_CLI_CALIBRATION_TEXT_H_
#define SWIVEL_CLI_CALIBRATION_TEXT_H_

namespace swivel::cli {

inline constexpr char kCalibrationText[] =
    R"(The lighthouse at Skerrin stood on a rock that disappeared twice a day. At high water it seemed to rise from nothing, and the
keepers, who were paid by the quarter and fed by whatever boat dared to come near, used to say that they lived on a candle stuck in the sea.
Of the four men who served there in the last winter before the light was made automatic, only one, Tobias Wren, kept a diary. It is a short
book. He wrote down the wind, the state of the lamp, the number of ships, and once, on the ninth of January, a single sentence about himself:
"I have begun to answer the foghorn."

His daughter gave the diary to the museum in 1974, together with a brass barometer and a chess set that lacked the white queen. The curator
of that time was not interested in lighthouses. She put the book into a box with the papers of a bankrupt herring company, where it remained
until the building was sold. What we know about Skerrin therefore depends on an accident: the new owner wanted the boxes out of the cellar
before the plasterers came, and the student who carried them to the van was curious enough to open one.

Granite is not one rock but a family. All of its members cooled slowly, deep below the surface, and so had time to grow crystals that can be
seen without a lens: glassy quartz, milky or pink feldspar, and flakes of dark mica. How large the crystals are tells how slow the cooling
was. Where molten rock reached the surface it froze in hours, and the same mixture of elements became rhyolite, in which nothing can be told
apart. Between the two lie dykes and sills, sheets of magma that were caught halfway. Builders prize granite because water hardly enters it;
at the same time it is the feldspar in it that, over ten thousand years of weak acid rain, rots to the white clay of which porcelain is made.

"You moved the meeting again," said Ines.
"I moved it once. The second time was the calendar."
"The calendar does not move things by itself, Paul."
"It does if somebody in Lisbon changes the room." He turned the screen so that she could see it. "Look: Tuesday, eleven o'clock, room four.
Then it says, updated by facilities, and suddenly it is Thursday at nine."
She read it twice. "And nobody thought of asking us?"
"They asked the room."
"What did the room say?"
"The room accepted."
For the first time that morning she laughed. "All right. Thursday at nine. But I am not bringing the figures for March; they are not final, and
if I show a number that is not final, it will be in a newspaper by the weekend."
"Bring February, then, and look mysterious."

# inventory.py: keeps count of what is on the shelves
import csv
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass
class Item:
    code: str
    name: str
    price_cents: int
    tags: set[str] = field(default_factory=set)


class Inventory:
    def __init__(self):
        self._items = {}
        self._count = defaultdict(int)

    def add(self, item, count=1):
        if count <= 0:
            raise ValueError(f"count must be positive, not {count}")
        self._items.setdefault(item.code, item)
        self._count[item.code] += count

    def remove(self, code, count=1):
        if self._count[code] < count:
            raise KeyError(f"only {self._count[code]} of {code} left")
        self._count[code] -= count

    def value(self):
        """Total value in cents."""
        return sum(self._items[code].price_cents * n for code, n in self._count.items())

    @classmethod
    def load(cls, path):
        inventory = cls()
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                tags = set(filter(None, row["tags"].split("|")))
                inventory.add(Item(row["code"], row["name"], int(row["price"]), tags), int(row["count"]))
        return inventory

| river     | length (km) | source             | mouth          | mean flow (m3/s) |
|-----------|------------:|--------------------|----------------|-----------------:|
| Danube    |       2,850 | Black Forest       | Black Sea      |            6,500 |
| Rhine     |       1,233 | Lake Toma          | North Sea      |            2,900 |
| Loire     |       1,006 | Massif Central     | Bay of Biscay  |              835 |
| Po        |         652 | Monviso            | Adriatic Sea   |            1,540 |
| Tagus     |       1,007 | Sierra de Albarracin | Atlantic     |              500 |
| Thames    |         346 | Kemble             | North Sea      |               66 |

Question: A tank holds 240 litres. One pipe fills it in 6 hours, another empties it in 10. Both are open. After how many hours is it full?
Answer: The first pipe brings 240 / 6 = 40 litres an hour, the second takes 240 / 10 = 24. Together the tank gains 16 litres an hour, so it
is full after 240 / 16 = 15 hours.

Question: Which is larger, 3^40 or 4^30?
Answer: Take the tenth root of both: 3^4 = 81 and 4^3 = 64. Since 81 > 64, 3^40 is larger.

User: my bread comes out dense like a brick, what am i doing wrong?? i use 500 g flour, 300 ml water, 7 g dry yeast, and bake 40 min at 180
Assistant: Your proportions are fine, so the likely causes are time and heat. Three things to try, in this order:
1. Let the dough rise until it has doubled, not for a fixed time. In a cool kitchen that can be two hours instead of one.
2. Shape it gently and let it rise once more, 30 to 40 minutes, before it goes into the oven.
3. Bake hotter: 230 degrees for 15 minutes with a bowl of hot water below, then 200 degrees for another 20 to 25 minutes.
If it is still dense after that, check the date on the yeast: stir a spoonful into warm water with a little sugar; it should foam in ten minutes.
User: it foamed! second rise was the problem i think, i never did that
Assistant: That would explain it. Without a second rise the gas that you pressed out while shaping has no time to come back.

/* Reads one line into a buffer of its own; the caller frees it. Returns NULL at the end of the file or when memory runs out. */
char *read_line(FILE *in, size_t *length) {
  size_t capacity = 64, used = 0;
  char *line = malloc(capacity);
  if (line == NULL) return NULL;
  for (int c; (c = fgetc(in)) != EOF;) {
    if (used + 1 == capacity) {
      char *larger = realloc(line, capacity *= 2);
      if (larger == NULL) { free(line); return NULL; }
      line = larger;
    }
    if (c == '\n') break;
    line[used++] = (char)c;
  }
  if (used == 0 && feof(in)) { free(line); return NULL; }
  line[used] = '\0';
  *length = used;
  return line;
}

Als der Regen nach elf Tagen aufhoerte, fand man im Garten des Pfarrhauses eine Glocke, von der niemand etwas wusste. Sie lag mit der
Oeffnung nach oben im Beet, voll Wasser, und drei Kroeten sassen darin. Der Kuester meinte, sie stamme aus dem Dreissigjaehrigen Krieg; die
Lehrerin las die Jahreszahl und sagte, der Krieg muesse dann laenger gedauert haben als gedacht.

Le train de nuit ne s'arrete plus a Valmont. On a garde la gare, l'horloge et le banc, et chaque soir, vers onze heures, le vieux chef de gare
sort sur le quai avec sa lanterne. Il dit que ce n'est pas pour le train. C'est pour les voyageurs qui dorment: ils verront une lumiere
passer dans leur reve, et ils sauront qu'ils ne sont pas perdus.

La receta de mi abuela no tiene medidas. Dice: harina, la que pida la masa; agua, la que quepa en la mano; sal, un recuerdo. Durante mucho tiempo pense
que era una forma de no contarla. Ahora que la hago yo, veo que lo contaba todo.

From: m.okafor@example.org
To: building-committee@example.org
Subject: Roof, again

Dear all,
the second estimate has arrived: 18,400 for the whole roof, or 6,950 for the north side only, scaffolding included in both. The firm can begin
on 3 May and asks for a third in advance. I recommend the whole roof. The north side leaks today, but the south side is of the same age and
has had the sun; we would pay for a second scaffold within five years. Please answer by Friday, yes or no, so that I can sign or look further.
Best wishes, Miriam

CREATE TABLE loans (
  id         INTEGER PRIMARY KEY,
  book_id    INTEGER NOT NULL REFERENCES books(id),
  reader_id  INTEGER NOT NULL REFERENCES readers(id),
  taken_on   DATE NOT NULL,
  due_on     DATE NOT NULL,
  returned   DATE,
  CHECK (due_on > taken_on)
);
SELECT readers.name, COUNT(*) AS late FROM loans JOIN readers ON readers.id = loans.reader_id
WHERE loans.returned IS NULL AND loans.due_on < CURRENT_DATE GROUP BY readers.name HAVING COUNT(*) >= 2 ORDER BY late DESC;

{"station": "Harbour East", "sensors": [{"id": 17, "kind": "wind", "unit": "m/s", "values": [3.2, 4.8, 4.1, 7.9]}, {"id": 18, "kind": "pressure",
"unit": "hPa", "values": [1009.4, 1008.8, 1008.1, 1006.7]}], "calibrated": true, "note": null}

Theorem. There are infinitely many primes of the form 4n + 3.
Proof. Suppose that p_1, ..., p_k are all of them, and let N = 4 p_1 p_2 ... p_k - 1. N is odd and leaves the remainder 3 when divided by 4. A
product of numbers that leave the remainder 1 leaves the remainder 1, so some prime factor q of N leaves the remainder 3. But q is none of the
p_i, for each of them divides N + 1 and therefore not N. This contradicts the assumption.

How to change the cartridge of a dripping tap
  - Close the valve under the basin and open the tap until no water comes.
  - Prise off the coloured cap with a knife; below it is a screw. Take it out and lift the handle straight up.
  - Unscrew the dome by hand. If it will not turn, wrap a cloth around it and use pliers, gently: chrome scratches.
  - Pull out the old cartridge and take it with you to the shop. There are dozens of sizes, and a photograph will not do.
  - Grease the new seals, put everything back in reverse order, open the valve slowly, and watch for a minute.

Minutes of the parish council, 14 October. Present: seven members, two guests. Apologies: Mr Lund. (1) The minutes of September were approved
with one correction: the bench is to be placed by the pond, not in it. (2) Mrs Adeyemi reported on the bus. The operator will keep the evening
service until the spring if at least nine people use it each day; at present the average is 7.4. Members agreed to use it. (3) The playground:
the swing has passed its inspection, the slide has not. (4) Any other business: the geese.

In economics a price is information. When frost kills the coffee trees of one province, nobody has to tell drinkers on the other side of the
world to be careful with beans; the price tells them, and it tells growers elsewhere to plant more. The argument is elegant, and it is true as
far as it goes. It goes less far when those who receive the message cannot act on it, because they have no land, no credit or no time, or when
the price leaves out a cost that is borne by somebody who takes no part in the trade. Then the information is correct and the answer wrong.

def merge_sorted(left, right):
    result, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            result.append(left[i]); i += 1
        else:
            result.append(right[j]); j += 1
    return result + left[i:] + right[j:]

$ git log --oneline -4
8c1f0e2 parser: accept a trailing comma in lists
41aa7d9 tests: run the slow ones only at night
f09b3c6 docs: say what happens when the disk is full
2d77e15 cache: drop entries that are older than a week
$ make test 2>&1 | tail -2
ok 212 - rename over an existing file
FAILED 1 of 212: 98 - lock is released when the owner dies (expected 0, got 1)

The old map had a blank in the north, and in the blank, in a hand as fine as an engraver's, somebody had written: here the snow has no name.
Captain Brandt bought it for the sentence. He sailed in April with nineteen men and a dog called Tar, and by midsummer they had seen the coast
that nobody had drawn, grey cliffs streaked with white, and above them the ice that fed the streaks. He named a cape after his sister and a bay
after the dog. When, much later, a geographer asked him why he had left the rest of the sheet empty, he said that he had promised the map.

Glossary. Amplitude: the largest distance from the middle position. Damping: loss of energy in each swing. Frequency: swings in a second, measured
in hertz. Phase: how far through its swing a thing is, as an angle. Resonance: large swings that come from small pushes at the right moment.
)";

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_CALIBRATION_TEXT_H_
