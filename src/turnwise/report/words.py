"""The result in plain sentences: who leads, how surely, and which metric agrees with people."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from turnwise.problems import counted
from turnwise.report.digest import Digest
from turnwise.report.labels import interval, listed, number

# Rivals that a sentence names; of more it says how many they are.
MOST_NAMED = 4
# What is less probable than this is not put down to chance.
CHANCE = 0.05


@dataclass(frozen=True)
class Leader:
    """The best system on a metric, and those that it is not shown to be better than."""

    system: str
    rivals: tuple[str, ...]
    has_intervals: bool

    @property
    def clear(self) -> bool:
        """Return whether it is better than every other system."""
        return not self.rivals


def leader(found: Digest, key: str) -> Leader | None:
    """Who is best on a metric; None without a direction, without rivals, or where the best are equal."""
    better = found.better[key]
    known = {
        system: value
        for system in found.systems
        if (value := found.values.get((system, key))) is not None and value.value is not None
    }
    if better is None or len(known) < 2:
        return None
    ordered = sorted(known, key=lambda system: known[system].value or 0.0, reverse=better)
    best = ordered[0]
    if known[best].value == known[ordered[1]].value:
        return None
    rivals = tuple(system for system in ordered[1:] if found.verdicts.get((key, best, system)) != "better")
    return Leader(best, rivals, all(value.low is not None for value in known.values()))


def headlines(found: Digest) -> list[Markup]:
    """Return the few sentences that a colleague should read first."""
    return [*_who_leads(found), *_no_direction(found), *_people(found), *_gaps(found)]


def _who_leads(found: Digest) -> list[Markup]:
    if len(found.systems) < 2:
        if not found.systems:
            return [Markup("No row could be read, so there is nothing to compare.")]
        only = Markup("One system, {}: its values stand below, and there is nothing to compare them with.")
        return [only.format(_strong(found.systems[0]))]
    leaders = {key: best for key in found.metrics if (best := leader(found, key)) is not None}
    wins: dict[str, list[str]] = {}
    for key, best in leaders.items():
        wins.setdefault(best.system, []).append(key)
    said = []
    for system, keys in sorted(wins.items(), key=lambda item: -len(item[1])):
        clear = [key for key in keys if leaders[key].clear]
        open_ = [key for key in keys if not leaders[key].clear and leaders[key].has_intervals]
        unsure = [key for key in keys if not leaders[key].clear and not leaders[key].has_intervals]
        score = f"{len(keys)} of {counted(len(leaders), 'metric')}"
        sentence = Markup("{} has the best value on {}.").format(_strong(system), score)
        if clear:
            sentence += Markup(" It is better than every other system on {}.").format(listed(clear))
        if open_:
            rivals = [name for name in found.systems if any(name in leaders[key].rivals for key in open_)]
            names = listed([_strong(rival) for rival in rivals])
            if len(rivals) > MOST_NAMED:
                names = counted(len(rivals), "other system")
            sentence += Markup(" On {} it is not shown to be better than {}.").format(
                listed(open_),
                Markup(names),  # noqa: S704 - every name in it is escaped already
            )
        if unsure:
            sentence += Markup(" On {} some systems have too few turns for an interval.").format(listed(unsure))
        said.append(sentence)
    equal = [key for key in found.metrics if found.better[key] is not None and key not in leaders]
    equal = [key for key in equal if sum(_value(found, system, key) is not None for system in found.systems) > 1]
    if equal:
        said.append(Markup("No system is ahead on {}: the best values are equal.").format(listed(equal)))
    return said


def _no_direction(found: Digest) -> list[Markup]:
    said = []
    for key in found.metrics:
        known = [(value, s) for s in found.systems if (value := _value(found, s, key)) is not None]
        if found.better[key] is None and len(known) > 1 and min(known)[0] < max(known)[0]:
            (low, lowest), (high, highest) = min(known), max(known)
            text = Markup("On {}, where neither end is better, systems range from {} ({}) to {} ({}).")
            places = found.places[key]
            said.append(text.format(key, number(low, places), lowest, number(high, places), highest))
    return said


def _people(found: Digest) -> list[Markup]:
    quality = found.main_quality
    pairs = {
        key: pair
        for (key, name), pair in found.human_correlations.items()
        if name == quality and pair.value is not None
    }
    if not pairs or quality is None:
        return []
    # A metric that falls as quality rises agrees with people when the correlation is negative.
    agreement = {key: (pair.value or 0.0) * (-1 if found.better[key] is False else 1) for key, pair in pairs.items()}
    falling = sorted((key for key in agreement if agreement[key] > 0), key=lambda key: -agreement[key])
    if not falling:
        return [Markup("No metric agrees with people’s {} ratings.").format(_strong(quality))]
    # Few turns may have the highest correlation, and by chance; then another metric may agree for all that.
    best = next((key for key in falling if _beyond_chance(found, key, quality)), None)
    if best is None:
        text = Markup("No metric agrees with people’s {} ratings beyond chance on these rows; the best is {} ({}).")
        return [text.format(_strong(quality), _strong(falling[0]), _agreement(found, falling[0], quality))]
    text = Markup("Of the metrics{}, {} agrees best with people’s {} ratings ({}).")
    of_those = "" if best == falling[0] else " that agree beyond chance"
    sentence = text.format(of_those, _strong(best), _strong(quality), _agreement(found, best, quality))
    if not _beyond_chance(found, best, quality, tried=len(pairs)):
        sentence += Markup(" The best of {} may reach that by chance.").format(counted(len(pairs), "metric"))
    return [sentence]


def _agreement(found: Digest, key: str, quality: str) -> str:
    pair, ends = found.human_correlations[key, quality], found.human_interval(key, quality)
    between = f"95 % interval {interval(ends.low, ends.high, 2)}, " if ends else ""
    return f"Spearman {number(pair.value, 2)}, {between}over {counted(pair.n, found.rated.unit)}"


def _beyond_chance(found: Digest, key: str, quality: str, tried: int = 1) -> bool:
    """Return whether both p (for few rows) and the interval (for rows that are alike) exclude chance."""
    pair = found.human_correlations[key, quality]
    if pair.p is None or pair.p * tried > CHANCE:
        return False
    ends = found.human_interval(key, quality, level=1 - CHANCE / tried)
    return ends is not None and not ends.low <= 0 <= ends.high


def _gaps(found: Digest) -> list[Markup]:
    said = []
    if found.is_sample:
        turns = f"{len(found.turns):,} of {counted(found.all_turns, 'turn')}"
        text = Markup("Values of systems are of all turns; what is said of turns and ratings is of a sample, {}.")
        said.append(text.format(turns))
    if found.all_unread:
        rows = counted(found.all_unread, "row")
        said.append(Markup("{} could not be read; the reasons stand at the end.").format(rows))
    silent = [key for key in found.metrics if all(_value(found, s, key) is None for s in found.systems)]
    if silent and found.systems:
        said.append(Markup("There is no score at all from {}.").format(listed(silent)))
    return said


def _value(found: Digest, system: str, key: str) -> float | None:
    value = found.values.get((system, key))
    return value.value if value is not None else None


def _strong(name: str) -> Markup:
    return Markup("<strong><bdi>{}</bdi></strong>").format(name)
