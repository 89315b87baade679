//! The groups of a bucket: a row each, however many units it has.

use nats_elect::ObservedGroup;

use super::MOST_NAMES;
use crate::fleet::{Groups, Member, Watched, ranges};
use crate::text::{clean, cut, lasted};
use crate::unowned::{UNCONFIRMED, lives};

/// Of the names of units without an owner the beginning is shown, in characters.
const SHOWN: usize = 60;

pub struct Group {
    /// In the page.
    pub id: String,
    pub name: String,
    pub kind: Kind,
    pub sign: &'static str,
    pub class: &'static str,
    pub state: String,
    pub units: usize,
    /// The units without an owner, and those of which that is not known.
    pub unowned: usize,
    pub without: Vec<String>,
    pub members: Vec<Share>,
    pub more_members: usize,
}

/// How urgent a group is: the most urgent ones come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Unowned,
    Doubtful,
    Owned,
}

/// What a member owns.
pub struct Share {
    pub sign: Option<&'static str>,
    pub text: String,
    /// Of what the member has that owns most.
    pub percent: usize,
}

/// The groups of a bucket, those with units that have no owner first.
pub fn all(view: &Watched, bucket: usize) -> Vec<Group> {
    let groups = view.groups.groups();
    let each = groups.all.groups.iter();
    let mut rows: Vec<_> = each
        .map(|(name, group)| row(view, bucket, &groups, name, group))
        .collect();
    rows.sort_by_key(|row| row.kind);
    rows
}

fn row(view: &Watched, bucket: usize, groups: &Groups, name: &str, group: &ObservedGroup) -> Group {
    let lacking = groups.lacking(group);
    let unowned: usize = groups.unowned(group).values().sum();
    let doubtful = lacking.get(UNCONFIRMED).map_or(0, Vec::len);
    let kind = match (unowned, unowned - doubtful) {
        (0, _) if group.kind.is_some() => Kind::Owned,
        (0, _) => Kind::Unowned,
        (_, 0) => Kind::Doubtful,
        _ => Kind::Unowned,
    };
    let (sign, class) = match kind {
        Kind::Owned => ("●", "good"),
        Kind::Doubtful => ("◌", "doubtful"),
        Kind::Unowned => ("✗", "bad"),
    };
    let state = match kind {
        Kind::Owned => "all owned".into(),
        Kind::Doubtful => format!("{doubtful} unconfirmed"),
        Kind::Unowned if unowned == 0 => "no record".into(),
        Kind::Unowned => format!("{unowned} without owner"),
    };
    let without = lacking.iter().map(|(why, units)| {
        let why = why.replace('_', " ");
        format!("{} {why}: {}", units.len(), cut(&ranges(units), SHOWN))
    });
    let longest = view.groups.unowned_for(name).filter(|it| !it.is_zero());
    let longest = longest.map(|it| format!("for up to {}", lasted(it)));
    let mut members = Member::all(&groups.all, name, group);
    members.sort_by_key(|member| lives(member.seen));
    let most = members.iter().map(|it| it.units.len()).max().unwrap_or(0);
    let more_members = members.len().saturating_sub(MOST_NAMES);
    members.truncate(MOST_NAMES);
    Group {
        id: format!("g{bucket}-{}", clean(name)),
        name: clean(name),
        kind,
        sign,
        class,
        state,
        units: group.unit_count(),
        unowned,
        without: without.chain(longest).map(|it| clean(&it)).collect(),
        members: members.iter().map(|it| share(it, most)).collect(),
        more_members,
    }
}

fn share(member: &Member<'_>, most: usize) -> Share {
    let units = member.units.len();
    let mut words = vec![units.to_string()];
    words.extend((!lives(member.seen)).then(|| "not seen alive".to_owned()));
    words.extend(member.seen.cordoned.then(|| "cordoned".to_owned()));
    Share {
        sign: (!lives(member.seen)).then_some("⚠"),
        text: format!("{}: {}", clean(&member.name()), words.join(", ")),
        percent: units * 100 / most.max(1),
    }
}
