//! A checker for each rule: what members do, beside all that was ever stored.
//!
//! What is checked here is stricter than that no two act: a rule that is broken is noticed where it does
//! no harm yet.

use nats_elect_core::Moment;
use nats_elect_core::assignment::{Epoch, Key, LONGEST_LEASE, Map, MemberRecord, Units, Value};
use nats_elect_core::member::UnitId;
use nats_elect_core::token::FencingToken;

use crate::event::Sent;
use crate::node::{Handler, Node};
use crate::stream::{Entry, Stream};
use crate::world::World;

/// Rules 1 and 6: a handler begins.
pub fn begins(
    now: Moment,
    stream: &Stream,
    node: &Node,
    unit: &UnitId,
    handler: &Handler,
) -> Result<(), String> {
    let (number, epoch, token) = (node.number, handler.epoch, handler.token);
    let told = |what: &str| Err(format!("n{number} begins {unit:?} by {token:?} {what}"));
    if handler.until <= now {
        return told("after its lease");
    }
    if node.past.leaves {
        return told("although it leaves");
    }
    if now < node.past.waits_until {
        return told("although it waits for leases of another bucket");
    }
    if node
        .past
        .acknowledged
        .is_some_and(|it| it.0 == epoch && it.1 > token.sequence)
    {
        return told("and acknowledged a later map");
    }
    if token.epoch != node.bucket {
        return told("of another bucket");
    }
    if node.bucket != stream.bucket {
        return Ok(());
    }
    match stream.map_at(token.sequence) {
        Some(map) => may_act(stream, map, unit, epoch).map_or(Ok(()), |why| told(&why)),
        None => told("which is no map"),
    }
}

/// Why an epoch must not act on a unit by a map.
fn may_act(stream: &Stream, map: &Map, unit: &UnitId, epoch: Epoch) -> Option<String> {
    let Some(place) = unit
        .place_in(map)
        .filter(|it| map.owner(*it) == Some(epoch))
    else {
        return Some("which it does not own there".into());
    };
    let mut waits = map.waits_for(place);
    let others = waits.find(|(other, since)| {
        let key = World::member_key(*other);
        !stream.was_clear(&key, unit.generation, unit.unit(), *since)
    });
    others.map(|(other, since)| format!("before {other} is clear for {since}"))
}

/// Rule 2: a member sends its record.
pub fn acknowledges(
    now: Moment,
    stream: &Stream,
    node: &Node,
    record: &MemberRecord,
) -> Result<(), String> {
    let (number, epoch, follows) = (node.number, record.epoch, record.follows);
    if node
        .past
        .acknowledged
        .is_some_and(|it| it.0 == epoch && it.1 > follows)
    {
        return Err(format!(
            "n{number} follows an older map than it acknowledged"
        ));
    }
    let here = FencingToken {
        epoch: stream.bucket,
        sequence: follows,
    };
    for (unit, it) in node.acting(now).filter(|(_, it)| it.epoch == epoch) {
        if it.token >= here || record.excepts.contains(unit.generation, unit.unit()) {
            continue;
        }
        let why = match stream.at(follows).map(|it| &it.value) {
            Some(Value::Map(map)) => may_act(stream, map, unit, epoch),
            Some(Value::LaterMap) => Some("which it can't follow".into()),
            _ => None,
        };
        if let Some(why) = why {
            return Err(format!(
                "n{number} acknowledges {follows}, acts on {unit:?} {why}"
            ));
        }
    }
    Ok(())
}

