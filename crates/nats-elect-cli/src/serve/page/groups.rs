//! The groups of a bucket: a row each, however many units it has.

use nats_elect::ObservedGroup;

use super::MOST_NAMES;
use crate::fleet::{GroupState, Groups, Member, Urgency, Watched, lives, ranges};
use crate::text::{clean, cut, lasted};

/// Of the names of units without an owner the beginning is shown, in characters.
const SHOWN: usize = 60;

pub struct Group {
    /// In the page.
    pub id: String,
    pub name: String,
    pub urgency: Urgency,
    pub sign: &'static str,
    pub class: &'static str,
    pub state: String,
    pub units: usize,
    /// Without an owner that is known to live.
    pub unowned: usize,
    pub without: Vec<String>,
    pub members: Vec<Share>,
    pub more_members: usize,
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
    rows.sort_by_key(|row| row.urgency);
    rows
}

fn row(view: &Watched, bucket: usize, groups: &Groups, name: &str, group: &ObservedGroup) -> Group {
    let lacking = groups.lacking(group);
    let stands = GroupState::of(groups, group);
    let urgency = stands.urgency();
    let (sign, class) = super::sign(urgency);
    let without = lacking.iter().map(|(why, units)| {
        let why = why.replace('_', " ");
        format!("{} {why}: {}", units.len(), cut(&ranges(units), SHOWN))
    });
    let longest = view.groups.unowned_for(name).filter(|it| !it.is_zero());
    let longest = longest.map(|it| format!("for up to {}", lasted(it)));
    let mut members = Member::all(group);
    members.sort_by_key(|member| lives(member.seen));
    let most = members.iter().map(|it| it.units.len()).max().unwrap_or(0);
    let more_members = members.len().saturating_sub(MOST_NAMES);
    members.truncate(MOST_NAMES);
    Group {
        id: format!("g{bucket}-{}", clean(name)),
        name: clean(name),
        urgency,
        sign,
        class,
        state: state(stands),
        units: stands.units,
        unowned: stands.unowned + stands.unconfirmed,
        without: without.chain(longest).map(|it| clean(&it)).collect(),
        members: members.iter().map(|it| share(it, most)).collect(),
        more_members,
    }
}

/// In a few words, which have to fit on a narrow screen.
fn state(stands: GroupState) -> String {
    match stands.urgency() {
        Urgency::Good => "all owned".into(),
        Urgency::Doubtful if stands.unconfirmed == 0 => format!("{} changing", stands.changing),
        Urgency::Doubtful => format!("{} unconfirmed", stands.unconfirmed),
        Urgency::Bad if stands.unowned > 0 => {
            format!("{} without owner", stands.unowned + stands.unconfirmed)
        }
        Urgency::Bad if stands.understood => "no member".into(),
        Urgency::Bad => "no map".into(),
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