/// Rules 3 and 5: a member sends a map. To whom it gives a unit can have it, as far as the member was
/// shown, and it writes over nothing that it can't follow. A later map that it can follow ends that.
///
/// Where writes were lost it may know of owners that nothing else tells of.
pub fn writes(stream: &Stream, node: &Node, map: &Map, has_lost: bool) -> Result<(), String> {
    let number = node.number;
    let acknowledged = node.past.acknowledged.map_or(0, |it| it.1);
    let last = stream.at(acknowledged.max(map.over()));
    let last = last.filter(|it| matches!(it.value, Value::Map(_)));
    let is_later = |it: &Entry| it.value == Value::LaterMap;
    if last.is_none() && stream.at(acknowledged).is_some_and(is_later) {
        return Err(format!("n{number} writes over a map that it can't follow"));
    }
    let shown = stream.log.get(..node.cursor).and_then(<[Entry]>::last);
    let shown = shown.map_or(0, |it| it.sequence);
    let has_owners = |it: &Entry| match &it.value {
        Value::Map(it) => it.has_owners(),
        it => *it == Value::LaterMap,
    };
    let waits = |it: &Key| {
        let entry = stream.get(it).filter(|it| it.sequence <= shown);
        let entry = entry.filter(|_| !stream.was_over(it));
        let is_recent = |at, ttl| stream.now.since(at) < ttl;
        entry.is_some_and(|entry| matches!(&entry.value, Value::Member(it) if it.waits && is_recent(entry.at, it.ttl)))
    };
    let is_first = !has_lost && map.has_owners() && !stream.log.iter().any(has_owners);
    if is_first && stream.keys().iter().any(waits) {
        return Err(format!(
            "n{number} gives units their first owners while a member waits"
        ));
    }
    let Some(before) = stream.map_at(map.over()) else {
        return Ok(());
    };
    let is_same = before.generation() == map.generation();
    for place in (0..before.units().count()).filter(|_| is_same) {
        let Some(owner) = map
            .owner(place)
            .filter(|it| before.owner(place) != Some(*it))
        else {
            continue;
        };
        let told = |epoch: Epoch| {
            let key = World::member_key(epoch);
            let entry = stream.get(&key).filter(|_| !stream.was_over(&key))?;
            match &entry.value {
                Value::Member(record) => Some((entry.sequence, record)),
                _ => None,
            }
        };
        // What the watch has not shown yet may have been read, or not.
        let Some((at, record)) = told(owner).filter(|it| it.0 <= shown) else {
            continue;
        };
        let unit = UnitId::at(before, place);
        let excludes = |it: &UnitId| record.unable.contains(it.generation, it.unit());
        let is_unable = unit.as_ref().is_some_and(excludes);
        let stays = before
            .owner(place)
            .and_then(told)
            .is_some_and(|it| !it.1.leaves);
        let is_behind = at > before.sequence() && record.follows < before.sequence();
        if is_behind || record.waits || (stays && is_unable) {
            return Err(format!(
                "n{number} gives {unit:?} to {owner}, which can't have it"
            ));
        }
    }
    Ok(())
}

/// The earlier maps with which a new one is compared.
const COMPARED: usize = 12;

/// Rules 3, 5 and 7: a map is stored. The owners of earlier ones own their units here, are in `from`,
/// acknowledged something later, or are over.
///
/// An owner from before lost writes is over once the longest lease is. Maps from before that say nothing
/// then: nobody may know them any more.
pub fn follows(stream: &Stream, map: &Map, lost_until: Moment) -> Result<(), String> {
    let from = stream.map_at(map.over());
    let is_followed = |number| {
        let follows = |it: &Entry| matches!(&it.value, Value::Member(it) if it.follows >= number);
        let keys = stream.keys();
        let mut living = keys.iter().filter(|it| !stream.was_over(it));
        living.any(|it| stream.get(it).is_some_and(follows))
    };
    let key = World::map_key();
    let earlier = stream.history(&key).filter_map(|it| match &it.value {
        Value::Map(before) if before.sequence() < map.sequence() && it.at >= lost_until => {
            Some(before)
        }
        _ => None,
    });
    for before in earlier.take(COMPARED) {
        for place in 0..before.units().count() {
            let Some(owner) = before.owner(place) else {
                continue;
            };
            let (key, number) = (World::member_key(owner), before.sequence());
            let is_waited_for = |place: u32| {
                let mut waits = map.waits_for(place);
                map.owner(place) == Some(owner)
                    || waits.any(|(it, since)| it == owner && since > number)
            };
            let is_later =
                |it: &Entry| matches!(&it.value, Value::Member(it) if it.follows > number);
            let unit = UnitId::at(before, place);
            let stays = unit.as_ref().and_then(|it| it.place_in(map));
            let is_generation = before.generation() == map.generation();
            let may_lack = is_generation && matches!(map.units(), Units::Names(_));
            let is_in = match stays {
                Some(place) => is_waited_for(place),
                None if may_lack => false,
                None => (0..map.units().count()).all(is_waited_for),
            };
            // A collect may lack a name, if nobody who may live follows a map that has it.
            let place_in = |it: &Map| unit.as_ref()?.place_in(it);
            let lacks = || from.map_or_else(|| !is_followed(number), |it| place_in(it).is_none());
            let is_fine = is_in
                || (stays.is_none() && may_lack && lacks())
                || stream.was_over(&key)
                || stream.history(&key).any(is_later);
            if !is_fine {
                let number = map.sequence();
                return Err(format!(
                    "map {number} forgets {owner}, which owned {unit:?} in {}",
                    before.sequence()
                ));
            }
        }
    }
    Ok(())
}

/// Rule 7: a name that enters waits, at least for the member that writes the map.
pub fn enters(stream: &Stream, map: &Map) -> Result<(), String> {
    let from = stream.map_at(map.over());
    let Some(from) = from.filter(|it| it.generation() == map.generation()) else {
        return Ok(());
    };
    let mut new = from.units().count()..map.units().count();
    let is_waiting = new.all(|place| map.waits_for(place).next().is_some());
    let number = map.sequence();
    let why = || format!("a name enters by map {number}, and waits for nobody");
    is_waiting.then_some(()).ok_or_else(why)
}

/// Rule 4: *ended* is written by another process. It watched what it overwrites for the lease in it.
///
/// Where writes were lost, a foreign value, or a later version's, may stand again where it stood: nobody
/// can tell the two apart.
pub fn ends(
    now: Moment,
    stream: &Stream,
    node: &Node,
    former: Option<&Entry>,
    write: &Sent,
) -> Result<(), String> {
    let Key::Member(_, epoch) = &write.key else {
        return Ok(());
    };
    if write.start != node.start || node.past.claimed.contains(epoch) {
        return Ok(());
    }
    let lease = match former.map(|it| &it.value) {
        Some(Value::Ended | Value::Expiring) => return Ok(()),
        Some(Value::Member(record)) => record.ttl,
        _ => LONGEST_LEASE,
    };
    let stood = |it: &Entry| match it.value {
        Value::Foreign | Value::LaterMember => stream.first_at(it),
        _ => it.at,
    };
    let since = former.map_or(now, stood);
    let is_over = since + lease <= now;
    is_over.then_some(()).ok_or_else(|| {
        format!(
            "n{} ends {epoch} {:?} after its last value",
            node.number,
            now.since(since)
        )
    })
}

/// A lease is extended: by a heartbeat that was shown, from its sending.
pub fn extends(
    node: &Node,
    ttl: std::time::Duration,
    until: Moment,
    proved: Moment,
) -> Result<(), String> {
    let number = node.number;
    if until > proved + ttl {
        return Err(format!("n{number} holds its lease for longer than a ttl"));
    }
    let sent = node.past.beats.iter().filter(|(_, at)| **at == proved);
    let is_shown = sent
        .into_iter()
        .any(|(beat, _)| node.past.shown.contains(beat));
    let why = || format!("n{number} extends its lease by what it was not shown");
    is_shown.then_some(()).ok_or_else(why)
}

/// Rule 6: a member has left.
pub fn leaves(now: Moment, node: &Node) -> Result<(), String> {
    match node.acting(now).next() {
        None => Ok(()),
        Some((unit, _)) => Err(format!("n{} has left, and acts on {unit:?}", node.number)),
    }
}
